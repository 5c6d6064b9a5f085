"""CANDI against the exact posterior of a small correlated distribution."""

from functools import cache

import pytest
import torch

from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.methods import CANDI, MDLM, CandiSettings
from candi.diffusion.methods.candi import PATHS
from candi.diffusion.prediction import Prediction
from candi.diffusion.sampler import bind_step
from candi.diffusion.schedules import PowerAlpha, RankLinear
from candi.diffusion.spaces import SPACES
from candi.diffusion.state import State
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiT, DiTSettings
from candi.nets.engine import Engine
from tests.toys import Toy, denoiser_of

TOY = Toy(vocab_size=6, length=4, support=24)
N = 8000  # the truth itself, in so many samples, is 0.026 away in the worst of twenty tries
MANY = 20_000  # for the default solver, and where few steps leave time for them: a distance's noise is below 0.005
# The prior N(0, sigma(1)^2) forgets the mean of the data only as sigma(1) grows: a range that ends at rank 0.35
# (sigma 1.8) leaves a trace (see below), one that ends at 0.48 (sigma 14) less than the samples can show.
RANKS = RankLinear(0.05, 0.48)


def _candi(space: str = "onehot", width: int = 8, sigma=RANKS, **options) -> CANDI:
    embedding = TokenEmbedding(TOY.vocab_size, width)
    return CANDI(embedding, space=SPACES[space](embedding), sigma=sigma, **options)


@cache
def _floor(n: int) -> float:
    """What n samples of the truth itself show, the largest of twenty tries."""
    return max(TOY.distance(TOY.truth(n, seed)) for seed in range(20))


@pytest.fixture
def floor() -> float:
    return _floor(N)


@pytest.mark.parametrize("inference", ["exact", "approximate"])
@pytest.mark.parametrize("solver", ["ddim", "euler", "ancestral"])
def test_sampling_reaches_the_truth(double, solver, inference):
    """Identity 1. What is left of the discretisation may add 0.005, a twentieth of the error at 8 steps.

    The default solver is asked with more samples: 20,000 see an error of 3% in each of its steps, 8,000 one of 10%."""
    method, n = _candi(), MANY if solver == "ddim" else N
    coarse = TOY.distance(TOY.sample(method, n, 8, solver=solver, inference=inference))
    fine = TOY.distance(TOY.sample(method, n, 128, solver=solver, inference=inference))
    assert fine < _floor(n) + 0.005
    assert coarse > 0.08


def test_a_prior_that_is_not_wide_enough_leaves_a_trace(double, floor):
    """No number of steps mends it: a fact of the method, not of the sampler."""
    method = _candi(sigma=RankLinear(0.05, 0.35))
    assert TOY.distance(TOY.sample(method, N, 64)) > floor + 0.01


@pytest.mark.parametrize("space", ["projected", "embedding"])
def test_the_other_spaces_reach_it_too(double, floor, space):
    """Width 4 < V: the projection loses information, and the posterior of what is left is still sampled exactly."""
    assert TOY.distance(TOY.sample(_candi(space, width=4), N, 128)) < floor + 0.005


@pytest.mark.parametrize("power", [0.5, 2.0])
def test_every_masking_path_reaches_it(double, floor, power):
    """rho = t^k: another way from noise to data, the same end; at few steps the roots are the better way here.

    With rho = t^2 the last positions are revealed in a hurry: it takes three times as many steps."""
    fine = TOY.distance(TOY.sample(_candi(alpha=PowerAlpha(power)), N, 64 if power < 1 else 192))
    assert fine < floor + 0.005
    coarse = {k: TOY.distance(TOY.sample(_candi(alpha=PowerAlpha(k)), MANY, 4)) for k in (1.0, power)}
    assert (coarse[power] < coarse[1.0] - 0.01) == (power < 1)


@pytest.mark.parametrize("path", PATHS)
def test_every_path_of_independent_times_reaches_it(double, floor, path):
    """Masks and noise need not go together: with the exact posterior any way from noise to data ends in the truth."""
    fine = TOY.distance(TOY.sample(_candi(independent=True), N, 64, path=path))
    assert fine < floor + 0.006


