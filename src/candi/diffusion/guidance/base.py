"""What guidance is: something that takes the denoiser and the step of a sampler and returns others."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from candi.base.types import Times, Tokens
from candi.diffusion.methods.base import Method
from candi.diffusion.sampler import Denoise, Step

# log p(y | x) of the wanted y, for inputs that are (nearly) one-hot [B, L, S] at time t. A classifier that was never
# shown noise ignores t. Any differentiable function will do.
LogProbability = Callable[[Float[Tensor, "B L S"], Times], Float[Tensor, "B"]]


@runtime_checkable
class Guidance(Protocol):
    def over(self, method: Method, denoise: Denoise, step: Step) -> tuple[Denoise, Step]:
        """The sampler's two parts, guided. Refuses a method that it cannot guide."""


def gradient(
    classifier: LogProbability, symbols: Tokens, count: int, t: Times
) -> tuple[Float[Tensor, "B"], Float[Tensor, "B L S"]]:
    """log p(y | x) and its gradient in the one-hot input x, at the given symbols."""
    with torch.enable_grad():
        inputs = torch.nn.functional.one_hot(symbols, count).to(t.dtype).requires_grad_()
        value = classifier(inputs, t)
        (slope,) = torch.autograd.grad(value.sum(), inputs)
    return value.detach(), slope
