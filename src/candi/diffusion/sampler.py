"""The sampling loop."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from candi.base.errors import UserError, unknown
from candi.base.rng import Rng
from candi.base.types import Times
from candi.diffusion.methods.base import Method, Predict
from candi.diffusion.prediction import Prediction
from candi.diffusion.state import State

Denoise = Callable[[State], Prediction]
Step = Callable[[State, Predict, Times, Rng], State]


def bind_step(method: Method, **options: str | None) -> Step:
    """The method's step with the given options; an option that is None keeps its default."""
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    kind = type(method).__name__
    for name, value in given.items():
        if name not in method.options:
            takes = ", ".join(method.options) or "none"
            raise UserError(f"{kind} has no sampling option {name!r}; it takes: {takes}.")
        if value not in method.options[name]:
            raise unknown(name, str(value), method.options[name])
    return partial(method.step, **given)


@dataclass(frozen=True)
class SampleStep:
    """z_t, and p(x0 | z_t) if the step from it needed one: the last state has none."""

    state: State
    prediction: Prediction | None


class _Once:
    """The denoiser at one state. It runs when it is called, and at most once."""

    def __init__(self, denoise: Denoise, state: State) -> None:
        self._denoise, self._state = denoise, state
        self.prediction: Prediction | None = None

    def __call__(self) -> Prediction:
        if self.prediction is None:
            self.prediction = self._denoise(self._state)
        return self.prediction


def sample(denoise: Denoise, step: Step, state: State, timesteps: Float[Tensor, "T"], rng: Rng) -> Iterator[SampleStep]:
    """z_1, ..., z_0, each with the prediction that led on from it. No gradients are kept."""
    for s in timesteps.to(state.t)[1:]:  # all at once: each would make the CPU wait for the device
        with torch.no_grad():
            predict = _Once(denoise, state)
            later = step(state, predict, s.repeat(len(state.t)), rng)
        yield SampleStep(state, predict.prediction)
        state = later
    yield SampleStep(state, None)


def last_state(steps: Iterator[SampleStep]) -> State:
    """z_0: where a trajectory ends."""
    for step in steps:
        state = step.state
    return state
