"""The sampling loop."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from jaxtyping import Float
from torch import Tensor

from candi.errors import UserError, unknown
from candi.methods.base import Method, Predict
from candi.nets.prediction import Prediction
from candi.rng import Rng
from candi.state import State
from candi.types import Times

Denoise = Callable[[State], Prediction]
Step = Callable[[State, Predict, Times, Rng], State]


def stepper(method: Method, **options: str | None) -> Step:
    """The method's step with the options that were given (those that are None keep their default)."""
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    kind = type(method).__name__
    for name, value in given.items():
        if name not in method.options:
            takes = ", ".join(method.options) or "none"
            raise UserError(f"{kind} has no sampling option {name!r}; it takes: {takes}.")
        if value not in method.options[name]:
            raise unknown(name, str(value), method.options[name])
    return partial(method.step, **given)


def walk(denoise: Denoise, step: Step, state: State, times: Float[Tensor, "T"], rng: Rng) -> Iterator[State]:
    """z_1, ..., z_0: every state on the way, the given one first. The network runs when a step asks for it."""
    yield state
    for s in times.to(state.t)[1:]:  # all at once: each would make the CPU wait for the device
        state = step(state, partial(denoise, state), s.repeat(len(state.t)), rng)
        yield state
