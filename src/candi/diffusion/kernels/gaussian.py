"""Variance-exploding Gaussian noise: X_t = X_0 + sigma_t eps."""

from torch import Tensor

from candi.base.types import Times, Values
from candi.diffusion.schedules import over_positions


def corrupt(point: Values, sigma_t: Times, noise: Values) -> Values:
    """X_t = X_0 + sigma_t eps."""
    return point + over_positions(sigma_t).to(point.dtype) * noise


def precondition(sigma_t: Times, power: float) -> Tensor:
    """c_in = 1/sqrt(1 + sigma_t^2 power) [B, 1, 1]: unit size for a unit vector plus noise of E|eps|^2 = power."""
    return over_positions((1 + sigma_t.square() * power).rsqrt())
