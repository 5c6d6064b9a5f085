"""What the network is given: a time, and a vector for each position. A changed formula here is another model."""

import math

import pytest
import torch

from candi.base.rng import Rng
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.methods import CANDI, MDLM, METHODS, UDLM
from candi.diffusion.schedules import PowerAlpha, RankLinear
from candi.diffusion.spaces import SPACES
from candi.diffusion.state import State

V, D = 20, 8
CLOCKED = [name for name in METHODS if METHODS[name]().build(TokenEmbedding(V, D)).time_conditioned]


def _state(t: float, rows: int = 1, length: int = 2) -> State:
    """A state with nothing in it but its time."""
    nothing = torch.zeros(rows, length, dtype=torch.long)
    return State(torch.full((rows,), t, dtype=torch.float64), nothing.bool(), nothing)


def test_the_methods_with_a_clock():
    assert set(CLOCKED) == {"candi", "udlm", "duo", "onehot", "embedding"}


@pytest.mark.parametrize("t", [0.2, 0.7])
@pytest.mark.parametrize("name", CLOCKED)
def test_the_clock_is_the_noise_that_was_added(double, name, t):
    """exp(-clock) is the share of tokens that survive, of discrete noise; exp(clock) the size of Gaussian noise.

    40,000 positions; a share has a standard error below 0.0025, a size of 320,000 numbers one of 0.13%. Four of them.
    """
    method = METHODS[name]().build(TokenEmbedding(V, D)).eval()
    x0 = torch.randint(1, V, (100, 400), generator=torch.Generator().manual_seed(0))
    state = method.corrupt(x0, torch.full((100,), t), Rng.from_seed(0))
    clock = float(method.time_input(state)[0])
    if state.values is not None and name != "candi":
        space, _ = method.gaussian()
        noise = (state.noisy - space.point(x0)).detach()
        size = float((noise.square().sum(-1).mean() / space.power).sqrt())
        # projected noise of V > D tokens is not isotropic: at most V/D times the variance of an isotropic one
        assert abs(size / math.exp(clock) - 1) < 4 * 0.0013 * (V / D) ** 0.5
    else:
        same = float((state.tokens == x0).double().mean())
        kept = same if name == "candi" else (V * same - 1) / (V - 1)  # by chance, a corrupted token looks the same
        assert abs(kept - math.exp(-clock)) < 4 * 0.0026
        assert clock > 0


def test_the_clock_in_numbers(double):
    """alpha = 1 - 0.999 t, and (1 - 0.999 t^2) of another path; r* = .05 + .2 t; sigma = .01 * 200^t."""
    embedding = TokenEmbedding(V, D)
    candi = CANDI(embedding, space=SPACES["embedding"](embedding), sigma=RankLinear(0.05, 0.25))
    curved = CANDI(embedding, space=SPACES["embedding"](embedding), sigma=RankLinear(0.05, 0.25), alpha=PowerAlpha(2.0))
    expected = {0.3: -math.log(0.7003), 1.0: -math.log(0.001)}
    for t, number in expected.items():
        for method in (candi, UDLM(embedding), MDLM(embedding, clock=True)):
            assert float(method.time_input(_state(t))) == pytest.approx(number, rel=1e-8)
    assert float(curved.time_input(_state(0.3))) == pytest.approx(-math.log(1 - 0.999 * 0.09), rel=1e-9)
    isotropic, onehot = (METHODS[name]().build(embedding) for name in ("embedding", "onehot"))
    assert float(isotropic.time_input(_state(0.5))) == pytest.approx(math.log(0.01) + 0.5 * math.log(200), rel=1e-9)
    assert float(onehot.time_input(_state(1.0))) == pytest.approx(math.log(1.0483580825075305), rel=1e-9)
    assert float(candi.time_input(_state(0.0))) == 0


def test_masked_diffusion_is_told_the_time_if_asked(double):
    """And then a thousandth of the tokens is left at t = 1, so that the time is finite; else nothing is."""
    embedding, end = TokenEmbedding(V, D), torch.ones(1)
    for clock, left in ((False, 0.0), (True, 0.001)):
        method = METHODS["mdlm"](clock=clock).build(embedding)
        assert method.time_conditioned is clock
        assert float(method.alpha(end)) == pytest.approx(left, abs=1e-12)
        assert float(MDLM(embedding, alpha=PowerAlpha(2.0, 0.01), clock=clock).alpha(end)) == pytest.approx(0.01)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("exact", [True, False])
