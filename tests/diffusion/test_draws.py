import pytest
import torch

from candi.base.rng import Rng
from candi.diffusion.draws import categorical
from candi.diffusion.prediction import Prediction, uniforms

TAIL = torch.tensor([1e-6, 1e-7, 1e-8, 1e-9, 1e-9], dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("others", [0, 600], ids=["one stride", "two strides"])
def test_draws_follow_the_probabilities_down_to_one_in_a_billion(dtype, others):
    """A chi-square over 200,000 draws of `Prediction`, as every method draws, the tail in the last places, where the
    cumulative sum is coarsest.

    The random numbers are taken from the last 2e-6 of the unit interval, where the tail lies, so that a token of
    probability 1e-9 is met 100 times. Tolerance: the 0.9999 quantile of chi-square with 5 degrees of freedom."""
    size = others + 6
    probabilities = torch.cat([torch.full((others,), 1e-4), (1 - others * 1e-4 - TAIL.sum())[None], TAIL])
    rows, columns, window = 200, 1000, 2e-6
    random = torch.Generator().manual_seed(0)
    numbers = 1 - window * (1 - torch.rand(rows, columns, dtype=torch.float64, generator=random))
    everywhere = torch.ones(rows, columns, dtype=torch.bool)
    logits = probabilities.log().to(dtype).expand(rows, columns, size)
    drawn = Prediction.from_logits(logits, everywhere).draw_with(numbers).cpu()
    expected = rows * columns * torch.cat([(window - TAIL.sum())[None], TAIL]) / window
    seen = torch.bincount(drawn.flatten(), minlength=size)[others:]
    assert float(((seen - expected).square() / expected).sum()) < 25.7


def test_the_random_numbers_of_a_draw_are_fine_enough_for_it():
    """Uniform in a thousand bins (chi-square, four standard deviations), and finer than float32's steps of 2^-24."""
    numbers = uniforms(torch.Size((1000, 1000)), Rng.from_seed(0))
    seen = torch.histc(numbers, 1000, 0, 1)
    assert abs(float((seen - 1000).square().sum() / 1000) - 999) < 4 * (2 * 999) ** 0.5
    assert float(((numbers * 2**24) % 1 != 0).double().mean()) > 0.999


def test_draws_over_a_broad_distribution():
    """Chi-square of 200,000 draws with 999 degrees of freedom; mean 999, standard deviation 44.7, tolerance four of
    them. The rarest token is expected five times or more."""
    logits = torch.randn(1000, dtype=torch.float64)
    n = 200_000
    random = torch.Generator().manual_seed(1)
    drawn = torch.cat(
        [
            categorical(logits.expand(10_000, -1), torch.rand(10_000, dtype=torch.float64, generator=random))
            for _ in range(20)
        ]
    )
    expected = n * torch.softmax(logits, 0)
    assert float(expected.min()) > 4
    statistic = float(((torch.bincount(drawn, minlength=1000) - expected).square() / expected).sum())
    assert abs(statistic - 999) < 4 * (2 * 999) ** 0.5


def test_impossible_tokens_are_never_drawn():
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]])
    edges = torch.tensor([0.0, 0.25, 0.5, 1 - 2**-53], dtype=torch.float64)
    assert categorical(logits.expand(4, -1), edges).tolist() == [1, 1, 3, 3]


@pytest.mark.parametrize("size", [1, 5, 512, 513, 640, 700, 1025])
def test_a_token_is_drawn_by_the_numbers_of_its_own_stretch(size):
    """[p_1 + ... + p_(v-1), p_1 + ... + p_v) is v's, from its first 1e-9 to its last; impossible tokens have none."""
    logits = 2 * torch.randn(size, dtype=torch.float64)
    possible = (torch.rand(size) < 0.7) | (torch.arange(size) % max(size - 1, 1) == 0)  # and both ends
    p = torch.softmax(logits.where(possible, -torch.inf), -1)
    tokens = possible.nonzero()[:, 0]
    last = p.cumsum(-1)[possible]
    for numbers in (last - p[possible] + 1e-9, last - p[possible] / 2, last - 1e-9):
        assert torch.equal(categorical((p.log() - 3).expand(len(tokens), -1), numbers), tokens)


@pytest.mark.parametrize("size", [5, 700])
def test_of_logits_that_are_no_numbers_some_token_is_drawn(size):
    drawn = categorical(torch.full((3, size), torch.nan), torch.tensor([0.0, 0.5, 0.999], dtype=torch.float64))
    assert ((drawn >= 0) & (drawn < size)).all()
