"""What guidance is: something that takes the denoiser and the step of a sampler and returns others."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candi.base.types import Times, Tokens
from candi.diffusion.methods.base import Method
from candi.diffusion.sampler import Denoise, Step

# log p(y | x) of the wanted y, for inputs that are (nearly) one-hot [B, L, S] at time t. A classifier that was never
# shown noise ignores t. Any differentiable function will do.
LogProbability = Callable[[Float[Tensor, "B L S"], Times], Float[Tensor, "B"]]


Context = Callable[[], Tokens | None]  # the tokens [B, n] that are written before the open block, if there are some


@runtime_checkable
class Guidance(Protocol):
    def over(self, method: Method, denoise: Denoise, step: Step) -> tuple[Denoise, Step]:
        """The sampler's two parts, guided. Refuses a method that it cannot guide."""


@runtime_checkable
class BlockGuidance(Guidance, Protocol):
    """Guidance that can also steer a text that is written in blocks."""

    def behind(self, context: Context) -> Guidance:
        """The same, whose classifier reads the context before what it steers."""


def with_context(context: Context | None, symbols: Tokens) -> Int[Tensor, "B longer"]:
    """The symbols of a state behind what is written before it."""
    before = None if context is None else context()
    return symbols if before is None else torch.cat([before, symbols], 1)


def gradient(
    classifier: LogProbability, symbols: Tokens, count: int, t: Times
) -> tuple[Float[Tensor, "B"], Float[Tensor, "B L S"]]:
    """log p(y | x) and its gradient in the one-hot input x, at the given symbols."""
    with torch.enable_grad():
        inputs = torch.nn.functional.one_hot(symbols, count).to(t.dtype).requires_grad_()
        value = classifier(inputs, t)
        (slope,) = torch.autograd.grad(value.sum(), inputs)
    return value.detach(), slope
