"""Identity 5: what the three solvers share and where they differ."""

import pytest
import torch

from candi.diffusion.solvers import SOLVERS, ddim, euler


def _noise():
    return torch.zeros(1, 1, 3)


def test_ddim_is_exact_in_one_step_for_a_constant_prediction(double):
    """The probability flow of a point mass at x0 is X = x0 + sigma z for ever; one step or a hundred, the same end."""
    x0, z = torch.randn(1, 1, 3), torch.randn(1, 1, 3)
    sigmas = torch.linspace(3.0, 0.2, 101)[:, None]
    once = ddim(x0 + 3 * z, x0, sigmas[0], sigmas[-1], _noise)
    torch.testing.assert_close(once, x0 + 0.2 * z)
    many = x0 + 3 * z
    for a, b in zip(sigmas[:-1], sigmas[1:], strict=True):
        many = ddim(many, x0, a, b, _noise)
    torch.testing.assert_close(many, once)


def test_euler_goes_at_most_half_way(double):
    x_t, x0 = torch.randn(1, 1, 3), torch.randn(1, 1, 3)
    end = euler(x_t, x0, torch.tensor([2.0]), torch.tensor([0.0]), _noise)
    torch.testing.assert_close(end, (x_t + x0) / 2)


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_agree_as_steps_grow(double, name):
    """Data N(0, 1) has E[x0 | x] = x/(1 + sigma^2): every solver must carry N(0, 1 + 9) to N(0, 1 + 0.01).

    60,000 paths of 400 steps; a variance has a relative standard error of sqrt(2/n) = 0.6%, and the discretisation
    of the last steps leaves below 2%."""
    n = 60_000
    random = torch.Generator().manual_seed(0)
    sigmas = torch.logspace(torch.log10(torch.tensor(3.0)), -1, 401)
    x = torch.randn(1, 1, n, generator=random) * (1 + 9) ** 0.5
    for a, b in zip(sigmas[:-1, None], sigmas[1:, None], strict=True):
        estimate = x / (1 + a.square())
        x = SOLVERS[name](x, estimate, a, b, lambda: torch.randn(1, 1, n, generator=random))
    assert abs(float(x.var()) / 1.01 - 1) < 0.04
