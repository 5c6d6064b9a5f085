"""One step of a method by its parts, without a network: what is revealed, taken back, drawn and aimed at."""

import math

import pytest
import torch

from candi.base.rng import Rng
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.kernels import uniform
from candi.diffusion.methods import DUO, MDLM, METHODS, UDLM
from candi.diffusion.prediction import Prediction
from candi.diffusion.schedules import Geometric, PowerAlpha
from candi.diffusion.state import State
from candi.diffusion.steps import entropy, entropy_bounded, flat_likelihood, pin_known, remask_rate

V = 5
GUESS = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05], dtype=torch.float64)


def _embedding() -> TokenEmbedding:
    return TokenEmbedding(V, 8)


def _uniform(kind: type) -> UDLM | DUO:
    return UDLM(_embedding()) if kind is UDLM else DUO(_embedding(), sigma=Geometric(0.2, 3.0)).eval()


def _times(value: float, rows: int) -> torch.Tensor:
    return torch.full((rows,), value, dtype=torch.float64)


def _everywhere(p: torch.Tensor, open: torch.Tensor) -> Prediction:
    return Prediction.from_logits(p.log().expand(*open.shape, V), open)


def _share(found: torch.Tensor, expected: float) -> None:
    """A share of events within four standard errors."""
    error = math.sqrt(max(expected * (1 - expected), 1e-12) / found.numel())
    assert abs(float(found.double().mean()) - expected) <= 4 * error


def test_positions_are_revealed_together_as_long_as_little_is_lost():
    """Surest first: what the others than the least sure of them hold may be the bound, and one is always revealed."""
    sure = torch.tensor([[0.3, 0.1, 0.2, 0.05], [0.3, 0.1, 0.2, 0.05], [0.5, 0.5, 0.5, 0.5]])
    open = torch.tensor([[True] * 4, [True, True, True, False], [False, True, True, True]])
    expected = {
        0.0: [[3], [1], [1]],
        0.06: [[1, 3], [1], [1]],
        0.16: [[1, 2, 3], [1, 2], [1]],
        0.6: [[0, 1, 2, 3], [0, 1, 2], [1, 2]],
    }
    for bound, places in expected.items():
        assert [row.nonzero()[:, 0].tolist() for row in entropy_bounded(sure, open, bound)] == places


def test_entropy_is_that_of_the_open_positions(double):
    open = torch.tensor([[True, False]])
    nats = -sum(p * math.log(p) for p in GUESS.tolist())
    torch.testing.assert_close(entropy(_everywhere(GUESS, open)), torch.tensor([[nats, 0.0]]))


def test_no_more_is_taken_back_than_can_be_revealed_again():
    rate = remask_rate(torch.tensor([0.5, 0.95, 0.0]), torch.tensor([0.6, 0.98, 0.1]), 0.05)
    torch.testing.assert_close(rate, torch.tensor([0.05, 0.02 / 0.95, 0.05]))
    assert remask_rate(torch.zeros(1), torch.ones(1), 0.05).tolist() == [0]  # all in one step: 0/0 is no number


def test_a_known_position_allows_its_token_alone():
    state = State(torch.ones(1), torch.tensor([[True, False]]), torch.tensor([[2, 0]]))
    pinned = pin_known(state, torch.full((1, 2, 3), 7.0))
    assert pinned.tolist() == [[[-math.inf, -math.inf, 0.0], [7.0, 7.0, 7.0]]]
    assert flat_likelihood(state, 3).tolist() == [[[-math.inf, -math.inf, 0.0], [0.0, 0.0, 0.0]]]


def test_remasking_leaves_the_share_of_known_positions_as_it_was(double):
    """alpha falls from .4 to .5 known: .3 of the known are taken back, (.5 - .7 * .4)/.6 of the others revealed."""
    method = MDLM(_embedding(), remask="on", most_remasked=0.3)
    rng, rows = Rng.from_seed(0), 10_000
    x0 = torch.full((rows, 4), 3)
    given = torch.arange(4).expand(rows, 4) == 0
    known = given | (rng.uniform(rows, 4) < 0.4)
    state = State(_times(0.6, rows), known, x0 * known, given=given)
    later = method.step(state, lambda: _everywhere(GUESS, ~known), _times(0.5, rows), rng)
    assert later.known[given].all()
    assert torch.equal(later.given, given)
    assert (later.tokens[~later.known] == 0).all()
    kept, revealed = later.known[known & ~given], later.known[~known]
    _share(kept, 0.7)
    _share(revealed, 0.22 / 0.6)
    _share(later.known[~given], 0.5)
    assert (later.tokens[known & later.known] == 3).all()
    for token in range(V):
        _share(later.tokens[~known & later.known] == token, float(GUESS[token]))


