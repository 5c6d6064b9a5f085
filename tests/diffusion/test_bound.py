"""Bounds on -log p(x0) of processes with Gaussian noise: identity 8, by the exact posterior of a small distribution."""

import pytest
import torch

from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.diffusion.bound import Certain, NoisePath
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.methods.candi import CANDI, PATHS
from candi.diffusion.methods.continuous import Continuous
from candi.diffusion.methods.mdlm import MDLM
from candi.diffusion.prediction import Prediction
from candi.diffusion.readout import _BUDGET
from candi.diffusion.schedules import LinearAlpha, PowerAlpha, RankLinear
from candi.diffusion.spaces import SPACES
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiT, DiTSettings
from tests.toys import Toy

TOY = Toy()
N = 40_000
T = 1e-6 + (1 - 1e-6) * (torch.arange(N, dtype=torch.float64) + 0.5) / N
RANKS = [(0.05, 0.25), (0.05, 0.40), (0.01, 0.48)]
SPACE_AND_WIDTH = [("embedding", 8), ("onehot", 8), ("projected", 8), ("projected", 4)]


def _frequencies() -> torch.Tensor:
    """Of the tokens at each position, under the toy's law."""
    table = torch.zeros(TOY.length, TOY.vocab_size)
    for i in range(TOY.length):
        table[i].index_add_(0, TOY.sequences[:, i], TOY.probabilities.to(table))
    return table


def _method(kind, space: str, width: int, ranks: tuple[float, float], **options):
    torch.manual_seed(0)
    embedding = TokenEmbedding(TOY.vocab_size, width)
    method = kind(embedding, space=SPACES[space](embedding), sigma=RankLinear(*ranks), **options).eval()
    method.frequencies = _frequencies()
    return method


@torch.no_grad()
def _parts(method, **options) -> dict[str, torch.Tensor]:
    """Nats of N sequences, each at a time of its own."""
    bound, ideal, x0 = method.likelihood_bound(**options), TOY.ideal(method), TOY.truth(N, seed=3)
    state = bound.corrupt(x0, T, Rng.from_seed(4))
    parts = {**bound.integrand(ideal(state), state, x0), **bound.ends(ideal, x0, Rng.from_seed(5))}
    return {name: nats.sum(-1) for name, nats in parts.items()}


@torch.no_grad()
def _what_the_prior_costs(method, frequencies: bool = False, u: float = 1.0) -> tuple[float, float]:
    """KL(q(y_1) || prior) and its standard error: what no network can win back."""
    x0, end = TOY.truth(N, seed=6), torch.full((N,), u)
    point = method.space.point(x0)
    y = point + method.sigma(end)[:, None, None] * method.space.noise(x0.shape, Rng.from_seed(7))
    density = method.space.log_density(y, method.sigma(end))  # [N, L, V], up to a term without v
    each = torch.stack([density[:, range(TOY.length), row].sum(-1) for row in TOY.sequences], -1)
    joint = (each + TOY.probabilities.log()).logsumexp(-1)
    if frequencies:
        reference = (density + _frequencies().log()).logsumexp(-1).sum(-1)
    else:  # N(0, sigma^2) against N(w_v, sigma^2): (|y - w_v|^2 - |y|^2) / (2 sigma^2), of any v
        own = density.gather(-1, x0[..., None])[..., 0]
        noise = (y - point) / method.sigma(end)[:, None, None]
        toward = {"embedding": lambda: (noise * point).sum(-1), "onehot": lambda: (noise * point).sum(-1)}
        size = method.space.size(x0)
        along = toward.get(_name(method.space), lambda: _whitened_product(method.space, noise, point))()
        reference = (own - size / (2 * method.sigma(end)[:, None] ** 2) - along / method.sigma(end)[:, None]).sum(-1)
    gap = joint - reference
    return float(gap.mean()), float(gap.std()) / N**0.5


def _name(space) -> str:
    return next(name for name, kind in SPACES.items() if type(space) is kind)


def _whitened_product(space, noise: torch.Tensor, point: torch.Tensor) -> torch.Tensor:
    rows = space.embedding.directions()
    return (noise @ torch.linalg.pinv(rows.T @ rows, hermitian=True) * point).sum(-1)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize(("space", "width"), SPACE_AND_WIDTH)
def test_the_bound_of_the_exact_posterior_is_tight_up_to_the_prior(double, space, width, ranks):
    """Identity 8: entropy + KL(q(y_1) || prior), four standard errors of both, from either prior."""
    method = _method(CANDI, space, width, ranks)
    for prior in ("normal", "frequencies"):
        total = sum(_parts(method, prior=prior).values())
        cost, error = _what_the_prior_costs(method, prior == "frequencies")
        assert abs(float(total.mean()) - TOY.entropy() - cost) < 4 * (float(total.std()) / N**0.5 + error)
        assert cost > -4 * error


