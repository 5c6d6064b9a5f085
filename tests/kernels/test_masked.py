import math

import torch

from candi.kernels import masked
from candi.rng import Rng
from candi.schedules import LinearAlpha


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
