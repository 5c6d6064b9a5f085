"""Every method and sampler against the exact posterior of a small correlated distribution."""

import math

import pytest
import torch

from candi.base.rng import Rng
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.kernels import uniform
from candi.diffusion.methods import AR, DUO, MDLM, METHODS, UDLM, Continuous, Method
from candi.diffusion.prediction import Prediction
from candi.diffusion.schedules import Geometric, LinearAlpha, RankLinear
from candi.diffusion.spaces import SPACES
from candi.diffusion.state import State
from tests.toys import Toy

TOY = Toy(vocab_size=6, length=4, support=24)
N = 8000  # the truth itself, in so many samples, is 0.026 away in the worst of twenty tries


def _embedding() -> TokenEmbedding:
    return TokenEmbedding(TOY.vocab_size, 8)


def _continuous(space: str, sigma) -> Continuous:
    embedding = _embedding()
    return Continuous(embedding, space=SPACES[space](embedding), sigma=sigma)


# (method, steps, options). Continuous methods draw all positions at once from the last prediction, which is exact
# only if the noise is gone by then: hence the small rank_min and sigma_min; and the prior forgets the data's mean
# only for a large sigma(1).
CASES = {
    "mdlm random": (lambda: MDLM(_embedding()), 128, {}),
    "mdlm one by one, surest first": (lambda: MDLM(_embedding(), entropy_bound=0.0), 4, {"order": "entropy"}),
    "mdlm remasking": (lambda: MDLM(_embedding(), most_remasked=0.01), 128, {"remask": "on"}),
    "udlm": (lambda: UDLM(_embedding()), 128, {}),
    "duo": (lambda: DUO(_embedding()), 128, {"sampler": "ancestral"}),
    "onehot ddim": (lambda: _continuous("onehot", RankLinear(0.001, 0.48)), 64, {}),
    "onehot euler": (lambda: _continuous("onehot", RankLinear(0.001, 0.48)), 256, {"solver": "euler"}),
    "onehot ancestral": (lambda: _continuous("onehot", RankLinear(0.001, 0.48)), 64, {"solver": "ancestral"}),
    "onehot drawn": (lambda: _continuous("projected", RankLinear(0.001, 0.48)), 128, {"inference": "approximate"}),
    "embedding": (lambda: _continuous("embedding", Geometric(0.05, 20.0)), 64, {}),
    "ar": (lambda: AR(_embedding()), 4, {}),
}  # fmt: skip


@pytest.fixture(scope="module")
def floor() -> float:
    """What n samples of the truth itself show, the largest of twenty tries."""
    return max(TOY.distance(TOY.truth(N, seed)) for seed in range(20))


@pytest.mark.parametrize("case", CASES)
def test_sampling_reaches_the_truth(double, floor, case):
    """Identity 1, with 0.006 for what is left of the discretisation; euler, of first order in sigma^2, leaves more."""
    make, steps, options = CASES[case]
    slack = 0.012 if options.get("solver") == "euler" else 0.006
    assert TOY.distance(TOY.sample(make(), N, steps, **options)) < floor + slack


@pytest.mark.parametrize("case", ["mdlm random", "udlm", "duo", "onehot ddim", "embedding"])
def test_few_steps_do_not(double, floor, case):
    """So that reaching it means something."""
    make, _, options = CASES[case]
    assert TOY.distance(TOY.sample(make(), N, 2, **options)) > floor + 0.05


def test_a_greedy_tail_is_sharper(double):
    """At few steps the last one decides much: likeliest tokens lie inside the support more often than drawn ones."""
    inside = {}
    for sampler in ("ancestral", "greedy"):
        samples = TOY.sample(DUO(_embedding()), N, 8, sampler=sampler)
        inside[sampler] = float((samples[:, None] == TOY.sequences).all(-1).any(-1).double().mean())
    assert inside["greedy"] > inside["ancestral"] + 0.03


@pytest.mark.parametrize("name", ["mdlm", "candi"])
def test_confidence_prefers_likely_tokens(double, name):
    """It is not exact, and says so: sequences come out likelier than they are."""
    likely = {}
    table = {tuple(s): p for s, p in zip(TOY.sequences.tolist(), TOY.probabilities.tolist(), strict=True)}
    for order in ("random", "confidence"):
        samples = TOY.sample(METHODS[name]().build(_embedding()), 4000, 64, order=order).tolist()
        likely[order] = sum(math.log(table.get(tuple(s), 1e-4)) for s in samples) / len(samples)
    assert likely["confidence"] > likely["random"] + 0.05


