"""Dropout by a hash: masks of the right rate, independent of place, layer and step, the same compiled or not."""

import pytest
import torch

from candi.base.rng import Rng
from candi.nets.dit import DiTSettings
from candi.nets.dropout import Dropout, dropout_seeds, keep_mask
from tests.toys import denoiser_of

N = 2**20
CPU = torch.device("cpu")


def _masks(count: int, p: float) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.stack([keep_mask(torch.empty(N), seed, p) for seed in dropout_seeds(count, CPU)]).double()


@pytest.mark.parametrize("p", [0.001, 0.1, 0.5, 0.9])
def test_the_rate_is_right(p):
    """Each of 16 masks of a million places: six standard errors; so is the spread of their rates, a chi-square."""
    rates = _masks(16, p).mean(1)
    error = (p * (1 - p) / N) ** 0.5
    assert float((rates - (1 - p)).abs().max()) < 6 * error
    assert 4 < float(((rates - (1 - p)) / error).square().sum()) < 40  # 99.9% of 16 degrees of freedom, both ends


def test_places_and_masks_are_independent():
    """Correlations over a million places within six standard errors: of neighbours and of powers of two (a position, a

    row, a sequence further), of two masks, and of two masks at each other's neighbours.
    """
    p = 0.1
    a, b = (_masks(2, p) - (1 - p)) / (p * (1 - p)) ** 0.5
    for distance in (1, 2, 3, 5, 64, 100, 768, 1024, 2**16, 768 * 1024):
        for one, other in ((a, a), (a, b)):
            count = N - distance
            assert abs(float((one[:count] * other[distance:]).mean())) < 6 / count**0.5, distance
    assert abs(float((a * b).mean())) < 6 / N**0.5


def test_bits_of_all_sizes_are_even():
    """Of 2^20 places, each of 256 slices of the hash's range holds as many as the others: a chi-square for 255 degrees

    of freedom, between its 0.0001 and 0.9999 quantiles.
    """
    torch.manual_seed(1)
    for seed in dropout_seeds(4, CPU):
        below = [int(keep_mask(torch.empty(N), seed, (i + 1) / 256 - 1e-12).logical_not().sum()) for i in range(255)]
        counts = torch.tensor([*below, N]).diff(prepend=torch.zeros(1, dtype=torch.long)).double()
        statistic = float(((counts - N / 256).square() / (N / 256)).sum())
        assert 176 < statistic < 347, seed


def test_what_is_kept_is_scaled_and_without_a_seed_nothing_happens():
    x = torch.randn(3, 5, 64)
    seed = dropout_seeds(1, CPU)[0]
    kept = keep_mask(x, seed, 0.25)
    found = Dropout(0.25)(x, seed)
    assert torch.equal(found, torch.where(kept, x / 0.75, torch.zeros(())))
    assert torch.equal(Dropout(0.25)(x, None), x)
    assert torch.equal(Dropout(0.0)(x, seed), x)


def test_a_network_drops_in_training_alone_and_anew_each_time():
    torch.manual_seed(0)
    denoiser = denoiser_of("mdlm", 20, DiTSettings(width=32, blocks=2, heads=2, dropout=0.2), length=8)
    for parameter in denoiser.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    state = denoiser.method.corrupt(torch.randint(20, (4, 8)), torch.full((4,), 0.5), Rng.from_seed(0))
    with torch.no_grad():
        torch.manual_seed(3)
        first, second = denoiser(state).features, denoiser(state).features
        torch.manual_seed(3)
        again = denoiser(state).features
        assert torch.equal(first, again)
        assert not torch.equal(first, second)
        denoiser.eval()
        assert torch.equal(denoiser(state).features, denoiser(state).features)
