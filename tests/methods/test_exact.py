"""Every method and sampler against the exact posterior of a small correlated distribution."""

import math

import pytest
import torch

from candi.codebook import Codebook
from candi.kernels import uniform
from candi.methods import AR, DUO, MDLM, METHODS, UDLM, Continuous, Method
from candi.rng import Rng
from candi.schedules import Geometric, LinearAlpha, RankLinear
from candi.spaces import SPACES
from tests.toys import Toy

TOY = Toy(vocab_size=6, length=4, support=24)
N = 20_000


def _book() -> Codebook:
    return Codebook(TOY.vocab_size, 8)


def _continuous(space: str, sigma) -> Continuous:
    book = _book()
    return Continuous(book, space=SPACES[space](book), sigma=sigma)


# (method, steps, options). Continuous methods draw all positions at once from the last prediction, which is exact
# only if the noise is gone by then: hence the small rank_min and sigma_min; and the prior forgets the data's mean
# only for a large sigma(1).
CASES = {
    "mdlm random": (lambda: MDLM(_book()), 256, {}),
    "mdlm one by one, surest first": (lambda: MDLM(_book(), entropy_bound=0.0), 4, {"order": "entropy"}),
    "mdlm remasking": (lambda: MDLM(_book(), most_remasked=0.01), 256, {"remask": "on"}),
    "udlm": (lambda: UDLM(_book()), 128, {}),
    "duo": (lambda: DUO(_book()), 128, {"sampler": "ancestral"}),
    "onehot ddim": (lambda: _continuous("onehot", RankLinear(0.001, 0.48)), 128, {}),
    "onehot euler": (lambda: _continuous("onehot", RankLinear(0.001, 0.48)), 512, {"solver": "euler"}),
    "onehot ancestral": (lambda: _continuous("onehot", RankLinear(0.001, 0.48)), 128, {"solver": "ancestral"}),
    "onehot drawn": (lambda: _continuous("projected", RankLinear(0.001, 0.48)), 256, {"inference": "approximate"}),
    "embedding": (lambda: _continuous("embedding", Geometric(0.05, 20.0)), 128, {}),
    "ar": (lambda: AR(_book()), 4, {}),
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
        samples = TOY.sample(DUO(_book()), N, 8, sampler=sampler)
        inside[sampler] = float((samples[:, None] == TOY.sequences).all(-1).any(-1).double().mean())
    assert inside["greedy"] > inside["ancestral"] + 0.03


@pytest.mark.parametrize("name", ["mdlm", "candi"])
def test_confidence_prefers_likely_tokens(double, name):
    """It is not exact, and says so: sequences come out likelier than they are."""
    likely = {}
    table = {tuple(s): p for s, p in zip(TOY.sequences.tolist(), TOY.probabilities.tolist(), strict=True)}
    for order in ("random", "confidence"):
        samples = TOY.sample(METHODS[name]().build(_book()), 4000, 64, order=order).tolist()
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
        lambda: MDLM(_book()),
        lambda: UDLM(_book()),
        lambda: UDLM(_book(), alpha=_Squared()),
        lambda: DUO(_book()),
        lambda: AR(_book()),
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
            total = total + method.boundary(TOY.ideal(method), x0, Rng.from_seed(5)).sum(-1)
    error = float(total.std()) / n**0.5
    assert abs(float(total.mean()) - TOY.entropy()) < 4 * error + 1e-3 * TOY.entropy()


def test_the_full_posterior_is_not_tight_for_uniform_noise(double):
    """Why it must be leave-one-out: p(x0_i | z) with z_i included gives a larger bound."""
    method = UDLM(_book())
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


@pytest.mark.parametrize("name", METHODS)
def test_only_methods_without_a_bound_need_a_reason(name):
    method = METHODS[name]().build(Codebook(20, 8))
    assert bool(method.unbounded) != method.bound