@pytest.mark.parametrize("case", CASES)
def test_given_tokens_never_change(double, case):
    """Identity 7; `complete` checks it after every step. And what is given is conditioned on where it can be."""
    make, steps, options = CASES[case]
    x0 = TOY.truth(2000, seed=5)
    known = torch.zeros_like(x0, dtype=torch.bool)
    known[:, :2] = True
    samples = TOY.complete(make(), x0, known, min(steps, 64), **options)
    assert torch.equal(samples[:, :2], x0[:, :2])
    possible = (samples[:, None] == TOY.sequences).all(-1).any(-1).double().mean()
    assert float(possible) > 0.95


@pytest.mark.parametrize(
    "make",
    [
        lambda: MDLM(_embedding()),
        lambda: UDLM(_embedding()),
        lambda: UDLM(_embedding(), alpha=_Squared()),
        lambda: DUO(_embedding()),
        lambda: AR(_embedding()),
    ],
    ids=["mdlm", "udlm", "udlm, another schedule", "duo", "ar"],
)
def test_the_bound_of_the_exact_posterior_is_the_entropy(double, make):
    """Identity 2. 100,000 stratified times; tolerance four standard errors and 0.1% for t below t_min."""
    method: Method = make().eval()
    n = 100_000
    t = 1e-4 + (1 - 1e-4) * (torch.arange(n, dtype=torch.float64) + 0.5) / n
    x0 = TOY.truth(n, seed=3)
    if isinstance(method, AR):
        # the exact left-to-right conditionals: position i sees the tokens before it
        total = torch.zeros(n, dtype=torch.float64)
        for i in range(TOY.length):
            known = torch.zeros_like(x0, dtype=torch.bool)
            known[:, :i] = True
            state = method.prior(x0, known, Rng.from_seed(0))
            total += TOY.ideal(method)(state).nll(x0)[:, i]
    else:
        state = method.corrupt(x0, t, Rng.from_seed(4))
        with torch.no_grad():
            total = method.loss(TOY.ideal(method)(state), state, x0).sum(-1)
            total = total + method.endpoint_terms(TOY.ideal(method), x0, Rng.from_seed(5)).sum(-1)
    error = float(total.std()) / n**0.5
    assert abs(float(total.mean()) - TOY.entropy()) < 4 * error + 1e-3 * TOY.entropy()


def test_the_full_posterior_is_not_tight_for_uniform_noise(double):
    """Why it must be leave-one-out: p(x0_i | z) with z_i included gives a larger bound."""
    method = UDLM(_embedding())
    n = 50_000
    x0 = TOY.truth(n, seed=3)
    state = method.corrupt(x0, 1e-3 + (1 - 1e-3) * (torch.arange(n) + 0.5) / n, Rng.from_seed(4))
    method.leave_one_out = False
    total = method.loss(TOY.ideal(method)(state), state, x0).sum(-1)
    assert float(total.mean()) > 1.1 * TOY.entropy()


class _Squared(LinearAlpha):
    """alpha = (1 - (1 - eps) t)^2: any schedule will do."""

    def __call__(self, t):
        return super().__call__(t) ** 2

    def derivative(self, t):
        return 2 * LinearAlpha.__call__(self, t) * super().derivative(t)


@pytest.mark.parametrize("size", [2, 5, 30])
def test_the_uniform_posterior_is_that_of_the_markov_chain(double, size):
    """Against p(z_s | z_t, x) by Bayes over the chain, averaged over p(x | z_t) ~ p_loo(x) q(z_t | x)."""
    a_s, a_t = 0.8, 0.3
    guess = torch.softmax(torch.randn(size), 0)

    def jump(a):
        return a * torch.eye(size) + (1 - a) / size

    for z in range(size):
        weight = guess * jump(a_t)[:, z]
        weight = weight / weight.sum()
        by_chain = torch.zeros(size)
        for x in range(size):
            path = jump(a_s)[x] * jump(a_t / a_s)[:, z]
            by_chain += weight[x] * path / path.sum()
        formula = uniform.posterior(torch.tensor([z]), guess[None], torch.tensor([a_t]), torch.tensor([a_s]))[0]
        torch.testing.assert_close(formula, by_chain)
        torch.testing.assert_close(formula.sum(), torch.tensor(1.0))


def test_the_uniform_step_draws_from_the_posterior(double):
    """Without its V numbers. 400,000 draws, chi-square with 6 degrees of freedom below its 0.9999 quantile, 27.9."""
    size, n = 7, 400_000
    guess = torch.softmax(torch.randn(size), 0)
    rng = Rng.from_seed(0)
    z = torch.full((n, 1), 2)
    drawn = torch.multinomial(guess, n, replacement=True, generator=torch.Generator().manual_seed(1))[:, None]
    a_t, a_s = torch.full((n,), 0.4), torch.full((n,), 0.7)
    moved = uniform.step(z, drawn, guess[2].expand(n, 1), a_t, a_s, size, rng)
    expected = n * uniform.posterior(z[:1, 0], guess[None], a_t[:1], a_s[:1])[0]
    seen = torch.bincount(moved[:, 0], minlength=size)
    assert float(((seen - expected).square() / expected).sum()) < 27.9


