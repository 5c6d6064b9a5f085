"""Kernels, draws and random numbers, also where a user has made the GPU the default device."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from candi.base.rng import Rng
from candi.diffusion.prediction import Prediction
from tests.gpu import DEVICE, GPU


@contextmanager
def default_device(device: str) -> Iterator[None]:
    before = torch.get_default_device()
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(before)


def test_kernels_compute_what_they_must():
    """On a CPU Triton's interpreter does: tests/nets/test_kernels.py."""
    if not GPU:
        return
    from tests.nets.kernel_programs import failures

    for device in ("cpu", "cuda"):  # the default, which must make no difference
        with default_device(device):
            found = failures("cuda")
        assert not found, "\n".join(found.values())


def test_a_row_of_random_numbers_does_not_depend_on_the_others():
    for device in ("cpu", DEVICE):
        with default_device(device):
            together, alone = Rng.per_row([3, 5, 7], DEVICE), Rng.per_row([5], DEVICE)
            for _ in range(2):
                many, one = together.normal(3, 40), alone.normal(1, 40)
                assert many.device.type == DEVICE
                assert torch.equal(many[1], one[0])
                assert not torch.equal(many[0], many[1])


def test_draws_follow_the_probabilities_down_to_one_in_a_billion():
    """The chi-square of tests/diffusion/test_draws.py on the device, 0.9999 quantile for 5 degrees of freedom."""
    tail = torch.tensor([1e-6, 1e-7, 1e-8, 1e-9, 1e-9], dtype=torch.float64)
    for others in (0, 600):
        p = torch.cat([torch.full((others,), 1e-4), (1 - others * 1e-4 - tail.sum())[None], tail])
        rows, columns, window = 200, 1000, 2e-6
        random = torch.Generator().manual_seed(0)
        numbers = 1 - window * (1 - torch.rand(rows, columns, dtype=torch.float64, generator=random))
        everywhere = torch.ones(rows, columns, dtype=torch.bool, device=DEVICE)
        logits = p.log().to(DEVICE, torch.float32).expand(rows, columns, others + 6)
        drawn = Prediction.from_logits(logits, everywhere).draw_with(numbers.to(DEVICE)).cpu()
        expected = rows * columns * torch.cat([(window - tail.sum())[None], tail]) / window
        seen = torch.bincount(drawn.flatten(), minlength=others + 6)[others:]
        assert float(((seen - expected).square() / expected).sum()) < 25.7
