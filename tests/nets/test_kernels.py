"""The Triton kernels, run by Triton's interpreter: the same programs as on a GPU, on any machine with Triton. And on a
GPU, where there is one.

All in one process of their own, because the interpreter is chosen when Triton is imported, and without the
type-checking import hook, which Triton's parser does not understand.
"""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
import torch

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
everywhere = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)], scope="module")
pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton, which is for Linux")

_START = """
import json
import sys
import traceback
import torch
from torch.nn import functional as F
from candi.base.rng import Counters, Rng
from candi.nets.triton import launch as kernels
device = sys.argv[1]
torch.set_default_device(device)
"""
# the programs come by the standard input; one that fails leaves its traceback
_END = """
failures = {}
for name, program in json.load(sys.stdin).items():
    torch.manual_seed(0)
    try:
        exec(program, globals().copy())
    except Exception:
        failures[name] = traceback.format_exc()
print(json.dumps(failures))
"""

_CASES = """
def cases():
    # rows and columns that fill no tile, one block and several, an inner dimension that is no multiple of the depth
    for count, size, width, scale in ((1, 2, 8, 1.0), (5, 27, 32, 0.7), (130, 700, 100, 1.0), (3, 1000, 64, 1.3)):
        rows, weight, bias = torch.randn(count, width), 0.3 * torch.randn(size, width), torch.randn(size)
        bias[1] = -torch.inf  # a token that is impossible
        yield rows, weight, bias, scale, (rows.double() @ weight.double().T + bias.double()) * scale
"""

_PROGRAMS: dict[str, str] = {}


