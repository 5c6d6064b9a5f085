"""The uniform schedule and the curriculum that come from the Gaussian underneath."""

import math

import pytest
import torch

from candi.base.rng import Rng
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.identifiability import uniform as knots
from candi.diffusion.identifiability.closed_form import corruption, survival, survival_slope
from candi.diffusion.methods.duo import DUO, UniformOfGaussian, sigma_range
from candi.diffusion.sampler import bind_step, last_state, sample
from candi.diffusion.schedules import Geometric, timesteps
from candi.nets.ideal import IdealDenoiser


@pytest.mark.parametrize("size", [2, 27, 1000, 50_257, 256_000])
def test_the_schedule_falls_from_one_to_nothing_with_the_right_slope(double, size):
    alpha = UniformOfGaussian(size, sigma_range(size))
    assert alpha(torch.tensor([0.0, 1.0])).tolist() == pytest.approx([0.999, 0.001], abs=1e-9)
    t = torch.linspace(0.001, 0.999, 199, requires_grad=True)
    values = alpha(t)
    assert (values.diff() < 0).all()
    (slope,) = torch.autograd.grad(values.sum(), t)
    torch.testing.assert_close(alpha.derivative(t), slope, rtol=1e-6, atol=1e-9)
    # between knots, too, it is what the integral says
    direct = (size * survival(alpha.sigma(t), size) - 1) / (size - 1)
    torch.testing.assert_close(values, direct, rtol=1e-8, atol=1e-10)
    exact = size / (size - 1) * survival_slope(alpha.sigma(t), size) * alpha.sigma.derivative(t)
    torch.testing.assert_close(alpha.derivative(t), exact, rtol=1e-5, atol=1e-7)


def test_between_two_knots_there_is_the_cubic_with_their_values_and_slopes(double, monkeypatch):
    """Of four stretches, where a cubic is far from the integral, each by its own four equations."""
    monkeypatch.setattr(knots, "_KNOTS", 4)
    size, sigma = 50, Geometric(0.21, 3.0)  # of no other test: answers are kept
    alpha = UniformOfGaussian(size, sigma)
    for i in range(4):
        ends = torch.tensor([i, i + 1]) / 4
        kept = (size * survival(sigma(ends), size) - 1) / (size - 1)
        slopes = size / (size - 1) * survival_slope(sigma(ends), size) * sigma.derivative(ends)
        powers = torch.arange(4)
        rows = torch.cat([ends[:, None] ** powers, powers * ends[:, None] ** (powers - 1).clamp(min=0)])
        coefficients = torch.linalg.solve(rows, torch.cat([kept, slopes]))
        t = torch.linspace(i / 4, (i + 1) / 4, 9)[:, None]
        torch.testing.assert_close(alpha(t[:, 0]), t**powers @ coefficients)
        torch.testing.assert_close(
            alpha.derivative(t[1:-1, 0]), powers * t[1:-1] ** (powers - 1).clamp(min=0) @ coefficients
        )


# rho of a 30-digit computation: V, sigma, rho
_REFERENCE = [
    (2, 0.2, 0.00020347600872247946),
    (2, 1.0, 0.23975006109347674),
    (2, 10.0, 0.4718140111014917),
    (5, 0.316227766, 0.04182695722258116),
    (5, 2.0, 0.6654665693838662),
    (27, 0.1, 1.9978897783610856e-11),
    (27, 0.5, 0.4904653925017416),
    (27, 3.16227766, 0.9328552271347157),
    (50, 0.2, 0.006983932720204928),
    (50, 1.0, 0.8704531728632524),
    (50, 10.0, 0.9750536306633699),
    (500, 0.316227766, 0.45083564805433196),
    (500, 2.0, 0.9917970113654334),
    (50_257, 0.1, 3.362846447411429e-08),
    (50_257, 0.5, 0.9845519050862748),
    (50_257, 3.16227766, 0.9999275568749414),
    (256_000, 0.2, 0.34328177008728916),
    (256_000, 1.0, 0.9997589203886145),
    (256_000, 10.0, 0.9999938499919359),
]


@pytest.mark.parametrize(("size", "sigma", "rho"), _REFERENCE)
def test_survival_agrees_with_reference_values(size, sigma, rho):
    """To 1e-9 of rho itself, also where it is tiny."""
    at = torch.tensor([sigma], dtype=torch.float64)
    assert float(corruption(at, size)) == pytest.approx(rho, rel=1e-9)
    assert float(survival(at, size)) == pytest.approx(1 - rho, rel=1e-9, abs=1e-14)


def test_survival_is_how_often_the_argmax_keeps_the_token(double):
    """200,000 noisy one-hot vectors of 50 entries; four standard errors."""
    sigma, size, n = 0.5, 50, 200_000
    noise = sigma * torch.randn(n, size, generator=torch.Generator().manual_seed(0))
    noise[:, 0] += 1
    kept = float((noise.argmax(-1) == 0).double().mean())
    expected = float(survival(torch.tensor([sigma]), size))
    assert abs(kept - expected) < 4 * math.sqrt(expected * (1 - expected) / n)