def test_by_default_five_in_a_hundred_are_taken_back_at_most(double):
    method = MDLM(_embedding())
    state = State(_times(0.6, 10_000), torch.ones(10_000, 4).bool(), torch.ones(10_000, 4, dtype=torch.long))
    later = method.step(
        state, lambda: _everywhere(GUESS, ~state.known), _times(0.5, 10_000), Rng.from_seed(0), remask="on"
    )
    _share(later.known, 0.95)
    assert method.step(state, lambda: None, _times(0.5, 10_000), Rng.from_seed(0)).known.all()


@pytest.mark.parametrize("by", ["keyword", "constructor"])
def test_masked_diffusion_reveals_the_surest_first(double, by):
    """Two positions of four are certain: by confidence no other one is revealed before them, as many as by chance."""
    method = MDLM(_embedding(), order="confidence" if by == "constructor" else "random")
    option = {"order": "confidence"} if by == "keyword" else {}
    state = method.prior(torch.zeros(5000, 4, dtype=torch.long), torch.zeros(5000, 4).bool(), Rng.from_seed(0))
    p = torch.stack(
        [
            torch.full((V,), 1 / V),
            torch.eye(V)[3] * (1 - 1e-12) + 1e-13,
            torch.full((V,), 1 / V),
            torch.eye(V)[2] * (1 - 1e-12) + 1e-13,
        ]
    )
    s = _times(0.6, 5000)
    later = method.step(
        state, lambda: Prediction.from_logits(p.log().expand(5000, 4, V), ~state.known), s, Rng.from_seed(1), **option
    )
    _share(later.known, 0.4)
    certain, other = later.known[:, [1, 3]].sum(-1), later.known[:, [0, 2]].sum(-1)
    assert ((other == 0) | (certain == 2)).all()
    assert later.known.sum(-1).unique().tolist() == [0, 1, 2, 3, 4]
    assert (later.tokens[:, 1][later.known[:, 1]] == 3).all()


@pytest.mark.parametrize("order", ["random", "confidence", "entropy"])
def test_the_last_step_reveals_all(double, order):
    """Also of a path that does not begin at exactly 1."""
    method = MDLM(_embedding(), alpha=_Late(1.0), order=order)
    state = method.prior(torch.zeros(50, 4, dtype=torch.long), torch.zeros(50, 4).bool(), Rng.from_seed(0))
    later = method.step(state, lambda: _everywhere(GUESS, ~state.known), _times(0.0, 50), Rng.from_seed(1))
    assert later.known.all()
    for token in range(V):
        _share(later.tokens == token, float(GUESS[token]))


class _Late(PowerAlpha):
    def __call__(self, t):
        return 0.9 * super().__call__(t)


def test_symbols_of_a_masked_state_are_tokens_and_the_mask(double):
    method = MDLM(_embedding())
    known = torch.tensor([[True, False, True]])
    state = State(_times(0.8, 1), known, torch.tensor([[4, 0, 1]]), given=known & torch.tensor([[True, False, False]]))
    symbols = method.to_symbols(state)
    assert symbols.tolist() == [[4, V, 1]]
    back = method.from_symbols(state, symbols, _times(0.4, 1))
    assert torch.equal(back.known, known)
    assert torch.equal(back.tokens, state.tokens)
    assert torch.equal(back.given, state.given)
    assert float(back.t) == 0.4
    chances = method.transition(state, _everywhere(GUESS, torch.ones(1, 3).bool()), _times(0.4, 1)).exp()
    torch.testing.assert_close(chances[0, 1], torch.cat([GUESS / 2, torch.tensor([0.5])]))  # (.6 - .2)/(1 - .2)
    for last in (method, MDLM(_embedding(), alpha=_Late(1.0))):
        chances = last.transition(state, _everywhere(GUESS, torch.ones(1, 3).bool()), _times(0.0, 1)).exp()
        torch.testing.assert_close(chances[0, 1], torch.cat([GUESS, torch.zeros(1)]))