class _Below1(LinearAlpha):
    """alpha(0) = 0.8."""

    def __call__(self, t):
        return 0.8 * super().__call__(t)


@pytest.mark.parametrize("name", ["udlm", "duo"])
def test_the_last_uniform_step_ends_at_the_text(double, name):
    """At p(x0 | z_t) ~ p(x0 | z_t without i) q(z_t | x0), also where alpha(0) is below 1; no other step does.

    200,000 draws, chi-square with 5 degrees of freedom below its 0.9999 quantile, 25.8.
    """
    method = UDLM(_embedding(), alpha=_Below1()) if name == "udlm" else DUO(_embedding()).eval()
    n, t, zero = 200_000, torch.tensor([0.5]), torch.zeros(1)
    z = torch.full((1, n), 2)
    state = State(t, torch.zeros_like(z, dtype=torch.bool), z)
    guess = torch.tensor([0.1, 0.3, 0.15, 0.25, 0.05, 0.15])
    prediction = Prediction.from_logits(guess.log().expand(1, n, -1), ~state.known)
    posterior = torch.softmax(guess.log() + uniform.log_likelihood(z[:, :1], method.alpha(t), 6)[0, 0], -1)
    assert float(method.alpha(zero)) < 1
    torch.testing.assert_close(method.transition(state, prediction, zero).exp()[0, 0], posterior)
    earlier = uniform.posterior(z[0, :1], guess[None], method.alpha(t), method.alpha(torch.tensor([0.2])))[0]
    torch.testing.assert_close(method.transition(state, prediction, torch.tensor([0.2])).exp()[0, 0], earlier)
    for s, expected in ((zero, n * posterior), (torch.tensor([0.2]), n * earlier)):
        moved = method.step(state, lambda: prediction, s, Rng.from_seed(0))
        seen = torch.bincount(moved.tokens[0], minlength=6)
        assert float(((seen - expected).square() / expected).sum()) < 25.8
        assert bool(moved.known.all()) == bool(moved.known.any()) == (s is zero)


@pytest.mark.parametrize("name", METHODS)
def test_only_methods_without_a_bound_need_a_reason(name):
    method = METHODS[name]().build(TokenEmbedding(20, 8))
    assert bool(method.why_no_bound) != method.bound


@pytest.mark.parametrize("name", ["candi", "mdlm", "onehot", "embedding"])
def test_a_state_does_not_hold_the_answer(name):
    """Its tokens are 0 where they are not known."""
    method = METHODS[name]().build(TokenEmbedding(20, 8))
    x0 = torch.randint(1, 20, (6, 9))
    state = method.corrupt(x0, torch.linspace(0.1, 0.9, 6), Rng.from_seed(0))
    assert not state.known.all()
    assert torch.equal(state.tokens, x0 * state.known)
    prior = method.prior(x0, known := torch.rand(6, 9) < 0.5, Rng.from_seed(0))
    assert torch.equal(prior.tokens, x0 * known)


@pytest.mark.parametrize("name", ["udlm", "duo"])
def test_of_uniform_noise_nothing_is_left_at_the_end(name):
    """Whatever the text was, 12,000 tokens are uniform at t = 1: four standard errors, and 0.001 for alpha(1)."""
    method = METHODS[name]().build(TokenEmbedding(20, 8)).eval()
    state = method.corrupt(torch.full((6, 2000), 3), torch.ones(6), Rng.from_seed(0))
    assert abs(float((state.tokens == 3).double().mean()) - 1 / 20) < 4 * (0.05 * 0.95 / 12_000) ** 0.5 + 1e-3


def test_a_causal_state_shows_a_token_to_its_right_alone():
    method = METHODS["ar"]().build(TokenEmbedding(20, 8))
    x0 = torch.arange(9).repeat(2, 1)
    x0[1, 5:] += 1
    vectors = method.embed(method.corrupt(x0, torch.ones(2), Rng.from_seed(0)))
    assert (vectors[0] == vectors[1]).all(-1).tolist() == [True] * 6 + [False] * 3


@pytest.mark.parametrize("name", METHODS)
def test_a_method_leaves_the_embedding_as_it_was(name):
    embedding = TokenEmbedding(20, 8)
    before = {key: value.clone() for key, value in embedding.state_dict().items()}
    METHODS[name]().build(embedding)
    after = embedding.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[key], value) for key, value in before.items())