def _duo(size: int, candidates: int, progress: float = 0.0) -> DUO:
    torch.manual_seed(0)
    method = DUO(TokenEmbedding(size, 12), sigma=Geometric(0.2, 0.6), candidates=candidates)
    method.progress = progress
    return method.train()


def test_the_curriculum_keeps_tokens_as_often_as_the_schedule_says(double):
    """Both with all entries and with only the largest: the winner is x0 with chance alpha + (1 - alpha)/V.

    20,000 positions, four standard errors."""
    t = torch.full((100,), 0.5)
    x0 = torch.randint(200, (100, 200))
    for candidates in (8, 200):
        method = _duo(200, candidates)
        kept = float((method.corrupt(x0, t, Rng.from_seed(0)).tokens == x0).double().mean())
        alpha = float(method.alpha(t[:1]))
        expected = alpha + (1 - alpha) / 200
        assert abs(kept - expected) < 4 * math.sqrt(expected * (1 - expected) / 2e4)


@pytest.mark.parametrize("progress", [0.0, 0.25])
def test_the_largest_entries_stand_for_all(double, progress):
    """Soft inputs from 32 of 8,000 entries and the mass of the rest, against all 8,000, where the rest holds much.

    Mean over 2,000 positions of the input along its token's vector, and of its length; the standard errors are below
    0.01, and what the rest's spread around its mean would add is below 0.02."""
    t = torch.full((4,), 0.0)
    x0 = torch.randint(8000, (4, 500))
    seen = {}
    for candidates in (32, 8000):
        method = _duo(8000, candidates, progress)
        values = method.corrupt(x0, t, Rng.from_seed(1)).noisy.detach()
        tokens = method.embedding.lookup(x0).detach()
        seen[candidates] = ((values * tokens).sum(-1).mean(), values.norm(dim=-1).mean())
    for some, all_ in zip(seen[32], seen[8000], strict=True):
        assert abs(float(some - all_)) < 0.03
    assert 0.05 < float(seen[8000][0]) < 0.95


def _of_unit_vectors(size: int, candidates: int, progress: float) -> DUO:
    """Whose soft inputs are the weights of all tokens."""
    method = _duo(size, candidates, progress)
    method.embedding = TokenEmbedding(size, size)
    method.embedding.weight.data = torch.eye(size)
    return method


@pytest.mark.parametrize("progress", [0.0, 0.3])
def test_the_entries_left_out_have_their_expected_mass(double, progress):
    """V - 1 - 8 normal numbers below a cut: E[exp(sigma z / tau) | z < cut] by quadrature, on the mean token vector.

    200 tokens, so that 8 candidates are no small part of them. tau = .1 (1 - progress/.5).
    """
    size, candidates, tau = 200, 8, 0.1 * (1 - progress / 0.5)
    method = _of_unit_vectors(size, candidates, progress)
    t = torch.tensor([0.0, 0.3, 1.0])
    x0 = torch.randint(size, (3, 4))
    ids, entries, cut = method._largest(x0, t, Rng.from_seed(0))
    state = method.corrupt(x0, t, Rng.from_seed(0))
    for row, column in torch.cartesian_prod(torch.arange(3), torch.arange(4)).tolist():
        below = torch.linspace(-12, float(cut[row, column]), 20_001)
        density = (-below.square() / 2).exp()
        grown = (float(method.sigma(t[row])) / tau * below).exp()
        rest = 191 * float(torch.trapezoid(grown * density, below) / torch.trapezoid(density, below))
        expected = torch.full((size,), rest / size)
        expected.index_add_(0, ids[row, column], (entries[row, column] / tau).exp())
        torch.testing.assert_close(state.noisy[row, column], expected / expected.sum(), rtol=1e-5, atol=1e-12)
        assert int(state.tokens[row, column]) == int(ids[row, column, entries[row, column].argmax()])


def test_the_largest_entries_are_those_of_all(double):
    """The k-th largest of n uniform numbers is (n + 1 - k)/(n + 1) in the mean, with variance k (n + 1 - k)/((n + 1)^2
    (n + 2)); the token's own entry is N(1, sigma^2), and the others are any tokens but it.

    5,000 positions, four standard errors.
    """
    size, candidates, n = 200, 8, 5000
    method, t = _duo(size, candidates), torch.full((1,), 0.4)
    sigma = float(method.sigma(t))
    x0 = torch.full((1, n), 7)
    ids, entries, cut = method._largest(x0, t, Rng.from_seed(0))
    own, others = entries[0, :, 0], entries[0, :, 1:] / sigma
    torch.testing.assert_close(cut[0], others[:, -1])
    uniform = torch.special.ndtr(others)
    k = torch.arange(1, candidates + 1)
    variance = k * (size - k) / (size**2 * (size + 1))
    assert ((uniform.mean(0) - (size - k) / size).abs() < 4 * (variance / n).sqrt()).all()
    assert ((uniform.var(0) / variance - 1).abs() < 4 * math.sqrt(8 / n)).all()  # an exponential's has kurtosis 9
    assert abs(float(own.mean()) - 1) < 4 * sigma / math.sqrt(n)
    assert abs(float(own.var()) / sigma**2 - 1) < 4 * math.sqrt(2 / n)
    assert torch.equal(ids[..., 0], x0)
    assert not (ids[..., 1:] == x0[..., None]).any()
    seen = torch.bincount(ids[..., 1:].flatten(), minlength=size)[torch.arange(size) != 7]
    expected = n * candidates / (size - 1)
    assert abs(float(((seen - expected).square() / expected).sum()) - 198) < 4 * math.sqrt(2 * 198)