def test_a_prior_that_knows_the_frequencies_costs_less(double):
    method = _method(CANDI, "embedding", 8, (0.05, 0.25))
    normal, known = (float(_parts(method, prior=prior)["prior"].mean()) for prior in ("normal", "frequencies"))
    assert normal == pytest.approx(TOY.length / (2 * float(method.sigma(torch.ones(1))) ** 2))
    assert known < 0.7 * normal


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize(("space", "width"), [("embedding", 8), ("onehot", 8), ("projected", 4)])
def test_noise_everywhere_pays_for_its_last_draw(double, space, width, ranks):
    """Above the entropy and the prior's cost by what is lost when all tokens are drawn independently at z_0:

    E[sum_i H(x_i | z_0)] - E[H(x | z_0)].
    """
    method = _method(Continuous, space, width, ranks)
    parts = _parts(method)
    total = sum(parts.values())
    cost, error = _what_the_prior_costs(method)
    x0 = TOY.truth(N, seed=3)
    with torch.no_grad():
        state = method.corrupt(x0, torch.zeros(N), Rng.from_seed(8))
        lost = TOY.ideal(method)(state).nll(x0).sum(-1)
        density = method.log_likelihood(state)
        each = torch.stack([density[:, range(TOY.length), row].sum(-1) for row in TOY.sequences], -1)
        log_p = torch.log_softmax(each + TOY.probabilities.log(), -1)
        true = -log_p[(TOY.sequences == x0[:, None]).all(-1)]
    lost = lost - true
    assert float(lost.mean()) > 0
    spread = float(total.std()) / N**0.5 + error + float(lost.std()) / N**0.5
    assert abs(float(total.mean()) - TOY.entropy() - cost - float(lost.mean())) < 4 * spread


@pytest.mark.parametrize("path", [*PATHS, NoisePath(first=0.2, last=0.7), NoisePath(power=3.0, first=0.1, last=1.5)])
def test_along_any_path_and_range_the_exact_posterior_is_tight(double, path):
    method = _method(CANDI, "embedding", 8, (0.05, 0.25), independent=True)
    total = sum(_parts(method, path=path).values())
    last = path.last if isinstance(path, NoisePath) else 1.0
    cost, error = _what_the_prior_costs(method, u=last)
    assert abs(float(total.mean()) - TOY.entropy() - cost) < 4 * (float(total.std()) / N**0.5 + error)


def test_onehot_and_projected_are_one_where_the_vectors_tell_all(double):
    """V <= D: y determines the noisy one-hot vector, so all parts are the same numbers under one seed."""
    one, other = (_parts(_method(CANDI, space, 8, (0.05, 0.25))) for space in ("onehot", "projected"))
    for name in ("tokens", "gaussian", "prior"):
        torch.testing.assert_close(one[name], other[name], rtol=1e-8, atol=1e-8)


def test_fewer_numbers_than_tokens_tell_less(double):
    """V > D: what is walked is y, which costs less and helps less."""
    parts = [_parts(_method(CANDI, "projected", width, (0.05, 0.25))) for width in (8, 4)]
    for name in ("gaussian", "prior"):
        assert float(parts[1][name].mean()) < float(parts[0][name].mean())
    assert float(parts[1]["tokens"].mean()) > float(parts[0]["tokens"].mean())


def test_noise_that_tells_nothing_is_masked_diffusion(double):
    """Ranks near one half: the bound is the entropy, and so is the tokens' part, as MDLM's."""
    parts = _parts(_method(CANDI, "embedding", 8, (0.49, 0.4999)))
    assert float(parts["prior"].mean()) < 1e-4
    assert float(parts["gaussian"].mean()) < 0.02
    error = float(parts["tokens"].std()) / N**0.5
    assert abs(float(parts["tokens"].mean()) - TOY.entropy()) < 4 * error + 0.02


def test_a_network_that_sees_no_noise_has_the_tokens_part_of_masked_diffusion(double):
    """lambda = 1, the same network and masks: the same numbers."""
    torch.manual_seed(0)
    embedding = TokenEmbedding(30, 16)
    trunk = DiT(DiTSettings(width=16, blocks=2, heads=2, conditioning=8))
    with torch.no_grad():
        for parameter in trunk.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    ranks = RankLinear(0.05, 0.25)
    hybrid = Denoiser(CANDI(embedding, space=SPACES["embedding"](embedding), sigma=ranks, bias_weight=1.0), trunk)
    masked = Denoiser(MDLM(embedding, alpha=LinearAlpha(eps=0.0)), trunk)
    torch.nn.init.normal_(hybrid.head.weight)
    masked.head = hybrid.head
    masked.method.time_input, masked.method.time_conditioned = hybrid.method.time_input, True
    x0, t = torch.randint(30, (50, 7)), (torch.arange(50) + 0.5) / 50
    found = []
    for denoiser in (hybrid, masked):
        bound = denoiser.method.likelihood_bound()
        state = bound.corrupt(x0, t, Rng.from_seed(0))
        found.append(bound.integrand(denoiser(state), state, x0)["tokens"])
    assert float(found[0].detach().abs().sum()) > 1
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("alpha", [LinearAlpha(), PowerAlpha(2.0)])
def test_all_is_noisy_at_the_end_and_nothing_else_changes(double, alpha):
    t = torch.linspace(0.1, 1, 5)
    certain = Certain(alpha)
    assert float(certain(t)[-1]) == 0
    assert float(certain(torch.zeros(1))) == 1
    torch.testing.assert_close(
        certain.derivative(t) / (1 - certain(t)), alpha.derivative(t) / (1 - alpha(t)), rtol=1e-12, atol=0
    )
    slope = (certain(t[:-1] + 1e-6) - certain(t[:-1] - 1e-6)) / 2e-6
    torch.testing.assert_close(certain.derivative(t[:-1]), slope, rtol=1e-7, atol=1e-7)


