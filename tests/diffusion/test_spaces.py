"""Identity 3: projected noise is one-hot noise seen through W."""

import pytest
import torch

from candi.base.rng import Rng
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.schedules import sigma_of_rank
from candi.diffusion.spaces import SPACES, Embedding, OneHot, Projected

N = 200_000


@pytest.fixture
def embedding(double) -> TokenEmbedding:
    return TokenEmbedding(vocab_size=40, width=6)


@pytest.mark.parametrize("sizes", [(40, 6), (5, 8)], ids=["V > D: Cholesky", "V <= D: direct"])
def test_projected_noise_has_the_covariance_of_explicit_noise(double, sizes):
    """Both against W^T W itself. 200,000 draws: an entry's standard error is at most sqrt(2 g_ii g_jj / n)."""
    embedding = TokenEmbedding(*sizes)
    gram = embedding.rows().T @ embedding.rows()
    spread = (2 * gram.diagonal()[:, None] * gram.diagonal() / N).sqrt()
    for space in (OneHot(embedding), Projected(embedding)):
        seen = space.hidden(space.noise(torch.Size((N, 1)), Rng.from_seed(7)))[:, 0]
        covariance = seen.T @ seen / N
        assert ((covariance - gram).abs() < 5 * spread).all()
        assert (seen.mean(0).abs() < 5 * (gram.diagonal() / N).sqrt()).all()


def test_projected_and_explicit_noise_have_the_same_expected_gradient(embedding):
    """d/dW E[f(w_x + sigma W^T eps)] for a smooth f that is not quadratic, so that more than the covariance counts.

    The difference of two means of n gradients, in units of its own standard error, estimated from 50 groups; over
    240 entries the largest of such ratios stays below 5 (t with 98 degrees of freedom: chance below 1e-3)."""
    tokens = torch.arange(40).repeat(50)[:, None]
    direction = torch.randn(6)
    groups = 50
    means, errors = [], []
    for space in (OneHot(embedding), Projected(embedding)):
        gradients = []
        for group in range(groups):
            rng = Rng.from_seed(group)
            seen = space.hidden(space.point(tokens) + 0.7 * space.noise(tokens.shape, rng))
            (gradient,) = torch.autograd.grad(torch.tanh(seen @ direction).mean(), embedding.weight)
            gradients.append(gradient)
        stacked = torch.stack(gradients)
        means.append(stacked.mean(0))
        errors.append(stacked.var(0) / groups)
    ratio = (means[0] - means[1]).abs() / (errors[0] + errors[1]).sqrt()
    assert float(ratio.max()) < 5
    assert float((means[1] / errors[1].sqrt()).abs().max()) > 20  # and it is no comparison of zeros


class _Fixed(Rng):
    """Normals that are what a test wants them to be."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    def normal(self, *shape, dtype):
        return self.values.to(dtype)


def test_gradient_of_the_noise_is_that_of_its_covariance(embedding):
    """With z^T z/n = I exactly, the second moment of the noise is W^T W exactly, and so is each entry's gradient."""
    space = Projected(embedding)
    orthogonal = torch.linalg.qr(torch.randn(6, 6))[0] * 6**0.5
    noise = space.noise(torch.Size((6, 1)), _Fixed(orthogonal[:, None]))[:, 0]
    rows = embedding.rows()
    moment, gram = noise.T @ noise / 6, rows.T @ rows
    torch.testing.assert_close(moment, gram, rtol=1e-5, atol=1e-5)  # the jitter is a millionth
    for entry in ((0, 0), (0, 1), (4, 2)):
        (seen,) = torch.autograd.grad(moment[entry], embedding.weight, retain_graph=True)
        (expected,) = torch.autograd.grad(gram[entry], embedding.weight, retain_graph=True)
        torch.testing.assert_close(seen, expected, rtol=1e-5, atol=1e-6)


def test_the_factor_is_computed_once_for_the_same_weights(embedding, monkeypatch):
    made = []
    monkeypatch.setattr("candi.diffusion.spaces._cholesky_of_gram", lambda weight: made.append(1) or torch.eye(6))
    space = Projected(embedding)
    for _ in range(3):
        space.noise(torch.Size((2, 3)), Rng.from_seed(0))
    assert len(made) == 1
    with torch.no_grad():
        embedding.weight.add_(1.0)  # as an optimizer does
    space.noise(torch.Size((2, 3)), Rng.from_seed(0))
    assert len(made) == 2
    space.invalidate_caches()  # as training says where a change cannot be seen
    space.noise(torch.Size((2, 3)), Rng.from_seed(0))
    assert len(made) == 3


