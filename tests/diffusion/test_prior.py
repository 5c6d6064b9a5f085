"""The law at t = 1 is w_x + sigma_1 eps, not N(0, sigma_1^2): what each prior leaves, under the exact posterior."""

import pytest
import torch

from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.methods import CANDI, METHODS, Continuous
from candi.diffusion.schedules import RankLinear
from candi.diffusion.spaces import SPACES
from tests.toys import Toy

TOY = Toy(vocab_size=6, length=4, support=24)
N = 8000  # the truth itself, in so many samples, is 0.026 away in the worst of twenty tries


def _candi(toy: Toy, space: str = "embedding", low: float = 0.05, high: float = 0.25) -> CANDI:
    torch.manual_seed(0)
    embedding = TokenEmbedding(toy.vocab_size, 8)
    method = CANDI(embedding, space=SPACES[space](embedding), sigma=RankLinear(low, high))
    method.frequencies = _frequencies(toy)
    return method


def _frequencies(toy: Toy) -> torch.Tensor:
    """p(x_i = v) [L, V]."""
    shown = torch.nn.functional.one_hot(toy.sequences, toy.vocab_size).to(toy.probabilities)
    return torch.einsum("s,slv->lv", toy.probabilities, shown)


def _independent() -> Toy:
    """Positions that know nothing of each other: their frequencies are all there is."""
    toy = Toy(vocab_size=6, length=2, support=36)
    single = torch.softmax(2 * torch.randn(2, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64), -1)
    object.__setattr__(toy, "probabilities", single[0][toy.sequences[:, 0]] * single[1][toy.sequences[:, 1]])
    return toy


@pytest.mark.parametrize("space", ["onehot", "projected", "embedding"])
def test_of_independent_positions_the_prior_from_frequencies_is_exact(double, space):
    """And the normal one is not, however many the steps. 0.01 above the largest of twenty tries of the truth."""
    toy = _independent()
    method = _candi(toy, space)
    floor = max(toy.distance(toy.truth(N, seed)) for seed in range(20))
    assert toy.distance(toy.sample(method, N, 64, prior="frequencies")) < floor + 0.01
    assert toy.distance(toy.sample(method, N, 64, prior="normal")) > floor + 0.04


def test_the_default_ranks_do_not_reach_the_truth(double):
    """Section by section of docs/method.md: .118 with the normal prior, .048 with frequencies, at many steps.

    With ranks up to .48 both reach it. Tolerance .02: one standard deviation of a distance is .004.
    """
    narrow, wide = _candi(TOY), _candi(TOY, low=0.01, high=0.48)
    assert TOY.distance(TOY.sample(narrow, N, 128)) == pytest.approx(0.118, abs=0.025)
    assert TOY.distance(TOY.sample(narrow, N, 128, prior="frequencies")) == pytest.approx(0.048, abs=0.02)
    for prior in ("normal", "frequencies"):
        assert TOY.distance(TOY.sample(wide, N, 128, prior=prior)) < 0.04


def test_its_law_is_that_of_a_corrupted_token(double):
    """Mean and variance of 60,000 values of the prior against those of q(y_1 | x0), x0 from the data: 4 errors."""
    method, n = _candi(TOY), 60_000
    nothing = torch.zeros(n, 4, dtype=torch.long)
    prior = method.prior(nothing, nothing.bool(), Rng.from_seed(0), prior="frequencies").noisy
    truth = method.corrupt(TOY.truth(n, 1), torch.ones(n), Rng.from_seed(2)).noisy
    error = 4 * (2 / n) ** 0.5 * truth.std(0)
    assert ((prior.mean(0) - truth.mean(0)).abs() < error).all()
    assert ((prior.var(0) - truth.var(0)).abs() < 2**0.5 * 4 * (2 / n) ** 0.5 * truth.var(0)).all()


def test_one_row_serves_every_position_and_a_wrong_number_of_rows_none(double):
    method = _candi(TOY)
    nothing = torch.zeros(2, 9, dtype=torch.long)
    with pytest.raises(UserError, match="4 positions, not for 9"):
        method.prior(nothing, nothing.bool(), Rng.from_seed(0), prior="frequencies")
    method.frequencies = torch.tensor([[0, 0, 0, 0, 0, 1.0]])
    method.sigma = RankLinear(1e-8, 1e-7)
    state = method.prior(nothing, nothing.bool(), Rng.from_seed(0), prior="frequencies")
    assert (method.decode(state) == 5).all()


@pytest.mark.parametrize("name", ["candi", "onehot", "embedding"])
def test_a_model_without_frequencies_says_so(double, name):
    method = METHODS[name]().build(TokenEmbedding(6, 8))
    nothing = torch.zeros(2, 9, dtype=torch.long)
    assert isinstance(method, CANDI | Continuous)
    with pytest.raises(UserError, match="the prior normal"):
        method.prior(nothing, nothing.bool(), Rng.from_seed(0), prior="frequencies")


@pytest.mark.parametrize("frequencies", [None, torch.full((1, 6), 1 / 6), torch.full((9, 6), 1 / 6)])
def test_what_is_loaded_decides_whether_there_are_any(double, frequencies):
    method, other = (METHODS["candi"]().build(TokenEmbedding(6, 8)) for _ in range(2))
    method.frequencies = frequencies
    other.frequencies = torch.ones(3, 6)
    other.load_state_dict(method.state_dict())
    assert (other.frequencies is None) == (frequencies is None)
    assert frequencies is None or torch.equal(other.frequencies, frequencies)