def test_noise_that_goes_before_the_masks_makes_more_of_four_steps(double):
    """By 0.02; the noise of a distance at n = 20,000 is below 0.005."""
    method = _candi(independent=True)
    early, diagonal = (TOY.distance(TOY.sample(method, MANY, 4, path=path)) for path in ("early", "diagonal"))
    assert early < diagonal - 0.01


def test_independent_times_are_drawn_and_seen(double):
    method = _candi(independent=True)
    x0 = TOY.truth(4000, seed=0)
    state = method.corrupt(x0, torch.full((4000,), 0.3), Rng.from_seed(0))
    u = state.u
    assert abs(float(u.mean()) - 0.5) < 4 * (1 / 12 / 4000) ** 0.5  # uniform, whatever t is
    assert not torch.equal(state.u, state.t)
    open = ~state.known
    size = (state.noisy - method.space.point(x0)).square().mean(-1)
    expected = method.sigma(u).square()[:, None].expand_as(size)
    assert abs(float((size / expected)[open].mean()) - 1) < 0.02  # the noise is that of u: 7,000 vectors of dimension 6
    torch.nn.init.normal_(method.level.mlp[2].weight)
    other = State(state.t, state.known, state.tokens, state.values, noise_t=state.u.flip(0))
    assert not torch.allclose(method.embed(state)[open], method.embed(other)[open])


@pytest.mark.parametrize("engine", [False, True])
def test_the_network_sees_the_time_of_the_noise(engine):
    """Through the whole denoiser and through the engine: another u is another prediction, and for the level's weights
    there is a gradient."""
    torch.manual_seed(0)
    denoiser = denoiser_of("candi", 20, DiTSettings(width=16, blocks=1, heads=2, conditioning=8), independent=True)
    for parameter in denoiser.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    network = Engine(denoiser, compile=False) if engine else denoiser
    x0 = torch.randint(20, (3, 8))
    state = denoiser.method.corrupt(x0, torch.full((3,), 0.9), Rng.from_seed(0))
    other = State(state.t, state.known, state.tokens, state.values, noise_t=1 - state.u)
    predicted = network(state)
    assert (predicted.log_probs().float() - network(other).log_probs().float()).abs().max() > 1e-2
    if not engine:
        predicted.nll(x0).sum().backward()
        assert float(denoiser.method.level.mlp[0].weight.grad.abs().max()) > 0


@pytest.mark.parametrize(("path", "u"), [("diagonal", 0.25), ("early", 0.0625), ("late", 0.5)])
def test_where_the_noise_is_on_a_path(double, path, u):
    """s, s^2 or sqrt(s)."""
    method, nothing, rng = _candi(independent=True), torch.zeros(3, TOY.length, dtype=torch.long), Rng.from_seed(0)
    state = method.prior(nothing, nothing.bool(), rng)
    moved = method.step(state, lambda: TOY.ideal(method)(state), torch.full((3,), 0.25), rng, path=path)
    assert (moved.t.tolist(), moved.u.tolist()) == ([0.25] * 3, [u] * 3)


def test_the_path_is_an_option_of_independent_models_alone():
    assert "path" not in _candi().options
    assert _candi(independent=True).options["path"] == tuple(PATHS)
    with pytest.raises(UserError, match="no sampling option 'path'"):
        bind_step(_candi(), path="early")
    with pytest.raises(UserError, match="independent"):
        CandiSettings(path="late")


def test_ddim_beats_euler_at_four_steps(double):
    """By 0.04; the noise of a distance at n = 20,000 is below 0.005."""
    method = _candi()
    ddim, euler = (TOY.distance(TOY.sample(method, MANY, 4, solver=solver)) for solver in ("ddim", "euler"))
    assert ddim < euler - 0.025


