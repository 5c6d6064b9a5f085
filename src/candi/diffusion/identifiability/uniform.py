"""Uniform diffusion underneath a Gaussian one: what the argmax of a noisy one-hot vector keeps of its token."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from candi.diffusion.identifiability.closed_form import survival, survival_slope
from candi.diffusion.schedules import Schedule

_KNOTS = 2048


@dataclass(frozen=True)
class UniformOfGaussian:
    """alpha = (V (1 - rho(sigma(t), V)) - 1)/(V - 1): how much of a token the argmax of its noisy one-hot keeps.

    Computed at knots once, with its exact derivative, and interpolated by cubics that have both: smooth for any V.
    """

    vocab_size: int
    sigma: Schedule

    def __call__(self, t: Tensor) -> Tensor:
        place, left, right, rise, fall = self._around(t)
        u, v = place, 1 - place
        value = v * v * (1 + 2 * u) * left + u * u * (1 + 2 * v) * right + u * v * (v * rise - u * fall)
        return value.to(t.dtype)

    def derivative(self, t: Tensor) -> Tensor:
        place, left, right, rise, fall = self._around(t)
        u, v = place, 1 - place
        slope = 6 * u * v * (right - left) + v * (v - 2 * u) * rise + u * (u - 2 * v) * fall
        return (slope * _KNOTS).to(t.dtype)

    def _around(self, t: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Place between two knots, values at both, and slopes at both per knot distance."""
        values, slopes = self._knots(t.device)
        place = t.double() * _KNOTS
        knot = place.floor().clamp(0, _KNOTS - 1)
        i = knot.long()
        return place - knot, values[i], values[i + 1], slopes[i] / _KNOTS, slopes[i + 1] / _KNOTS

    def _knots(self, device: torch.device) -> tuple[Tensor, Tensor]:
        return _knots_on(device, self.vocab_size, self.sigma)

    # what torch.compiler.assume_constant_result does, which would load the compiler here and now: a second
    _knots._dynamo_marked_constant = True  # type: ignore[attr-defined]


@lru_cache(maxsize=8)
def _knots_on(device: torch.device, vocab_size: int, sigma: Schedule) -> tuple[Tensor, Tensor]:
    values, slopes = _knots(vocab_size, sigma)
    return values.to(device), slopes.to(device)


@lru_cache(maxsize=8)
def _knots(vocab_size: int, sigma: Schedule) -> tuple[Tensor, Tensor]:
    t = torch.linspace(0, 1, _KNOTS + 1, dtype=torch.float64, device="cpu")
    share = vocab_size / (vocab_size - 1)
    values = share * survival(sigma(t), vocab_size) - 1 / (vocab_size - 1)
    return values, share * survival_slope(sigma(t), vocab_size) * sigma.derivative(t)
