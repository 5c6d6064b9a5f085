"""Guidance against the exact tilted distribution p(x) p(y | x)^w of a small distribution with a known classifier."""

import pytest
import torch
from torch.nn import functional as F

from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.guidance import DiscreteGuidance, GradientGuidance, classifier_free, guide_for
from candi.diffusion.guidance.discrete import exactly, first_order
from candi.diffusion.methods.ar import AR
from candi.diffusion.methods.candi import CANDI
from candi.diffusion.methods.duo import DUO
from candi.diffusion.methods.mdlm import MDLM
from candi.diffusion.methods.udlm import UDLM
from candi.diffusion.prediction import Prediction
from candi.diffusion.sampler import bind_step, last_state, sample
from candi.diffusion.schedules import RankLinear, timesteps
from candi.diffusion.spaces import SPACES
from candi.diffusion.state import State
from candi.nets.ideal import IdealDenoiser
from tests.toys import Toy

TOY = Toy(vocab_size=6, length=4, support=24)
N = 4000
LIKES = 2 * torch.randn(4, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def _embedding(size=6):
    return TokenEmbedding(size, 8)


def _score(x):
    return (x * LIKES.to(x)).sum((-1, -2))


def clean(x, t):
    """log p(y | x) of a logistic regression on a bag of (place, token): any differentiable function will do."""
    return F.logsigmoid(_score(x))


def _p_y(tokens):
    return torch.sigmoid(_score(F.one_hot(tokens, 6).double()))


def _tilted(toy=TOY, p_y=None, weight=1.0):
    p = toy.probabilities * (_p_y(toy.sequences) if p_y is None else p_y) ** weight
    return p / p.sum()


def _distance(samples, p, toy=TOY):
    code = toy.vocab_size ** torch.arange(toy.length)
    size = toy.vocab_size**toy.length
    expected = torch.zeros(size, dtype=torch.float64).index_put(((toy.sequences * code).sum(-1),), p)
    seen = torch.bincount((samples * code).sum(-1), minlength=size) / len(samples)
    return 0.5 * float((seen - expected).abs().sum())


def _floor(p, toy=TOY, n=N):
    """What n samples of the tilted distribution itself show, the largest of twenty tries."""
    tries = (torch.multinomial(p, n, True, generator=torch.Generator().manual_seed(i)) for i in range(20))
    return max(_distance(toy.sequences[chosen], p, toy) for chosen in tries)


def aware(method):
    """The exact log p(y | z_t) = log sum_x p(x | z_t) p(y | x), continued linearly between one-hot vectors."""

    def log_p(z, t):
        a = method.alpha(t)[:, None, None]
        same = torch.eye(6, dtype=z.dtype)
        masked = torch.cat([a * same, (1 - a).expand(-1, 6, 1)], -1)  # q(z | x0 = v) [B, V, S]
        shown = masked if z.shape[-1] == 7 else a * same + (1 - a) / 6
        likelihood = torch.einsum("bls,bvs->blv", z, shown).clamp(min=1e-300)
        spelled = TOY.sequences.T[None].expand(len(z), -1, -1)
        posterior = torch.softmax(TOY.probabilities.log() + likelihood.gather(-1, spelled).log().sum(1), -1)
        return (posterior @ _p_y(TOY.sequences)).clamp(min=1e-300).log()

    return log_p


@pytest.mark.parametrize("make", [MDLM, UDLM, DUO])
def test_discrete_guidance_reaches_the_tilted_distribution(double, make):
    """Positions are tilted one by one, which is exact as steps grow: 0.02 above the floor is left at 64 steps.

    1,500 samples, whose floor is 0.05: every neighbour of each is read at every step."""
    method, p, n = make(_embedding()), _tilted(), 1500
    samples = TOY.sample(method, n, 64, guide=DiscreteGuidance(aware(method), 1.0, first_order=False))
    assert _distance(samples, p) < _floor(p, n=n) + 0.02
    assert _distance(TOY.truth(N, 0), p) > 0.3, "the tilt is no small one"


@pytest.mark.parametrize("make", [MDLM, UDLM])
def test_its_first_order_comes_half_way(double, make):
    """log p(y | z) is curved between one-hot vectors, so the shortcut has an error that no number of steps removes:

    0.16 in total variation here, where no guidance at all is 0.33 away.
    """
    method, p = make(_embedding()), _tilted()
    samples = TOY.sample(method, N, 64, guide=DiscreteGuidance(aware(method), 1.0))
    assert 0.1 < _distance(samples, p) < 0.2


def test_first_order_is_exact_for_a_linear_classifier(double):
    symbols = torch.randint(6, (3, 4), generator=torch.Generator().manual_seed(0))
    linear = lambda x, t: _score(x)  # noqa: E731
    t = torch.full((3,), 0.5)
    assert torch.allclose(first_order(linear, symbols, 6, t), exactly(linear, symbols, 6, t))


@pytest.mark.parametrize("space", ["onehot", "projected", "embedding"])
def test_the_gradient_of_a_clean_classifier_steers(double, space):
    """Gradient addition is no exact tilt: it takes d log p(y | x0) / d x0 at one guess for that of log p(y | z_t).

    In the paper's range of noise that is too small a push, so that a weight of 2 or 4 lies nearest to the tilt of
    weight 1: at half to three quarters of the distance of no guidance. The mean of p(y) rises with the weight.
    """
    p, means, distances = _tilted(), [], []
    for weight in (0.0, 1.0, 2.0, 4.0):
        embedding = _embedding()
        method = CANDI(embedding, space=SPACES[space](embedding), sigma=RankLinear(0.05, 0.25))
        samples = TOY.sample(method, N, 16, guide=GradientGuidance(clean, weight))
        means.append(float(_p_y(samples).mean()))
        distances.append(_distance(samples, p))
    assert means == sorted(means)
    assert means[-1] - means[0] > 0.1
    assert min(distances) < 0.8 * distances[0]


@pytest.mark.parametrize("inference", ["exact", "approximate"])
@pytest.mark.parametrize("space", ["onehot", "embedding"])
def test_tilted_posteriors_are_exact_where_positions_are_independent(double, space, inference):
    """p_v exp(g_v) is then the posterior of the tilted distribution itself, if log p(y | x) is linear in x."""
    toy = Toy(vocab_size=3, length=2, support=9)
    single = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    sequences = torch.cartesian_prod(torch.arange(3), torch.arange(3))
    object.__setattr__(toy, "sequences", sequences)
    object.__setattr__(toy, "probabilities", single[0][sequences[:, 0]] * single[1][sequences[:, 1]])
    likes = torch.tensor([[-2.0, 0.0, -1.0], [0.0, -1.5, -0.5]])
    p_y = (F.one_hot(sequences, 3) * likes).sum((-1, -2)).exp()
    p = _tilted(toy, p_y)
    embedding = _embedding(3)
    method = CANDI(embedding, space=SPACES[space](embedding), sigma=RankLinear(0.001, 0.48))
    guide = GradientGuidance(lambda x, t: (x * likes).sum((-1, -2)), 0.0, reveal=1.0)
    samples = toy.sample(method, 8000, 128, guide=guide, inference=inference)
    assert _distance(samples, p, toy) < _floor(p, toy, 8000) + 0.01
    assert _distance(toy.sequences[torch.multinomial(toy.probabilities, 8000, True)], p, toy) > 0.2


def _conditional(method, p_y):
    """The exact network of a class-conditional run: labels 0 and 1, and none."""
    joint = [TOY.probabilities * (1 - p_y), TOY.probabilities * p_y]
    networks = [IdealDenoiser(method, TOY.sequences, p / p.sum(), 6) for p in joint]
    unconditional = TOY.ideal(method)
    return lambda state, label=None: (unconditional if label is None else networks[int(label[0, 0])])(state)


@pytest.mark.parametrize("make", [MDLM, UDLM])
def test_generation_by_label_is_the_conditional_distribution(double, make):
    method, rng = make(_embedding()), Rng.from_seed(0)
    network = _conditional(method, _p_y(TOY.sequences))
    p = _tilted()
    nothing = torch.zeros(N, 4, dtype=torch.long)
    with torch.no_grad():
        start = method.prior(nothing, nothing.bool(), rng)
        denoise = classifier_free(network, network, [1], 0.0)
        state = last_state(sample(denoise, bind_step(method), start, timesteps(128), rng))
    assert _distance(method.decode(state), p) < _floor(p) + 0.02


def test_guidance_beyond_the_label_multiplies_the_ratio(double):
    """p (p / p_0)^w at every open position."""
    method = MDLM(_embedding())
    network = _conditional(method, _p_y(TOY.sequences))
    state = method.prior(torch.zeros(2, 4, dtype=torch.long), torch.zeros(2, 4, dtype=torch.bool), Rng.from_seed(0))
    with_label, without = (network(state, label).log_probs() for label in (torch.ones(2, 1, dtype=torch.long), None))
    real = torch.isfinite(without)
    found = classifier_free(network, network, [1], 2.0)(state).log_probs()
    unnormalised = torch.where(real, 3 * with_label - 2 * without, -torch.inf)
    expected = unnormalised - unnormalised.logsumexp(-1, keepdim=True)
    assert torch.allclose(found[real & torch.isfinite(found)], expected[real & torch.isfinite(found)])
    with pytest.raises(UserError, match="at least -1"):
        classifier_free(network, network, [1], -2.0)


GUIDES = {
    "candi": (lambda: CANDI(e := _embedding(), space=SPACES["projected"](e), sigma=RankLinear(0.05, 0.25)), None),
    "mdlm": (lambda: MDLM(_embedding()), aware),
    "udlm": (lambda: UDLM(_embedding()), aware),
}


@pytest.mark.parametrize("name", GUIDES)
def test_given_tokens_never_change_and_weight_0_changes_nothing(double, name):
    make, noise_aware = GUIDES[name]
    method = make()
    classifier = clean if noise_aware is None else noise_aware(method)
    x0 = TOY.truth(500, seed=1)
    known = torch.rand(500, 4, generator=torch.Generator().manual_seed(2)) < 0.5
    samples = TOY.complete(method, x0, known, 8, guide=guide_for(method, classifier, 3.0))
    assert torch.equal(samples[known], x0[known])
    unguided = TOY.sample(method, N, 32)
    held = TOY.sample(method, N, 32, guide=guide_for(method, classifier, 0.0))
    assert abs(float(_p_y(unguided).mean() - _p_y(held).mean())) < 4 * float(_p_y(unguided).std()) * (2 / N) ** 0.5


def test_what_cannot_be_guided_says_what_can(double):
    masked = MDLM(_embedding())
    with pytest.raises(UserError, match="no Gaussian noise"):
        GradientGuidance(clean, 1.0).over(masked, TOY.ideal(masked), bind_step(masked))
    embedding = _embedding()
    hybrid = CANDI(embedding, space=SPACES["onehot"](embedding), sigma=RankLinear(0.05, 0.25))
    with pytest.raises(UserError, match="no discrete states"):
        DiscreteGuidance(clean, 1.0).over(hybrid, TOY.ideal(hybrid), bind_step(hybrid))
    with pytest.raises(UserError, match="train it with --label"):
        guide_for(AR(_embedding()), clean, 1.0)
    with pytest.raises(UserError, match="leave out --reveal"):
        guide_for(MDLM(_embedding()), clean, 1.0, reveal=1.0)


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("space", ["onehot", "projected", "embedding"])
def test_the_gradient_is_added_to_the_score_with_its_full_strength(double, space, independent):
    """Around a clean text x the noisy law is N(x, sigma^2); times exp(w c.x~) it is N(x + w sigma^2 c, sigma^2).

    So with a linear classifier, one step of the ODE must aim at x + w sigma_t^2 c: a shift that grows with sigma^2,
    checked by the score of the tilted law, which autograd takes. Nothing is left to chance.
    """
    weight, tilt = 1.7, torch.randn(4, 6)
    x0, embedding = TOY.sequences[:1].expand(30, -1), _embedding()
    method = CANDI(embedding, space=SPACES[space](embedding), sigma=RankLinear(0.05, 0.4), independent=independent)
    point = IdealDenoiser(method, x0[:1], torch.ones(1), 6)
    guide = GradientGuidance(lambda x, t: (x * tilt).sum((-1, -2)), weight)
    denoise, step = guide.over(method, point, bind_step(method))
    state = method.corrupt(x0, torch.linspace(0.3, 0.95, 30), Rng.from_seed(0))
    s = state.t / 2
    with torch.no_grad():
        later = step(state, lambda: denoise(state), s, Rng.from_seed(1))
    sigma_t, sigma_s = (method.sigma(u)[:, None, None] for u in (state.u, later.u))
    change = tilt if space == "onehot" else tilt @ embedding.rows()
    values = state.noisy.detach().requires_grad_()
    log_tilted = (-(values - method.space.point(x0)).square() / (2 * sigma_t**2) + weight * change * values).sum()
    (score,) = torch.autograd.grad(log_tilted, values)
    # the flow's slope in sigma is -sigma score, and it is straight for a target that stays where it is
    expected = values + (sigma_t - sigma_s) * sigma_t * score
    noisy = ~later.known
    torch.testing.assert_close(later.noisy[noisy], expected[noisy])
    assert int(noisy.sum()) > 20


def test_a_classifier_guides_by_what_the_method_has(double):
    hybrid = GUIDES["candi"][0]()
    assert guide_for(hybrid, clean, 3.0, reveal=0.5) == GradientGuidance(clean, 3.0, 0.5)
    assert guide_for(MDLM(_embedding()), clean, 3.0, first_order=False) == DiscreteGuidance(clean, 3.0, False)
    assert guide_for(UDLM(_embedding()), clean, 3.0) == DiscreteGuidance(clean, 3.0, True)


@pytest.mark.parametrize("first_order", [True, False])
@pytest.mark.parametrize("make", [MDLM, UDLM, DUO])
def test_a_guided_step_is_a_draw_of_the_tilted_transition(double, make, first_order):
    """p(z_s = v | z_t) exp(w g_v), normalised, where nothing is known; 40,000 positions, four standard errors."""
    method, weight, rows = make(_embedding()), 1.5, 10_000
    count = 6 + method.extra_symbols
    likes = torch.randn(4, count)
    guide = DiscreteGuidance(lambda z, t: (z * likes).sum((-1, -2)), weight, first_order)
    p = torch.softmax(torch.randn(6), -1)
    known = torch.tensor([True, False, False, False]).expand(rows, 4)
    state = State(torch.full((rows,), 0.8), known, torch.tensor([[2, 0, 0, 0]]).expand(rows, 4))
    prediction = Prediction.from_logits(p.log().expand(rows, 4, 6), ~known)
    _, step = guide.over(method, lambda state: prediction, bind_step(method))
    s = torch.full((rows,), 0.3)
    with torch.no_grad():
        later = step(state, lambda: prediction, s, Rng.from_seed(0))
        unguided = method.transition(state, prediction, s)[0]
    found = method.to_symbols(later)
    assert (found[:, 0] == 2).all()
    for place in (1, 2, 3):
        expected = torch.softmax(unguided[place] + weight * likes[place], -1)
        seen = torch.bincount(found[:, place], minlength=count) / rows
        assert ((seen - expected).abs() <= 4 * (expected * (1 - expected) / rows).sqrt()).all()