class _Fixed(Rng):
    """Whose uniform numbers are all the same."""

    number = 0.0

    def uniform(self, *shape, dtype=torch.float32):
        return torch.full(shape, self.number, dtype=dtype)


@pytest.mark.parametrize("number", [0.0, 1 - 2**-53])
def test_the_least_and_the_largest_number_are_entries_too(double, number):
    """In place of Phi^-1 of 0 and 1, which are no numbers."""
    method, rng = _duo(200, 8), _Fixed.from_seed(0)
    rng.number = number
    assert torch.isfinite(method._largest(torch.zeros(1, 3).long(), torch.ones(1), rng)[1]).all()
    assert torch.isfinite(method.corrupt(torch.zeros(1, 3).long(), torch.ones(1), rng).noisy).all()


def test_a_small_vocabulary_holds_all_entries(double):
    """softmax(w_t / tau) of V normal numbers and 1 more at the token: with the means and variances of these."""
    method = _of_unit_vectors(16 * 8, 8, 0.25)
    t, n = torch.full((1,), 0.4), 400
    x0 = torch.arange(n)[None] % 128
    sigma = float(method.sigma(t))
    ids, entries, cut = method._largest(x0, t, Rng.from_seed(0))
    assert cut is None
    assert torch.equal(ids[0, 0], torch.arange(128))
    noise = (entries - torch.nn.functional.one_hot(x0, 128)) / sigma
    assert abs(float(noise.mean())) < 4 / math.sqrt(n * 128)
    assert abs(float(noise.var()) - 1) < 4 * math.sqrt(2 / (n * 128))
    own = noise.gather(-1, x0[..., None])
    assert abs(float(own.mean())) < 4 / math.sqrt(n)
    assert abs(float(own.var()) - 1) < 4 * math.sqrt(2 / n)
    state = method.corrupt(x0, t, Rng.from_seed(0))
    torch.testing.assert_close(state.noisy, torch.softmax(entries / 0.05, -1))
    assert torch.equal(state.tokens, entries.argmax(-1))
    assert _duo(16 * 8 + 1, 8)._largest(x0, t, Rng.from_seed(0))[2] is not None


def test_the_end_is_a_clean_text(double):
    """alpha(0) = 0.999 is no reason to leave a thousandth of the tokens to chance: a point mass comes out whole."""
    size, length = 50, 64
    method = DUO(TokenEmbedding(size, 8))
    sequence = torch.arange(length)[None] % size
    ideal = IdealDenoiser(method, sequence, torch.ones(1), size)
    rng = Rng.from_seed(0)
    blank = torch.zeros(50, length, dtype=torch.long)
    for sampler in ("ancestral", "greedy"):
        start = method.prior(blank, blank.bool(), rng)
        last = last_state(sample(ideal, bind_step(method, sampler=sampler), start, timesteps(16), rng))
        assert torch.equal(last.tokens, sequence.expand(50, -1))


def test_the_curriculum_hardens_into_tokens(double):
    x0 = torch.randint(200, (8, 50))
    t = torch.full((8,), 0.4)
    soft = _duo(200, 32, progress=0.1).corrupt(x0, t, Rng.from_seed(0))
    hard = _duo(200, 32, progress=0.4999).corrupt(x0, t, Rng.from_seed(0))
    over = _duo(200, 32, progress=0.5).corrupt(x0, t, Rng.from_seed(0))
    assert over.values is None
    method = _duo(200, 32)
    sharp = method.embedding.lookup(hard.tokens)
    assert float((hard.noisy - sharp).norm(dim=-1).mean()) < 0.01 < float((soft.noisy - sharp).norm(dim=-1).mean())
    assert _duo(200, 32).eval().corrupt(x0, t, Rng.from_seed(0)).values is None
    without = _duo(200, 32)
    without.curriculum = 0.0
    assert without.corrupt(x0, t, Rng.from_seed(0)).values is None


def test_soft_inputs_teach_the_token_vectors(double):
    method = _duo(200, 32)
    state = method.corrupt(torch.randint(200, (2, 5)), torch.full((2,), 0.5), Rng.from_seed(0))
    (gradient,) = torch.autograd.grad(
        method.embed(state).square().sum() + method.embed(state)[..., 0].sum(), method.embedding.weight
    )
    assert float(gradient.abs().sum()) > 0
