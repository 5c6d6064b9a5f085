"""What the Triton kernels must compute, for the interpreter on a CPU and for a GPU: each function takes the device.

    python -m tests.nets.kernel_programs cpu|cuda

runs them all in this process, without the type-checking import hook, which Triton's parser does not understand, and
prints the tracebacks of those that fail as JSON.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from candi.base.rng import Counters, Rng
from candi.nets.triton import launch as kernels
from candi.nets.triton.attention import attend_last


def _cases(device: str) -> Iterator[tuple[Tensor, Tensor, Tensor, float, Tensor]]:
    # rows and columns that fill no tile, one block and several, an inner dimension that is no multiple of the depth
    for count, size, width, scale in ((1, 2, 8, 1.0), (5, 27, 32, 0.7), (130, 700, 100, 1.0), (3, 1000, 64, 1.3)):
        rows, weight, bias = (torch.randn(*shape, device=device) for shape in ((count, width), (size, width), (size,)))
        weight *= 0.3
        bias[1] = -torch.inf  # a token that is impossible
        yield rows, weight, bias, scale, (rows.double() @ weight.double().T + bias.double()) * scale


def normaliser_is_that_of_dense_float64(device: str) -> None:
    for rows, weight, bias, scale, logits in _cases(device):
        for by_part in (False, True):
            found = kernels.sums(rows, weight, bias, scale, by_part).normaliser()
            torch.testing.assert_close(found.double(), torch.logsumexp(logits, -1), rtol=1e-5, atol=1e-5)


def draws_are_those_of_dense_float64(device: str) -> None:
    """The drawn token's interval of the cumulative distribution holds u, up to what float32 logits can move it."""
    for rows, weight, bias, scale, logits in _cases(device):
        cumulative = torch.cat(
            [torch.zeros(len(rows), 1, dtype=torch.float64, device=device), torch.softmax(logits, -1).cumsum(-1)], -1
        )
        repeated = 3 if len(rows) < 3 else 1
        rows, cumulative = rows.repeat(repeated, 1), cumulative.repeat(repeated, 1)
        uniform = torch.rand(len(rows), dtype=torch.float64, device=device)
        uniform[1::3], uniform[2::3] = 0, 1 - 2.0**-53  # the ends of the interval for a third of the rows each
        drawn = kernels.draw(rows, weight, bias, uniform, scale)
        assert (drawn != 1).all()
        assert (drawn < len(weight)).all()
        below = cumulative.gather(-1, drawn[:, None])[:, 0]
        above = cumulative.gather(-1, drawn[:, None] + 1)[:, 0]
        assert (below - 2e-6 <= uniform).all()
        assert (uniform <= above + 2e-6).all()


def draws_follow_the_probabilities_down_to_one_in_a_billion(device: str) -> None:
    """Numbers spread evenly over the last 2e-6, 2e-7, 2e-8 and 4e-9 of the unit interval, where the tail lies: each of
    the 96 draws is the token whose part of the exact cumulative distribution holds its number. Rounding a logit to
    float32 moves the ends of these parts by 2e-6 of their size, and no number lies within 1e-3 of its window of one."""
    tail = torch.tensor([1e-6, 1e-7, 1e-8, 1e-9, 1e-9], dtype=torch.float64, device=device)
    logits = torch.cat([(1 - tail.sum())[None], tail]).log()
    ends = torch.cat(
        [tail.flip(0).cumsum(0).flip(0), torch.zeros(1, dtype=torch.float64, device=device)]
    )  # measured from 1
    middles = (torch.arange(24, dtype=torch.float64, device=device) + 0.5) / 24
    left = torch.cat([window * middles for window in (2e-6, 2e-7, 2e-8, 4e-9)])
    assert ((left[:, None] - ends[:-1]).abs() > 1e-3 * 4e-9).all()
    uniform = 1 - left
    drawn = kernels.draw(
        torch.zeros(len(left), 8, device=device), torch.zeros(6, 8, device=device), logits.float(), uniform
    )
    expected = (left[:, None] <= ends[:-1]).sum(-1)
    assert torch.equal(drawn, expected), (drawn, expected)
    assert set(expected.tolist()) == set(range(6))


def softmax_is_softmax(device: str) -> None:
    for size in (3, 5000, 9000):
        logits = 5 * torch.randn(4, size, device=device)
        logits[:, 1] = -torch.inf
        expected = torch.softmax(logits.double() * 0.7, -1)
        kernels.softmax_(logits, 0.7)
        torch.testing.assert_close(logits.double(), expected, rtol=1e-4, atol=1e-9)


