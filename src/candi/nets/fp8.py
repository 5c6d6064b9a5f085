"""Linear layers with 8-bit products: half of the time that a GPU's tensor cores take in bf16.

Rows of both factors are scaled by their own largest number, so that nothing overflows and nothing has to be remembered
from step to step. The gradient of the weights stays in 16 bits: its sum runs over all tokens, and what is lost there
is lost for good.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from candi.base.errors import UserError
from candi.base.precision import working_dtype
from candi.nets.trunk import Trunk

_TYPE = torch.float8_e4m3fn
_LARGEST = 448.0  # its largest number
_EVEN, _FEWEST = 16, 1024  # columns that the kernels read at once; rows for which they are worth it


def need_eight_bits(device: str) -> None:
    """Raises a UserError where there are no such products."""
    if device != "cuda" or torch.cuda.get_device_capability() < (8, 9):
        raise UserError(
            "8-bit products need an NVIDIA GPU that has them (Ada, Hopper or later); leave out --precision fp8-mixed."
        )


def by_row(x: Float[Tensor, "N K"]) -> tuple[Float[Tensor, "N K"], Float[Tensor, "N 1"]]:
    """8-bit numbers and a scale for each row: x = numbers * scale, up to rounding."""
    scale = x.abs().amax(-1, keepdim=True).float().clamp(min=1e-12) / _LARGEST
    return (x.float() / scale).clamp(-_LARGEST, _LARGEST).to(_TYPE), scale


def product(a: Float[Tensor, "N K"], b: Float[Tensor, "M K"]) -> Float[Tensor, "N M"]:
    """a b^T of 8-bit numbers, summed in float32. Where there are no such products, what they would give."""
    (a8, a_scale), (b8, b_scale) = by_row(a), by_row(b)
    if a.is_cuda:
        return torch._scaled_mm(a8, b8.t(), a_scale, b_scale.t(), out_dtype=a.dtype, use_fast_accum=True)
    return ((a8.float() @ b8.float().t()) * a_scale * b_scale.t()).to(a.dtype)


class _Product(torch.autograd.Function):
    """x W^T."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return product(upstream, weight.t().contiguous()), upstream.t() @ x


class Fp8Linear(nn.Linear):
    """A linear layer of many rows, with the weights of another one."""

    def __init__(self, other: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = other.in_features, other.out_features
        self.weight, self.bias = other.weight, other.bias

    def forward(self, hidden: Float[Tensor, "... K"]) -> Float[Tensor, "... M"]:
        dtype = working_dtype(hidden.device, self.weight.dtype)
        if hidden.numel() < _FEWEST * self.in_features:
            return F.linear(hidden, self.weight, self.bias)
        with torch.autocast(hidden.device.type, enabled=False):
            out: Tensor = _Product.apply(hidden.to(dtype).flatten(0, -2), self.weight.to(dtype))
            out = out if self.bias is None else out + self.bias.to(dtype)
        return out.unflatten(0, hidden.shape[:-1])


def eight_bit(trunk: Trunk) -> None:
    """Let the linear layers of a trunk's blocks compute in 8 bits. Weights and their names stay."""
    for block in trunk.sharding_units():
        for module in list(block.modules()):
            for name, layer in list(module.named_children()):
                if type(layer) is nn.Linear and layer.in_features % _EVEN == layer.out_features % _EVEN == 0:
                    setattr(module, name, Fp8Linear(layer))