def test_a_noisy_vector_of_candi_is_the_mask_vector_and_the_scaled_noise(double, space, exact):
    """lambda b + (1 - lambda) y / sqrt(1 + sigma^2 P), row by row; P is 1 in the paper, else V, or D if isotropic.

    Of independent times, sigma is that of the noise's own time, and what the level says of it is added to b.
    """
    embedding = TokenEmbedding(V, D)
    method = CANDI(
        embedding, space=SPACES[space](embedding), sigma=RankLinear(0.05, 0.25), bias_weight=0.3, exact_scale=exact,
        independent=True,
    )  # fmt: skip
    for parameter in method.level.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    state = method.corrupt(torch.randint(V, (3, 5)), torch.tensor([0.4, 0.8, 0.9]), Rng.from_seed(0))
    power = (D if space == "embedding" else V) if exact else 1
    seen = method.embed(state)
    b = embedding.mask / embedding.mask.norm()
    rows = embedding.weight / embedding.weight.norm(dim=-1, keepdim=True)
    for row, column in state.known.logical_not().nonzero().tolist():
        sigma = float(method.sigma(state.noise_t[row]))
        y = state.noisy[row, column]
        y = y @ rows if space == "onehot" else y
        level = method.level(torch.tensor([math.log(sigma)]))[0]
        expected = 0.3 * (b + level) + 0.7 * y / math.sqrt(1 + sigma**2 * power)
        torch.testing.assert_close(seen[row, column], expected)
    torch.testing.assert_close(seen[state.known], rows[state.tokens[state.known]])
    assert 0 < int(state.known.sum()) < 15


def test_a_gate_is_a_factor_on_what_is_seen_of_the_noise(double):
    """b + gate c_in y; where token vectors are used as they are, y is of their size, and b as it is."""
    embedding = TokenEmbedding(V, D, unit=False)
    method = CANDI(embedding, space=SPACES["embedding"](embedding), sigma=RankLinear(0.05, 0.25), gate=True)
    assert (method.gate.item(), method.vector_size.item()) == (0, 1)
    method.gate.data.fill_(0.4)
    method.vector_size.fill_(1.7)
    state = method.corrupt(torch.randint(V, (3, 5)), torch.tensor([0.4, 0.8, 0.9]), Rng.from_seed(0))
    scale = (1 + method.sigma(state.t).square() * D).sqrt()[:, None, None]
    expected = embedding.mask + 0.4 * 1.7 * state.noisy / scale
    expected = torch.where(state.known[..., None], embedding.weight[state.tokens], expected)
    torch.testing.assert_close(method.embed(state), expected)
    unit = TokenEmbedding(V, D)
    plain = CANDI(unit, space=SPACES["embedding"](unit), sigma=RankLinear(0.05, 0.25))
    assert plain.gate is plain.vector_size is None


def test_a_new_model_does_not_see_the_level_yet(double):
    embedding = TokenEmbedding(V, D)
    spaces = [{"space": SPACES["embedding"](embedding), "sigma": RankLinear(0.05, 0.25)}] * 2
    plain, independent = CANDI(embedding, **spaces[0]), CANDI(embedding, **spaces[1], independent=True)
    state = plain.corrupt(torch.randint(V, (3, 5)), torch.tensor([0.4, 0.8, 0.9]), Rng.from_seed(0))
    assert torch.equal(plain.embed(state), independent.embed(state))


@pytest.mark.parametrize(("name", "space", "power"), [("onehot", "projected", V), ("embedding", "", D)])
def test_a_noisy_vector_of_continuous_diffusion_has_its_scale_alone(double, name, space, power):
    embedding = TokenEmbedding(V, D)
    method = METHODS[name]().build(embedding)
    x0 = torch.randint(V, (2, 3))
    corrupted = method.corrupt(x0, torch.tensor([0.2, 0.9]), Rng.from_seed(0))
    known = torch.tensor([[True, False, False], [False, False, True]])
    seen = method.embed(State(corrupted.t, known, x0 * known, corrupted.values))
    scale = (1 + method.sigma(corrupted.t).square() * power).sqrt()[:, None, None]
    expected = torch.where(known[..., None], embedding.rows()[x0], corrupted.noisy / scale)
    torch.testing.assert_close(seen, expected)
