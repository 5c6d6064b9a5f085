"""The sampling loop."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from inspect import signature
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from candi.base.errors import UserError, unknown
from candi.base.rng import Rng
from candi.base.types import Mask, Times, Tokens
from candi.diffusion.methods.base import Method, Predict
from candi.diffusion.prediction import Prediction
from candi.diffusion.state import State

Denoise = Callable[[State], Prediction]
Step = Callable[[State, Predict, Times, Rng], State]


def bind_step(method: Method, **options: str | None) -> Step:
    """The method's step with the given options; an option that is None keeps its default."""
    return bind(method, **options).step


def _given(method: Method, options: Mapping[str, str | None]) -> dict[str, Any]:
    """Options that are not None; refuses what the method does not take."""
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    kind = type(method).__name__
    for name, value in given.items():
        if name not in method.options:
            takes = ", ".join(method.options) or "none"
            raise UserError(f"{kind} has no sampling option {name!r}; it takes: {takes}.")
        if value not in method.options[name]:
            raise unknown(name, str(value), method.options[name])
    return given


@dataclass(frozen=True)
class Sampling:
    """A method with its sampling options: where a trajectory begins, its times, and its steps."""

    prior: Callable[[Tokens, Mask, Rng], State]
    timesteps: Callable[[int, int], Float[Tensor, "steps_and_one"]]
    step: Step


def bind(method: Method, **options: str | None) -> Sampling:
    """The method with the given options; one that is None keeps its default."""
    given = _given(method, options)
    of_prior: dict[str, Any] = {name: given.pop(name) for name in ("prior",) if name in given}
    of_timesteps: dict[str, Any] = {name: given.pop(name) for name in ("grid",) if name in given}
    if "order" in given and "order" in signature(method.timesteps).parameters:  # some orders decide how many steps
        of_timesteps["order"] = given["order"]
    return Sampling(
        partial(method.prior, **of_prior), partial(method.timesteps, **of_timesteps), partial(method.step, **given)
    )


class SampleStep:
    """z_t, and p(x0 | z_t) if the step from it needed one: the last state has none. `final` is how many positions at

    the start will not change any more, where that is known. Each may be given as what makes it when it is asked for.
    """

    def __init__(
        self, state: State | Callable[[], State], prediction: Prediction | Callable[[], Prediction | None] | None,
        final: int = 0,
    ) -> None:  # fmt: skip
        self._state, self._prediction, self.final = state, prediction, final

    @cached_property
    def state(self) -> State:
        return self._state if isinstance(self._state, State) else self._state()

    def cut(self, length: int) -> "SampleStep":
        """Of the first positions alone."""

        def prediction() -> Prediction | None:
            return None if self.prediction is None else self.prediction.cut(length)

        return SampleStep(lambda: self.state.cut(length), prediction, min(length, self.final))

    @cached_property
    def prediction(self) -> Prediction | None:
        return self._prediction() if callable(self._prediction) else self._prediction


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
        seen, state = advance(denoise, step, state, s.repeat(len(state.t)), rng)
        yield seen
    yield SampleStep(state, None, final=state.known.shape[1])


@torch.no_grad()
def advance(denoise: Denoise, step: Step, state: State, s: Times, rng: Rng) -> tuple[SampleStep, State]:
    """One step: what was seen at z_t, and z_s."""
    predict = _Once(denoise, state)
    later = step(state, predict, s, rng)
    return SampleStep(state, predict.prediction), later


def last_state(steps: Iterator[SampleStep]) -> State:
    """z_0: where a trajectory ends."""
    for step in steps:
        state = step.state
    return state
