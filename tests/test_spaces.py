"""Identity 3: projected noise is one-hot noise seen through W."""

import pytest
import torch

from candi.codebook import Codebook
from candi.rng import Rng
from candi.spaces import SPACES, Embedding, OneHot, Projected

N = 200_000


@pytest.fixture
def codebook(double) -> Codebook:
    return Codebook(vocab_size=40, width=6)


@pytest.mark.parametrize("sizes", [(40, 6), (5, 8)], ids=["V > D: Cholesky", "V <= D: direct"])
def test_projected_noise_has_the_covariance_of_explicit_noise(double, sizes):
    """Both against W^T W itself. 200,000 draws: an entry's standard error is at most sqrt(2 g_ii g_jj / n)."""
    codebook = Codebook(*sizes)
    gram = codebook.rows().T @ codebook.rows()
    spread = (2 * gram.diagonal()[:, None] * gram.diagonal() / N).sqrt()
    for space in (OneHot(codebook), Projected(codebook)):
        seen = space.hidden(space.noise(torch.Size((N, 1)), Rng.from_seed(7)))[:, 0]
        covariance = seen.T @ seen / N
        assert ((covariance - gram).abs() < 5 * spread).all()
        assert (seen.mean(0).abs() < 5 * (gram.diagonal() / N).sqrt()).all()


def test_projected_and_explicit_noise_have_the_same_expected_gradient(codebook):
    """d/dW E[f(w_x + sigma W^T eps)] for a smooth f that is not quadratic, so that more than the covariance counts.

    The difference of two means of n gradients, in units of its own standard error, estimated from 50 groups; over
    240 entries the largest of such ratios stays below 5 (t with 98 degrees of freedom: chance below 1e-3)."""
    tokens = torch.arange(40).repeat(50)[:, None]
    direction = torch.randn(6)
    groups = 50
    means, errors = [], []
    for space in (OneHot(codebook), Projected(codebook)):
        gradients = []
        for group in range(groups):
            rng = Rng.from_seed(group)
            seen = space.hidden(space.point(tokens) + 0.7 * space.noise(tokens.shape, rng))
            (gradient,) = torch.autograd.grad(torch.tanh(seen @ direction).mean(), codebook.weight)
            gradients.append(gradient)
        stacked = torch.stack(gradients)
        means.append(stacked.mean(0))
        errors.append(stacked.var(0) / groups)
    ratio = (means[0] - means[1]).abs() / (errors[0] + errors[1]).sqrt()
    assert float(ratio.max()) < 5
    assert float((means[1] / errors[1].sqrt()).abs().max()) > 20  # and it is no comparison of zeros


def test_gradient_flows_through_the_factor(codebook):
    """tr(C C^T) = tr(W^T W) = V for unit rows, whatever W: its gradient through C is zero, that of an entry is not."""
    space = Projected(codebook)
    factor = space._factor()
    (trace,) = torch.autograd.grad((factor @ factor.T).trace(), codebook.weight, retain_graph=True)
    (entry,) = torch.autograd.grad((factor @ factor.T)[0, 1], codebook.weight)
    rows = codebook.rows()
    (expected,) = torch.autograd.grad((rows.T @ rows)[0, 1], codebook.weight)
    assert float(trace.abs().max()) < 1e-9
    torch.testing.assert_close(entry, expected)


@pytest.mark.parametrize("name", SPACES)
def test_power_is_the_size_of_the_noise_that_the_network_sees(codebook, name):
    space = SPACES[name](codebook)
    seen = space.hidden(space.noise(torch.Size((50_000, 1)), Rng.from_seed(0))).detach()
    measured = seen.square().sum(-1)
    error = float(measured.std()) / 50_000**0.5
    assert abs(float(measured.mean()) - space.power) < 5 * error


@pytest.mark.parametrize("name", SPACES)
def test_log_density_is_that_of_the_noise(codebook, name):
    """Differences over tokens equal those of the explicit Gaussian log-density in the space."""
    space = SPACES[name](codebook)
    sigma = torch.tensor([0.8])
    values = space.point(torch.tensor([[3]])) + 0.8 * space.noise(torch.Size((1, 1)), Rng.from_seed(0))
    points = space.point(torch.arange(40)[None])[0]
    rows = codebook.rows()
    covariance = {OneHot: torch.eye(40), Projected: rows.T @ rows, Embedding: torch.eye(6)}[type(space)]
    normal = torch.distributions.MultivariateNormal(torch.zeros(len(covariance)), 0.64 * covariance)
    expected = normal.log_prob(values[0] - points)
    actual = space.log_density(values, sigma)[0, 0]
    torch.testing.assert_close(actual - actual[0], expected - expected[0])


def test_nearest_of_a_clean_point_is_its_token(codebook):
    tokens = torch.arange(40)[None]
    for space in (OneHot(codebook), Embedding(codebook), Projected(codebook)):
        assert torch.equal(space.nearest(space.point(tokens), torch.ones_like(tokens).bool()), tokens)
