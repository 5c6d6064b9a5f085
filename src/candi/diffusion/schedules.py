"""Noise against time: alpha(t) for masking, sigma(t) for Gaussian noise. Each knows its derivative.

The two are separate functions of t: nothing forces the share of corrupted positions and the noise on them to move
together.
"""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from candi.base.errors import UserError


@runtime_checkable
class Schedule(Protocol):
    def __call__(self, t: Tensor) -> Tensor: ...

    def derivative(self, t: Tensor) -> Tensor: ...

    def __hash__(self) -> int: ...  # what is computed from it is kept


@dataclass(frozen=True)
class LinearAlpha:
    """alpha(t) = 1 - (1 - eps) t, the chance that a position is still clean. eps keeps -log alpha(1) finite."""

    eps: float = 1e-3

    def __call__(self, t: Tensor) -> Tensor:
        return 1 - (1 - self.eps) * t

    def derivative(self, t: Tensor) -> Tensor:
        return torch.full_like(t, self.eps - 1)


@dataclass(frozen=True)
class PowerAlpha:
    """alpha(t) = 1 - (1 - eps) t^power: the share of corrupted positions is rho = t^power, whatever the noise does."""

    power: float
    eps: float = 1e-3

    def __post_init__(self) -> None:
        if not 0 < self.power < float("inf"):
            raise UserError(f"The power of the masking path must be above 0, not {self.power}.")

    def __call__(self, t: Tensor) -> Tensor:
        return 1 - (1 - self.eps) * t**self.power

    def derivative(self, t: Tensor) -> Tensor:
        return -(1 - self.eps) * self.power * t ** (self.power - 1)


def sigma_of_rank(rank: Tensor) -> Tensor:
    """sigma(r) = -1 / (sqrt 2 Phi^-1(r)), the noise at which a wrong token looks likelier with chance r < 1/2."""
    return (-1 / (math.sqrt(2) * torch.special.ndtri(rank.double()))).to(rank.dtype)


@dataclass(frozen=True)
class RankLinear:
    """sigma(t) = sigma(r*(t)), r*(t) = low + (high - low) t: rank degradation grows at a steady pace."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < 0.5:
            raise UserError(
                f"The rank range {self.low} to {self.high} is not inside (0, 0.5); "
                "choose 0 < rank_min < rank_max < 0.5."
            )

    def __call__(self, t: Tensor) -> Tensor:
        return sigma_of_rank(self.low + (self.high - self.low) * t)

    def derivative(self, t: Tensor) -> Tensor:
        # q = Phi^-1(r): dq/dr = sqrt(2 pi) exp(q^2/2) and dsigma/dq = 1/(sqrt 2 q^2)
        q = torch.special.ndtri((self.low + (self.high - self.low) * t).double())
        slope = math.sqrt(2 * math.pi) * torch.exp(q.square() / 2) / (math.sqrt(2) * q.square())
        return ((self.high - self.low) * slope).to(t.dtype)


@dataclass(frozen=True)
class Geometric:
    """sigma(t) = low (high / low)^t, the variance-exploding schedule."""

    low: float = 0.01
    high: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high:
            raise UserError(f"The noise range {self.low} to {self.high} must rise from above 0.")

    def __call__(self, t: Tensor) -> Tensor:
        return self.low * (self.high / self.low) ** t

    def derivative(self, t: Tensor) -> Tensor:
        return math.log(self.high / self.low) * self(t)


def timesteps(steps: int) -> Float[Tensor, "steps_and_one"]:
    """1 = t_0 > ... > t_steps = 0, evenly spaced: one network evaluation each, none after the last."""
    if steps < 1:
        raise UserError(f"Sampling takes at least 1 step, not {steps}.")
    return torch.linspace(1, 0, steps + 1, dtype=torch.float64, device="cpu")


def even_in(progress: Schedule, steps: int) -> Float[Tensor, "steps_and_one"]:
    """1 = t_0 > ... > t_steps = 0 at which a falling function of t takes evenly spaced values, by bisection."""
    ends = torch.tensor([1.0, 0.0], dtype=torch.float64, device="cpu")
    last, first = progress(ends).tolist()
    goal = torch.linspace(last, first, len(timesteps(steps)), dtype=torch.float64, device="cpu")
    return torch.cat([ends[:1], time_of(progress, goal)[1:-1], ends[1:]])


def time_of(progress: Schedule, value: Tensor) -> Tensor:
    """The time at which a falling function of t has a value, by bisection."""
    low, high = torch.zeros_like(value), torch.ones_like(value)
    for _ in range(60 if value.dtype == torch.float64 else 30):
        middle = (low + high) / 2
        early = progress(middle) > value
        low, high = torch.where(early, middle, low), torch.where(early, high, middle)
    return (low + high) / 2


def over_positions(per_sequence: Tensor) -> Tensor:
    """[B] -> [B, 1, 1], to multiply values of shape [B, L, K]."""
    return per_sequence[:, None, None]
