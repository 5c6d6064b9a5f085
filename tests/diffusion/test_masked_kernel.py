import math

import pytest
import torch

from candi.base.rng import Rng
from candi.diffusion.kernels import masked, uniform
from candi.diffusion.schedules import LinearAlpha, PowerAlpha


def test_reveals_undo_masking_step_by_step():
    """Keeping at t and revealing down to s leaves the marginal alpha_s: 200,000 positions, four standard errors."""
    alpha = LinearAlpha()
    rng = Rng.from_seed(0)
    times = torch.tensor([[1.0], [0.7], [0.4], [0.1], [0.0]])
    known = masked.keep(alpha(times[0]), torch.Size((1, 200_000)), rng)
    for t, s in zip(times[:-1], times[1:], strict=True):
        revealed = masked.reveal(known, alpha(t), alpha(s), rng)
        assert not (revealed & known).any()
        known = known | revealed
        share = float(alpha(s))
        assert abs(float(known.float().mean()) - share) <= 4 * math.sqrt(share * (1 - share) / 200_000)
    assert known.all()


def test_the_weight_of_linear_alpha_is_one_over_t():
    t = torch.linspace(0.001, 1, 20, dtype=torch.float64)
    alpha = LinearAlpha()
    torch.testing.assert_close(masked.weight(alpha(t), alpha.derivative(t))[:, 0], 1 / t)


@pytest.mark.parametrize("power", [3.0, 6.0])
def test_no_weight_is_infinite_where_nothing_is_corrupted(power):
    """alpha rounds to 1 at small t: what is multiplied with the zero loss of a clean position must be a number."""
    t, alpha = torch.linspace(0.001, 1, 500), PowerAlpha(power)
    assert float(alpha(t)[0]) == 1
    weight = masked.weight(alpha(t), alpha.derivative(t))[:, 0]
    assert torch.isfinite(weight).all()
    late = t > 0.1
    torch.testing.assert_close(weight[late], power / t[late], rtol=0.05, atol=0)  # 1 - alpha has few digits at first


def test_the_uniform_bound_is_finite_where_nothing_is_corrupted():
    """It is 0 there, because its slope is finite and z = x0."""
    log_p = torch.randn(3, 27).log_softmax(-1)
    x0 = torch.tensor([1, 5, 26])
    found = uniform.nelbo(log_p, x0, x0, torch.ones(3), torch.full((3,), -0.5))
    assert torch.isfinite(found).all()
