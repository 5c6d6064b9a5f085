"""Three ways back from t to s < t along the Gaussian process.

X0 is E[x0 | z_t], or one draw of it; k = sigma_s / sigma_t. All three agree as the steps grow.
"""

from collections.abc import Callable, Mapping

import torch

from candi.base.types import Times, Values
from candi.diffusion.schedules import over_positions

Solver = Callable[[Values, Values, Times, Times, Callable[[], Values]], Values]


def ddim(x_t: Values, x0: Values, sigma_t: Times, sigma_s: Times, noise: Callable[[], Values]) -> Values:
    """Probability-flow ODE, exact for constant X0: X_s = X0 + k (X_t - X0)."""
    k = over_positions(sigma_s / sigma_t)
    return torch.lerp(x0, x_t, k)


def euler(x_t: Values, x0: Values, sigma_t: Times, sigma_s: Times, noise: Callable[[], Values]) -> Values:
    """The paper's Euler step in sigma^2: X_s = X_t + (1 - k^2)/2 (X0 - X_t). At most half way to X0."""
    k = over_positions(sigma_s / sigma_t)
    return torch.lerp(x_t, x0, (1 - k.square()) / 2)


def ancestral(x_t: Values, x0: Values, sigma_t: Times, sigma_s: Times, noise: Callable[[], Values]) -> Values:
    """The posterior of the forward process: X_s = X0 + k^2 (X_t - X0) + sigma_s sqrt(1 - k^2) eps."""
    k = over_positions(sigma_s / sigma_t)
    return x0 + k.square() * (x_t - x0) + over_positions(sigma_s) * (1 - k.square()).sqrt() * noise()


SOLVERS: Mapping[str, Solver] = {"ddim": ddim, "euler": euler, "ancestral": ancestral}
