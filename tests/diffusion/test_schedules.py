import math

import pytest
import torch

from candi.base.errors import UserError
from candi.diffusion.schedules import Geometric, LinearAlpha, PowerAlpha, RankLinear, sigma_of_rank


@pytest.mark.parametrize(
    "schedule", [LinearAlpha(), PowerAlpha(0.5), PowerAlpha(2.0), RankLinear(0.05, 0.45), Geometric(0.01, 2.0)]
)
def test_derivative_is_that_of_autograd(schedule):
    t = torch.linspace(0.01, 0.99, 50, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(schedule(t).sum(), t)
    torch.testing.assert_close(schedule.derivative(t), slope, rtol=1e-9, atol=0)


def test_ends():
    ends = torch.tensor([0.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(LinearAlpha(1e-3)(ends), torch.tensor([1.0, 1e-3], dtype=torch.float64))
    torch.testing.assert_close(Geometric(0.01, 2.0)(ends), torch.tensor([0.01, 2.0], dtype=torch.float64))


def test_the_masking_path_is_a_power_of_time():
    t = torch.linspace(0, 1, 11, dtype=torch.float64)
    torch.testing.assert_close(1 - PowerAlpha(0.5, 0.0)(t), t.sqrt(), rtol=1e-12, atol=0)
    torch.testing.assert_close(PowerAlpha(1.0)(t), LinearAlpha()(t), rtol=1e-12, atol=0)
    with pytest.raises(UserError, match="masking path"):
        PowerAlpha(0.0)


def test_rank_linear_degrades_rank_linearly():
    """r(sigma) = Phi(-1/(sigma sqrt 2)) of the schedule's sigma is the straight line it promises."""
    t = torch.linspace(0, 1, 11, dtype=torch.float64)
    rank = torch.special.ndtr(-1 / (RankLinear(0.1, 0.4)(t) * math.sqrt(2)))
    torch.testing.assert_close(rank, 0.1 + 0.3 * t, rtol=1e-12, atol=0)


def test_rank_is_how_often_one_wrong_token_looks_likelier():
    """Simulation: 400,000 draws, tolerance four standard errors."""
    sigma = sigma_of_rank(torch.tensor(0.2, dtype=torch.float64))
    noise = torch.randn(400_000, 2, dtype=torch.float64) * sigma
    beaten = (noise[:, 1] > 1 + noise[:, 0]).double().mean()
    assert abs(float(beaten) - 0.2) < 4 * math.sqrt(0.2 * 0.8 / 400_000)


@pytest.mark.parametrize("bounds", [(0.0, 0.3), (0.3, 0.5), (0.3, 0.2), (-0.1, 0.2)])
def test_impossible_rank_ranges_are_refused(bounds):
    with pytest.raises(UserError, match="rank range"):
        RankLinear(*bounds)