@pytest.mark.parametrize("s", [0.5, 0.0])
@pytest.mark.parametrize("kind", [UDLM, DUO])
def test_a_step_of_uniform_noise_is_a_draw_of_its_transition(double, kind, s):
    """And that is Bayes' rule over the chain from x0 to z_s to z_t: 40,000 positions, four standard errors."""
    method = _uniform(kind)
    state = State(_times(0.8, 100), torch.zeros(100, 400).bool(), torch.full((100, 400), 1))
    prediction = _everywhere(GUESS, ~state.known)
    a_t = float(method.alpha(state.t)[0])
    a_s = float(method.alpha(_times(s, 1))) if s else 1.0  # at the end there is x0 itself
    jump = lambda a: a * torch.eye(V) + (1 - a) / V  # noqa: E731
    joint = GUESS[:, None] * jump(a_s) * jump(a_t / a_s)[:, 1]  # of x0 and z_s, with z_t = 1
    expected = joint.sum(0) / joint.sum()
    found = method.transition(state, prediction, _times(s, 100)).exp()
    torch.testing.assert_close(found, expected.expand_as(found))
    later = method.step(state, lambda: prediction, _times(s, 100), Rng.from_seed(0))
    for token in range(V):
        _share(later.tokens == token, float(expected[token]))
    assert later.known.all() == (s == 0)
    held = State(state.t, ~state.known, state.tokens)
    assert torch.equal(method.step(held, lambda: prediction, _times(s, 100), Rng.from_seed(0)).tokens, state.tokens)
    again = method.from_symbols(state, method.to_symbols(state), _times(s, 100))
    assert torch.equal(again.tokens, state.tokens)
    assert again.known.all() == (s == 0)


@pytest.mark.parametrize("by", ["keyword", "constructor"])
def test_the_greedy_end_takes_the_likeliest_token(double, by):
    """argmax_v p_v q(z | v), by enumeration: the best token of p, or z, which the noise may have left as it was."""
    method = _uniform(DUO)
    method.sampler = "greedy" if by == "constructor" else "ancestral"
    options = {"sampler": "greedy"} if by == "keyword" else {}
    p = torch.softmax(torch.randn(200, 20, V), -1)
    for t in (0.2, 0.5, 0.9):
        state = State(_times(t, 200), torch.zeros(200, 20).bool(), torch.randint(V, (200, 20)))
        a = float(method.alpha(state.t)[0])
        seen = a * torch.nn.functional.one_hot(state.tokens, V) + (1 - a) / V
        best = (p * seen).argmax(-1)
        prediction = Prediction.from_logits(p.log(), ~state.known)
        later = method.step(
            state, lambda prediction=prediction: prediction, _times(0.0, 200), Rng.from_seed(0), **options
        )
        assert torch.equal(later.tokens, best)
        earlier = method.step(
            state, lambda prediction=prediction: prediction, _times(0.1, 200), Rng.from_seed(0), **options
        )
        assert not torch.equal(earlier.tokens, best)
    assert not torch.equal(best, p.argmax(-1))


def test_the_last_step_ends_at_what_is_predicted_whatever_noise_is_left(double):
    """alpha(0) = .9: a tenth of the tokens would be left to chance."""
    method = _uniform(DUO)
    method.alpha = _Late(1.0)
    x0 = torch.randint(V, (40, 50))
    state = method.corrupt(x0, _times(0.5, 40), Rng.from_seed(0))
    certain = Prediction.from_logits(torch.nn.functional.one_hot(x0, V).double().log(), ~state.known)
    for sampler in ("ancestral", "greedy"):
        last = method.step(state, lambda: certain, _times(0.0, 40), Rng.from_seed(1), sampler=sampler)
        assert torch.equal(last.tokens, x0)
    found = method.transition(state, certain, _times(0.0, 40)).exp()
    torch.testing.assert_close(found, torch.nn.functional.one_hot(x0, V).double())