@pytest.mark.parametrize("name", SPACES)
def test_power_is_the_size_of_the_noise_that_the_network_sees(embedding, name):
    space = SPACES[name](embedding)
    seen = space.hidden(space.noise(torch.Size((50_000, 1)), Rng.from_seed(0))).detach()
    measured = seen.square().sum(-1)
    error = float(measured.std()) / 50_000**0.5
    assert abs(float(measured.mean()) - space.power) < 5 * error


@pytest.mark.parametrize("name", SPACES)
def test_log_density_is_that_of_the_noise(embedding, name):
    """Differences over tokens equal those of the explicit Gaussian log-density in the space."""
    space = SPACES[name](embedding)
    sigma = torch.tensor([0.8])
    values = space.point(torch.tensor([[3]])) + 0.8 * space.noise(torch.Size((1, 1)), Rng.from_seed(0))
    points = space.point(torch.arange(40)[None])[0]
    rows = embedding.rows()
    covariance = {OneHot: torch.eye(40), Projected: rows.T @ rows, Embedding: torch.eye(6)}[type(space)]
    normal = torch.distributions.MultivariateNormal(torch.zeros(len(covariance)), 0.64 * covariance)
    expected = normal.log_prob(values[0] - points)
    actual = space.log_density(values, sigma)[0, 0]
    torch.testing.assert_close(actual - actual[0], expected - expected[0])


def test_nearest_of_a_clean_point_is_its_token(embedding):
    tokens = torch.arange(40)[None]
    for space in (OneHot(embedding), Embedding(embedding), Projected(embedding)):
        assert torch.equal(space.nearest(space.point(tokens), torch.ones_like(tokens).bool()), tokens)


def test_projected_noise_looks_like_the_argmax_of_the_noisy_one_hot():
    """x~ = y pinv(W) for V <= D, so the token that guidance looks at is the argmax of x~, at every position.

    The largest product y.w_v is another token at a third of the positions, at the noise of rank degradation 0.4.
    """
    torch.manual_seed(0)
    embedding = TokenEmbedding(30, 64)
    onehot, projected = SPACES["onehot"](embedding), SPACES["projected"](embedding)
    tokens = torch.randint(30, (64, 32), generator=torch.Generator().manual_seed(1))
    sigma = sigma_of_rank(torch.tensor([0.4]))
    noisy = onehot.point(tokens) + sigma * onehot.noise(tokens.shape, Rng.from_seed(2))
    seen, everywhere = onehot.hidden(noisy), torch.ones_like(tokens).bool()
    assert torch.equal(projected.nearest(seen, everywhere), noisy.argmax(-1))
    assert torch.equal(onehot.nearest(noisy, everywhere), noisy.argmax(-1))
    assert float(((seen @ embedding.rows().T).argmax(-1) != noisy.argmax(-1)).double().mean()) > 0.2


def test_with_more_tokens_than_dimensions_it_is_the_likeliest_token(double):
    """y does not determine x~ there. q(y | v) is N(w_v, sigma^2 W^T W), computed by hand; sigma does not matter."""
    torch.manual_seed(0)
    embedding = TokenEmbedding(40, 6)
    projected, rows = SPACES["projected"](embedding), embedding.rows().detach()
    tokens = torch.randint(40, (8, 16), generator=torch.Generator().manual_seed(1))
    seen = projected.point(tokens).detach() + 0.7 * projected.noise(tokens.shape, Rng.from_seed(2)).detach()
    law = torch.distributions.MultivariateNormal(rows, 0.7**2 * rows.T @ rows)
    by_hand = law.log_prob(seen[..., None, :]).argmax(-1)
    assert torch.equal(projected.nearest(seen, torch.ones_like(tokens).bool()), by_hand)


def test_positions_that_are_known_look_like_nothing():
    embedding = TokenEmbedding(30, 64)
    tokens = torch.randint(1, 30, (4, 8), generator=torch.Generator().manual_seed(1))
    where = torch.rand(4, 8, generator=torch.Generator().manual_seed(2)) < 0.5
    for space in (SPACES[name](embedding) for name in SPACES):
        assert torch.equal(space.nearest(space.point(tokens), where), tokens * where)


@pytest.mark.parametrize("sizes", [(40, 6), (5, 8)])
@pytest.mark.parametrize("name", SPACES)
def test_densities_follow_the_weights(double, name, sizes):
    """After a step of training nothing that was computed from the old vectors is left."""
    embedding = TokenEmbedding(*sizes)
    space = SPACES[name](embedding)
    values = space.point(torch.arange(sizes[0])[None]).detach() + 0.3
    before = space.log_density(values, torch.tensor([0.8]))
    with torch.no_grad():
        embedding.weight.add_(torch.randn_like(embedding.weight))
    after, fresh = (one.log_density(values, torch.tensor([0.8])) for one in (space, SPACES[name](embedding)))
    assert torch.equal(after, fresh)
    assert torch.equal(after, before) == (name == "onehot")