@pytest.fixture(scope="module")
def failures(device) -> dict[str, str]:
    environment = os.environ | ({"TRITON_INTERPRET": "1"} if device == "cpu" else {})
    command = [sys.executable, "-c", _START + _CASES + _END, device]
    done = subprocess.run(command, env=environment, input=json.dumps(_PROGRAMS), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


_PROGRAMS["normaliser_is_that_of_dense_float64"] = """
for rows, weight, bias, scale, logits in cases():
    for by_part in (False, True):
        found = kernels.sums(rows, weight, bias, scale, by_part).normaliser()
        torch.testing.assert_close(found.double(), torch.logsumexp(logits, -1), rtol=1e-5, atol=1e-5)
"""


@everywhere
def test_normaliser_is_that_of_dense_float64(failures):
    assert not failures.get("normaliser_is_that_of_dense_float64")


_PROGRAMS["draws_are_those_of_dense_float64"] = """
for rows, weight, bias, scale, logits in cases():
    cumulative = torch.cat([torch.zeros(len(rows), 1, dtype=torch.float64), torch.softmax(logits, -1).cumsum(-1)], -1)
    repeated = 3 if len(rows) < 3 else 1
    rows, cumulative = rows.repeat(repeated, 1), cumulative.repeat(repeated, 1)
    uniform = torch.rand(len(rows), dtype=torch.float64)
    uniform[1::3], uniform[2::3] = 0, 1 - 2.0**-53  # the ends of the interval for a third of the rows each
    drawn = kernels.draw(rows, weight, bias, uniform, scale)
    assert (drawn != 1).all() and (drawn < len(weight)).all()
    below = cumulative.gather(-1, drawn[:, None])[:, 0]
    above = cumulative.gather(-1, drawn[:, None] + 1)[:, 0]
    assert (below - 2e-6 <= uniform).all() and (uniform <= above + 2e-6).all()
"""


@everywhere
def test_draws_are_those_of_dense_float64(failures):
    """The drawn token's interval of the cumulative distribution holds u, up to what float32 logits can move it."""
    assert not failures.get("draws_are_those_of_dense_float64")


_PROGRAMS["draws_follow_the_probabilities_down_to_one_in_a_billion"] = """
tail = torch.tensor([1e-6, 1e-7, 1e-8, 1e-9, 1e-9], dtype=torch.float64)
logits = torch.cat([(1 - tail.sum())[None], tail]).log()
ends = torch.cat([tail.flip(0).cumsum(0).flip(0), torch.zeros(1, dtype=torch.float64)])  # measured from 1
middles = (torch.arange(24, dtype=torch.float64) + 0.5) / 24
left = torch.cat([window * middles for window in (2e-6, 2e-7, 2e-8, 4e-9)])
assert ((left[:, None] - ends[:-1]).abs() > 1e-3 * 4e-9).all()
uniform = 1 - left
drawn = kernels.draw(torch.zeros(len(left), 8), torch.zeros(6, 8), logits.float(), uniform)
expected = (left[:, None] <= ends[:-1]).sum(-1)
assert torch.equal(drawn, expected), (drawn, expected)
assert set(expected.tolist()) == set(range(6))
"""


@everywhere
def test_draws_follow_the_probabilities_down_to_one_in_a_billion(failures):
    """Numbers spread evenly over the last 2e-6, 2e-7, 2e-8 and 4e-9 of the unit interval, where the tail lies: each of
    the 96 draws is the token whose part of the exact cumulative distribution holds its number. Rounding a logit to
    float32 moves the ends of these parts by 2e-6 of their size, and no number lies within 1e-3 of its window of one."""
    assert not failures.get("draws_follow_the_probabilities_down_to_one_in_a_billion")


_PROGRAMS["softmax_is_softmax"] = """
for size in (3, 5000, 9000):
    logits = 5 * torch.randn(4, size)
    logits[:, 1] = -torch.inf
    expected = torch.softmax(logits.double() * 0.7, -1)
    kernels.softmax_(logits, 0.7)
    torch.testing.assert_close(logits.double(), expected, rtol=1e-4, atol=1e-9)
"""


@everywhere
def test_softmax_is_softmax(failures):
    assert not failures.get("softmax_is_softmax")


_PROGRAMS["slope_is_softmax_minus_target"] = """
logits, targets, upstream = torch.randn(7, 5000), torch.randint(5000, (7,)), torch.randn(7)
expected = (torch.softmax(logits, -1) - F.one_hot(targets, 5000)) * upstream[:, None]
kernels.slope_(logits, torch.logsumexp(logits, -1), targets, upstream)
torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-6)
"""


@everywhere
def test_slope_is_softmax_minus_target(failures):
    assert not failures.get("slope_is_softmax_minus_target")


_PROGRAMS["random_numbers_of_many_rows"] = """
def rng(*seeds):
    return Rng(Counters(seeds, torch.device(device)))
# Random123: philox4x32-10 of counter 0 and key 0 begins with 6627e8d5 e169c58d
first = rng(0).uniform(1, 1)
assert first.item() == (0x6627e8d5 >> 8) / 2**24, first
double = rng(0).uniform(1, 1, dtype=torch.float64)
assert double.item() == ((0x6627e8d5 >> 5) * 2**26 + (0xe169c58d >> 6)) / 2**53
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
    assert 0 <= u.min() and u.max() < 1
    # four standard errors of each moment at n = 40,000
    assert abs(u.mean() - 0.5) < 4 * (1 / 12 / n) ** 0.5
    assert abs(z.mean()) < 4 / n**0.5 and abs(z.var() - 1) < 4 * (2 / n) ** 0.5
    assert abs((z.abs() > 1.959964).double().mean() - 0.05) < 4 * (0.05 * 0.95 / n) ** 0.5
    assert abs((u[1:] * u[:-1]).mean() - 0.25) < 4 * (7 / 144 / n) ** 0.5
    bins = torch.histc(u, 16, 0, 1)
    assert ((bins - n / 16) ** 2 / (n / 16)).sum() < 37.7  # chi-square, 15 degrees of freedom: 0.1%
"""


@everywhere
def test_random_numbers_of_many_rows(failures):
    """Philox's published first block; a row depends on its seed and the draws before; laws by moments and tails."""
    assert not failures.get("random_numbers_of_many_rows")