@pytest.mark.parametrize("name", ["udlm", "udlm, late", "duo"])
def test_the_ends_of_the_uniform_bound_by_hand(double, name):
    """KL(q(z_1 | x0) || uniform), and -log p(x0 | z_0) by Bayes' rule, where alpha(0) is below 1."""
    method = UDLM(_embedding(), alpha=_Late(1.0)) if name == "udlm, late" else _uniform(DUO if name == "duo" else UDLM)
    x0 = torch.randint(V, (1, 60))
    at_1, at_0 = (float(method.alpha(_times(t, 1))) for t in (1.0, 0.0))
    q = torch.full((V,), (1 - at_1) / V)
    q[0] += at_1
    divergence = float((q * (q * V).log()).sum())
    states = []

    def denoise(state):
        states.append(state)
        return _everywhere(GUESS, ~state.known)

    found = method.endpoint_terms(denoise, x0, Rng.from_seed(0))
    expected = torch.full((1, 60), divergence)
    assert bool(states) == (at_0 < 1) == (name != "udlm")
    if states:
        z = states[0].tokens
        seen = at_0 * torch.nn.functional.one_hot(z, V) + (1 - at_0) / V  # q(z | x0 = v), symmetric
        posterior = GUESS * seen / (GUESS * seen).sum(-1, keepdim=True)
        expected = expected - posterior.gather(-1, x0[..., None])[..., 0].log()
        assert float(states[0].t) == 0
        assert torch.equal(z, x0) == (name == "duo")  # of DUO, alpha(0) = .9994
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-10)


def test_reconstruction_by_bayes_where_the_token_has_changed(double):
    x0, z, a = torch.tensor([[0, 3]]), torch.tensor([[1, 3]]), 0.7
    seen = a * torch.nn.functional.one_hot(z, V) + (1 - a) / V
    posterior = GUESS * seen / (GUESS * seen).sum(-1, keepdim=True)
    nll = _everywhere(GUESS, torch.ones(1, 2).bool()).nll
    found = uniform.reconstruction(nll(x0), nll(z), z == x0, torch.tensor([a]), V)
    torch.testing.assert_close(found, -posterior.gather(-1, x0[..., None])[..., 0].log())


@pytest.mark.parametrize("name", ["udlm", "duo", "onehot", "embedding", "candi"])
def test_the_likelihood_of_a_state_is_that_of_its_corruption(double, name):
    """log q(z | x0 = v), up to what is the same for every v."""
    method = _uniform(DUO) if name == "duo" else METHODS[name]().build(_embedding())
    state = method.corrupt(torch.randint(V, (4, 3)), torch.tensor([0.3, 0.5, 0.7, 0.9]), Rng.from_seed(0))
    found = method.log_likelihood(state)
    open = ~state.known
    if state.values is None:
        a = method.alpha(state.t)[:, None, None]
        expected = (a * torch.nn.functional.one_hot(state.tokens, V) + (1 - a) / V).log()
    else:
        space, sigma = method.gaussian()
        rows = method.embedding.rows().detach()
        pseudo = (
            torch.linalg.pinv(rows.T @ rows) if name != "embedding" else torch.eye(8)
        )  # V < D: noise lies in their span
        away = (state.noisy[:, :, None] - space.point(torch.arange(V)[None])[0]).detach()
        expected = -(away @ pseudo * away).sum(-1) / (2 * sigma(state.t).square()[:, None, None])
    torch.testing.assert_close((found - found[..., :1])[open], (expected - expected[..., :1])[open])


@pytest.mark.parametrize("name", ["candi", "onehot", "embedding"])
def test_a_state_looks_like_its_nearest_tokens(double, name):
    """Almost without noise those are the tokens themselves; known positions show theirs, whatever their values."""
    method = METHODS[name]().build(_embedding())
    x0, known = torch.randint(1, V, (6, 7)), torch.rand(6, 7) < 0.5
    values = method.space.point(torch.where(known, 0, x0)) + 1e-6
    state = State(_times(0.5, 6), known, x0 * known, values.detach())
    assert torch.equal(method.decode(state), x0)