def slope_is_softmax_minus_target(device: str) -> None:
    logits, targets, upstream = (
        torch.randn(7, 5000, device=device),
        torch.randint(5000, (7,), device=device),
        torch.randn(7, device=device),
    )
    expected = (torch.softmax(logits, -1) - F.one_hot(targets, 5000)) * upstream[:, None]
    kernels.slope_(logits, torch.logsumexp(logits, -1), targets, upstream)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-6)


def random_numbers_of_many_rows(device: str) -> None:
    """Philox's published first block; a row depends on its seed and the draws before; laws by moments and tails."""

    def rng(*seeds):
        return Rng(Counters(seeds, torch.device(device)))

    # Random123: philox4x32-10 of counter 0 and key 0 begins with 6627e8d5 e169c58d
    first = rng(0).uniform(1, 1)
    assert first.item() == (0x6627E8D5 >> 8) / 2**24, first
    double = rng(0).uniform(1, 1, dtype=torch.float64)
    assert double.item() == ((0x6627E8D5 >> 5) * 2**26 + (0xE169C58D >> 6)) / 2**53
    together, alone = rng(7, 2**62 + 11, 13), rng(2**62 + 11)
    for _ in range(2):
        for make in ("uniform", "normal"):
            for dtype in (torch.float32, torch.float64):
                a, b = (getattr(one, make)(rows, 5, 3, dtype=dtype) for one, rows in ((together, 3), (alone, 1)))
                assert torch.equal(a[1], b[0])
                assert not torch.equal(a[0], a[1])
    shared = rng(1, 2).uniform(6, 2)
    assert torch.equal(shared[:3].flatten(), rng(1).uniform(1, 6).flatten())
    n = 40_000
    for dtype in (torch.float32, torch.float64):
        one = rng(3)
        u, z = one.uniform(1, n, dtype=dtype)[0].double(), one.normal(1, n, dtype=dtype)[0].double()
        assert u.min() >= 0
        assert u.max() < 1
        # four standard errors of each moment at n = 40,000
        assert abs(u.mean() - 0.5) < 4 * (1 / 12 / n) ** 0.5
        assert abs(z.mean()) < 4 / n**0.5
        assert abs(z.var() - 1) < 4 * (2 / n) ** 0.5
        assert abs((z.abs() > 1.959964).double().mean() - 0.05) < 4 * (0.05 * 0.95 / n) ** 0.5
        assert abs((u[1:] * u[:-1]).mean() - 0.25) < 4 * (7 / 144 / n) ** 0.5
        bins = torch.histc(u, 16, 0, 1)
        assert ((bins - n / 16) ** 2 / (n / 16)).sum() < 37.7  # chi-square, 15 degrees of freedom: 0.1%


def one_position_attends_to_all_before_it(device: str) -> None:
    """In float64, at the first position, within a block of positions, at its end and behind it; any width of a head."""
    for width, size in ((32, 300), (48, 300), (64, 128)):
        q = torch.randn(3, 2, 1, width, device=device)
        keys, values = (torch.randn(3, 2, size, width, device=device) for _ in range(2))
        for last in (0, 5, 127, 128, 299):
            if last >= size:
                continue
            position = torch.full((1,), last, device=device)
            found = attend_last(q, keys, values, position)
            seen = [part[:, :, : last + 1].double() for part in (keys, values)]
            torch.testing.assert_close(
                found.double(), F.scaled_dot_product_attention(q.double(), *seen), rtol=1e-5, atol=1e-5
            )


PROGRAMS: dict[str, Callable[[str], None]] = {
    program.__name__: program
    for program in (
        normaliser_is_that_of_dense_float64,
        draws_are_those_of_dense_float64,
        draws_follow_the_probabilities_down_to_one_in_a_billion,
        softmax_is_softmax,
        slope_is_softmax_minus_target,
        random_numbers_of_many_rows,
        one_position_attends_to_all_before_it,
    )
}


def failures(device: str) -> dict[str, str]:
    """The tracebacks of those that fail."""
    found = {}
    for name, program in PROGRAMS.items():
        torch.manual_seed(0)
        try:
            program(device)
        except Exception:
            found[name] = traceback.format_exc()
    return found


if __name__ == "__main__":
    if sys.argv[1] == "cpu":
        assert os.environ.get("TRITON_INTERPRET") == "1", "on a CPU kernels need TRITON_INTERPRET=1"
    print(json.dumps(failures(sys.argv[1])))