def test_infilling_samples_the_conditional(double):
    """Given the first token, the rest must follow p(x | x_1); known tokens are checked at every step on the way."""
    method = _candi()
    first = int(TOY.sequences[0, 0])
    mine = TOY.sequences[:, 0] == first
    share = TOY.probabilities[mine] / TOY.probabilities[mine].sum()
    x0 = torch.zeros(N, 4, dtype=torch.long)
    x0[:, 0] = first
    known = torch.zeros(N, 4, dtype=torch.bool)
    known[:, 0] = True
    samples = TOY.complete(method, x0, known, 64)
    seen = torch.stack([(samples == sequence).all(-1).double().mean() for sequence in TOY.sequences[mine]])
    # total variation within the conditional support; its floor at n = 8,000 is below 0.01
    assert 0.5 * float((seen - share).abs().sum()) < 0.02
    assert int(mine.sum()) > 1


def test_noise_leaks_information(double):
    """CANDI's loss is below the entropy, so it is no bound, and says so."""
    method = _candi(sigma=RankLinear(0.05, 0.25))
    x0 = TOY.truth(20_000, seed=3)
    t = (torch.arange(20_000) + 0.5) / 20_000
    state = method.corrupt(x0, t, Rng.from_seed(4))
    assert float(method.loss(TOY.ideal(method)(state), state, x0).sum(-1).mean()) < 0.8 * TOY.entropy()
    assert not CANDI.bound


def test_bias_weight_one_is_masked_diffusion(double):
    """Identity 4: the same logits as MDLM with b as its mask vector, given the same trunk and time."""
    embedding = TokenEmbedding(30, 16)
    trunk = DiT(DiTSettings(width=16, blocks=2, heads=2, conditioning=8))
    with torch.no_grad():
        for parameter in trunk.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    hybrid = Denoiser(CANDI(embedding, space=SPACES["embedding"](embedding), sigma=RANKS, bias_weight=1.0), trunk)
    masked = Denoiser(MDLM(embedding), trunk)
    torch.nn.init.normal_(hybrid.head.weight)
    masked.head = hybrid.head
    masked.method.time_input, masked.method.time_conditioned = hybrid.method.time_input, True
    state = hybrid.method.corrupt(torch.randint(30, (5, 7)), torch.rand(5), Rng.from_seed(0))
    plain = State(state.t, state.known, state.tokens)
    torch.testing.assert_close(hybrid(state).log_probs(), masked(plain).log_probs(), rtol=0, atol=1e-12)
    half = Denoiser(CANDI(embedding, space=SPACES["embedding"](embedding), sigma=RANKS, bias_weight=0.5), trunk)
    half.head = hybrid.head
    assert (half(state).log_probs() - masked(plain).log_probs()).abs().max() > 1e-3


@pytest.mark.parametrize("space", SPACES)
def test_exact_preconditioning_gives_noisy_inputs_unit_size(double, space):
    """E|c_in y|^2 = 1 at any sigma; the paper's c_in lets it grow with V."""
    embedding = TokenEmbedding(50, 12)
    x0 = torch.randint(50, (400, 50))
    t = torch.linspace(0, 1, 400)
    sizes = {}
    for exact in (True, False):
        method = CANDI(embedding, space=SPACES[space](embedding), sigma=RANKS, bias_weight=0.0, exact_scale=exact)
        state = method.corrupt(x0, t, Rng.from_seed(0))
        state = State(state.t, torch.zeros_like(state.known), state.tokens, state.values)
        sizes[exact] = float(method.embed(state).detach().square().sum(-1).mean())
    assert abs(sizes[True] - 1) < 0.02  # 20,000 vectors of 12 or more dimensions: below half of that at four sigma
    assert sizes[False] > 5


def test_known_positions_show_their_token_and_nothing_else(double):
    method = _candi()
    state = method.corrupt(TOY.truth(50, seed=0), torch.rand(50), Rng.from_seed(0))
    embedded = method.embed(state)
    torch.testing.assert_close(embedded[state.known], method.embedding.lookup(state.tokens)[state.known])