def test_what_a_path_tells_of_itself(double):
    path, t = NoisePath(power=2.0, first=0.1, last=0.6), torch.linspace(0.1, 0.9, 5)
    assert float(path(torch.zeros(1))) == pytest.approx(0.1)
    assert float(path(torch.ones(1))) == pytest.approx(0.6)
    torch.testing.assert_close(path.derivative(t), (path(t + 1e-6) - path(t - 1e-6)) / 2e-6, rtol=1e-7, atol=1e-7)


def test_the_loss_alone_is_no_bound(double):
    """Below the entropy: the noise has told of the tokens, and nobody has paid for it."""
    parts = _parts(_method(CANDI, "embedding", 8, (0.05, 0.25)))
    assert float(parts["tokens"].mean()) < 0.6 * TOY.entropy()
    assert not CANDI.bound


def test_what_a_process_has_not_is_refused():
    embedding = TokenEmbedding(5, 8)
    candi = CANDI(embedding, space=SPACES["embedding"](embedding), sigma=RankLinear(0.05, 0.25))
    for options, complaint in (
        ({"path": "zigzag"}, "no path 'zigzag'"),
        ({"path": "early"}, "knows one path"),
        ({"prior": "flat"}, "no prior 'flat'"),
        ({"prior": "frequencies"}, "does not know how frequent"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=complaint):
            candi.likelihood_bound(**options)
    with pytest.raises(UserError, match="The bound of MDLM has no path; leave out --path"):
        MDLM(embedding).likelihood_bound(path="early")


@pytest.mark.parametrize(("space", "width"), [("embedding", 4), ("onehot", 4), ("projected", 8)])
def test_the_objective_bound_is_the_integrand_at_the_times_of_training(double, space, width):
    """Also with its gradient: of the network's features, and of the token vectors."""
    plain, whole = (_method(CANDI, space, width, (0.05, 0.25), objective=name) for name in ("tokens", "bound"))
    x0, t = TOY.truth(50, seed=1), torch.linspace(0.1, 0.9, 50)
    state = whole.corrupt(x0, t, Rng.from_seed(0))
    logits = torch.randn(50, TOY.length, TOY.vocab_size, requires_grad=True)
    prediction = Prediction.from_logits(logits, ~state.known)
    parts = whole.likelihood_bound().integrand(prediction, state, x0)
    torch.testing.assert_close(whole.loss(prediction, state, x0) - plain.loss(prediction, state, x0), parts["gaussian"])
    assert float(parts["gaussian"].detach().sum()) > 1
    (slope,) = torch.autograd.grad(parts["gaussian"].sum(), logits)
    step = torch.randn_like(logits)
    changed = [
        whole.likelihood_bound().integrand(Prediction.from_logits(logits + way * step, ~state.known), state, x0)
        for way in (1e-6, -1e-6)
    ]
    difference = (changed[0]["gaussian"].sum() - changed[1]["gaussian"].sum()) / 2e-6
    assert float((slope * step).sum()) == pytest.approx(float(difference), rel=1e-5)


def test_the_objective_bound_needs_noise_that_can_be_inverted():
    """It is refused where it is to be trained, not where a run that was trained with more vectors is read."""
    method = _method(CANDI, "projected", 4, (0.05, 0.25), objective="bound")
    with pytest.raises(UserError, match="for the space embedding or onehot"):
        method.check_training()
    _method(CANDI, "projected", 8, (0.05, 0.25), objective="bound").check_training()


def test_what_the_prior_costs_is_the_same_in_parts(double, monkeypatch):
    """A row of V numbers for each position is never all held at once."""
    method = _method(CANDI, "embedding", 8, (0.05, 0.25))
    whole = _parts(method, prior="frequencies")["prior"]
    monkeypatch.setitem(_BUDGET, "cpu", 7001 * TOY.vocab_size)
    torch.testing.assert_close(_parts(method, prior="frequencies")["prior"], whole, rtol=1e-12, atol=1e-12)
    with pytest.raises(UserError, match="knows token frequencies for 4 positions, not for 3"):
        method.likelihood_bound(prior="frequencies").ends(
            TOY.ideal(method), TOY.truth(2, seed=0)[:, :3], Rng.from_seed(0)
        )
