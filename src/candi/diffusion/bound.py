"""Bounds on -log p(x0): an integral over t of what a network predicts at z_t, and what stands at the ends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from candi.base.rng import Rng
from candi.base.types import PerToken, Times, Tokens
from candi.diffusion.prediction import Prediction
from candi.diffusion.readout import chunks
from candi.diffusion.schedules import Schedule, over_positions
from candi.diffusion.spaces import Space
from candi.diffusion.state import State
from candi.diffusion.steps import check_positions

Parts: TypeAlias = Mapping[str, PerToken]  # nats at each position, by the name of what they are paid for


@dataclass(frozen=True)
class Bound:
    """-log p(x0) <= E_t sum of `integrand` at z_t = `corrupt`(x0, t) + the sum of `ends`, t uniform in (0, 1]."""

    corrupt: Callable[[Tokens, Times, Rng], State]
    integrand: Callable[[Prediction, State, Tokens], Parts]
    ends: Callable[[Callable[[State], Prediction], Tokens, Rng], Parts]


@dataclass(frozen=True)
class NoisePath:
    """u(t) = first + (last - first) t^power: how far the noise is when masking is at t."""

    power: float = 1.0
    first: float = 0.0
    last: float = 1.0

    def __call__(self, t: Tensor) -> Tensor:
        return self.first + (self.last - self.first) * t**self.power

    def derivative(self, t: Tensor) -> Tensor:
        return (self.last - self.first) * self.power * t ** (self.power - 1)


_STRAIGHT = NoisePath()


@dataclass(frozen=True)
class Certain:
    """(alpha(t) - alpha(1))/(1 - alpha(1)): masking as it is if nothing is clean at t = 1, as sampling begins.

    Its rate -alpha'/(1 - alpha) is that of alpha.
    """

    alpha: Schedule

    def __call__(self, t: Tensor) -> Tensor:
        end = self.alpha(torch.ones_like(t))
        return (self.alpha(t) - end) / (1 - end)

    def derivative(self, t: Tensor) -> Tensor:
        return self.alpha.derivative(t) / (1 - self.alpha(torch.ones_like(t)))


def gaussian_part(
    space: Space, sigma: Schedule, prediction: Prediction, x0: Tokens, t: Times, path: NoisePath = _STRAIGHT
) -> PerToken:
    """-1/2 d sigma^-2/dt |w_x0 - E[w | z_t]|^2 where noisy: what a step of the ancestral process pays for its aim.

    Two Gaussian steps of one variance differ by |their means' difference|^2 / (2 variance); in short steps their sum is
    this integral. The norm is that of the noise: isotropic, or of the inverse of its covariance.
    """
    u = path(t)
    rate = sigma.derivative(u) * path.derivative(t) / sigma(u) ** 3
    return rate[:, None] * space.gap(prediction, x0)


def prior_part(space: Space, sigma: Schedule, x0: Tokens, u: float, rng: Rng, frequencies: Tensor | None) -> PerToken:
    """KL(q(y_1 | x0) || prior). Of N(0, sigma_1^2): |w_x0|^2 / (2 sigma_1^2). Of the mixture of all tokens by their

    frequencies f, one draw of log q(y | x0) - log sum_v f_v q(y | v).
    """
    end = torch.full((len(x0),), u, dtype=torch.float64, device=x0.device)
    if frequencies is None:
        return space.size(x0) / (2 * sigma(end).square()[:, None])
    check_positions(frequencies, x0.shape[1])
    point = space.point(x0)
    values = point + over_positions(sigma(end)).to(point) * space.noise(x0.shape, rng)
    rows, tokens, size = values.flatten(0, 1), x0.flatten(), space.embedding.vocab_size
    place = torch.arange(x0.shape[1], device=x0.device).repeat(len(x0)) % len(frequencies)
    parts = []
    for part in chunks(len(rows), size, rows.device):  # a row of V numbers for each position is never all held at once
        density = space.log_density(rows[part][None], sigma(end[:1]).to(point))[0].double()
        mixture = (density + frequencies[place[part]].double().log()).logsumexp(-1)
        parts.append(density.gather(-1, tokens[part][:, None])[:, 0] - mixture)
    return torch.cat(parts).view(x0.shape)