def test_exact_and_approximate_inference_reveal_the_same_positions(double):
    method = _candi()
    x0 = torch.zeros(8, 4, dtype=torch.long)
    rngs = Rng.from_seed(1), Rng.from_seed(1)
    starts = [method.prior(x0, x0.bool(), rng) for rng in rngs]
    with torch.no_grad():
        prediction = TOY.ideal(method)(starts[0])
    s = torch.full((8,), 0.5)
    exact, approximate = (
        method.step(start, lambda: prediction, s, rng, inference=inference)
        for start, rng, inference in zip(starts, rngs, ("exact", "approximate"), strict=True)
    )
    assert torch.equal(exact.known, approximate.known)
    assert torch.equal(exact.tokens[exact.known], approximate.tokens[exact.known])
    assert not torch.allclose(exact.values, approximate.values)


def test_the_default_space_follows_the_vocabulary():
    kinds = {V: type(CandiSettings().build(TokenEmbedding(V, 16)).space).__name__ for V in (10, 16, 17, 100)}
    assert kinds == {10: "Projected", 16: "Projected", 17: "Embedding", 100: "Embedding"}


@pytest.mark.parametrize("by", ["keyword", "constructor"])
@pytest.mark.parametrize("order", ["random", "confidence"])
@pytest.mark.parametrize("inference", ["exact", "approximate"])
def test_a_step_by_its_parts(double, inference, order, by):
    """From where the values end, X_s = X0 + k (X_t - X0) tells what they aimed at: p W, or the draws themselves.

    By confidence no position that stays open has a likelier draw than one that is revealed. As many are revealed
    either way: 2,400 open positions, four standard errors.
    """
    options = {"inference": inference, "order": order}
    other = {"inference": "approximate" if inference == "exact" else "exact"}
    other["order"] = "random" if order == "confidence" else "confidence"
    method = _candi("embedding", sigma=RankLinear(0.05, 0.4), **(options if by == "constructor" else other))
    x0, known = torch.ones(800, 4, dtype=torch.long), torch.arange(4).expand(800, 4) == 1
    state = method.prior(x0, known, Rng.from_seed(0))
    p = torch.softmax(2 * torch.randn(800, 4, 6), -1)
    prediction, s = Prediction.from_logits(p.log(), ~known), torch.full((800,), 0.6)
    later = method.step(state, lambda: prediction, s, Rng.from_seed(1), **(options if by == "keyword" else {}))
    revealed, open = later.known & ~known, ~later.known
    assert later.known[known].all()
    assert torch.equal(later.tokens[known], x0[known])
    k = (method.sigma(s) / method.sigma(state.t))[:, None, None]
    aim, rows = ((later.noisy - k * state.noisy) / (1 - k)).detach(), method.embedding.rows().detach()
    drawn = (aim[..., None, :] - rows).norm(dim=-1).argmin(-1)
    torch.testing.assert_close(aim[open], (p @ rows)[open] if inference == "exact" else rows[drawn][open])
    chance = (1 - 0.999 * 0.6 - 0.001) / 0.999
    assert abs(float(revealed[~known].double().mean()) - chance) < 4 * (chance * (1 - chance) / 2400) ** 0.5
    if inference == "approximate":
        size = p.gather(-1, torch.where(revealed, later.tokens, drawn)[..., None])[..., 0]
        least = size.masked_fill(~revealed, 1).amin(-1)
        sorted_ = (least >= size.masked_fill(~open, 0).amax(-1) - 1e-4).double().mean()
        assert (float(sorted_) == 1) == (order == "confidence")
    else:
        likely = float(p.gather(-1, later.tokens[..., None])[..., 0][revealed].mean())
        average = float(p.square().sum(-1).mean())  # of any draw
        assert (likely > average + 0.05) == (order == "confidence")


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_the_loss_is_k_over_t_times_the_nats_of_an_open_position(double, power):
    method = _candi(alpha=PowerAlpha(power))
    t = torch.tensor([0.2, 0.5, 1.0])
    state = method.corrupt(torch.randint(6, (3, 4)), t, Rng.from_seed(0))
    p = torch.softmax(torch.randn(3, 4, 6), -1)
    x0 = torch.randint(6, (3, 4))
    loss = method.loss(Prediction.from_logits(p.log(), ~state.known), state, x0)
    nats = -p.gather(-1, x0[..., None])[..., 0].log()
    torch.testing.assert_close(loss, (power / t)[:, None] * nats * ~state.known)
