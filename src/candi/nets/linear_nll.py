"""Linear layer and cross-entropy in one, so that no [N, V] logits are kept for the backward pass."""

import importlib.util
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from candi.base.precision import working_dtype
from candi.diffusion.readout import wide

_TRITON = importlib.util.find_spec("triton") is not None
_EVEN = 64  # columns: tensor cores read rows of 16 bytes, and GPT-2's 50,257 columns would not be


def linear_nll(
    rows: Float[Tensor, "N F"],
    weight: Float[Tensor, "V F"],
    bias: Float[Tensor, "V"],
    targets: Int[Tensor, "N"],
    parts: Sequence[slice],
) -> Float[Tensor, "N"]:
    """l_n = logsumexp(W x_n + b) - (W x_n + b)_target, for parts of the rows at a time."""
    dtype = working_dtype(rows.device, rows.dtype)
    losses: Tensor = _LinearNLL.apply(rows, weight, bias, targets, parts, dtype)
    return losses


def fused(rows: Tensor) -> bool:
    """Whether the kernels do it: 16-bit features on a GPU for which there is Triton."""
    return rows.is_cuda and rows.dtype.itemsize == 2 and _TRITON


def aligned(weight: Float[Tensor, "V F"], bias: Float[Tensor, "V"]) -> tuple[Tensor, Tensor]:
    """On a GPU, with tokens of probability 0 up to a multiple of 64, so that tensor cores can read the rows."""
    missing = -len(weight) % _EVEN if weight.is_cuda else 0
    if not missing:
        return weight, bias
    return F.pad(weight, (0, 0, 0, missing)), F.pad(bias, (0, missing), value=-torch.inf)


def product(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """a @ b, written in a wider type than its inputs have, where the device can."""
    with torch.autocast(a.device.type, enabled=False):
        return torch.mm(a, b, out_dtype=dtype) if a.is_cuda and a.dtype != dtype else (a @ b).to(dtype)


def softmax(logits: Tensor, scale: float) -> Tensor:
    """softmax(logits scale), perhaps in the place of the logits."""
    if fused(logits):
        from candi.nets.triton import launch

        launch.softmax_(logits, scale)
        return logits
    return torch.softmax(logits if scale == 1 else logits * scale, -1)


class _LinearNLL(torch.autograd.Function):
    """The logits are made again in the backward pass: dl/dlogits = softmax - onehot(target), in place."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        parts: Sequence[slice],
        dtype: torch.dtype,
    ) -> Tensor:
        x, (w, b) = rows.to(dtype), aligned(weight.to(dtype), bias.to(dtype))
        ctx.parts, ctx.size, ctx.dtypes = parts, len(weight), (rows.dtype, weight.dtype, bias.dtype)
        if fused(x):
            from candi.nets.triton import launch

            normaliser = launch.sums(x, w, b).normaliser()
            losses = normaliser - ((x.float() * w[targets].float()).sum(-1) + b[targets])
        else:
            normaliser, losses = _by_part(x, w, b, targets, parts)
        ctx.save_for_backward(x, w, b, targets, normaliser)
        return losses

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, w, b, targets, normaliser = ctx.saved_tensors
        rows_dtype, weight_dtype, bias_dtype = ctx.dtypes
        exact = normaliser.dtype
        to_rows, to_bias = torch.empty_like(x), torch.zeros_like(b, dtype=exact)
        to_weight: Tensor | None = None
        for part in ctx.parts:
            slope = _slope(_linear(x[part], w, b), normaliser[part], targets[part], upstream[part])
            to_bias += slope.sum(0, dtype=exact)
            slope = slope.to(x.dtype)
            torch.mm(slope, w, out=to_rows[part])
            if to_weight is None:
                to_weight = product(slope.T, x[part], exact)
            elif slope.dtype == exact:
                to_weight.addmm_(slope.T, x[part])
            else:
                to_weight += product(slope.T, x[part], exact)
        assert to_weight is not None
        to_weight, to_bias = to_weight[: ctx.size], to_bias[: ctx.size]
        return to_rows.to(rows_dtype), to_weight.to(weight_dtype), to_bias.to(bias_dtype), None, None, None


def _by_part(x: Tensor, w: Tensor, b: Tensor, targets: Tensor, parts: Sequence[slice]) -> tuple[Tensor, Tensor]:
    """Normalisers and losses."""
    normaliser = x.new_empty(len(x), dtype=torch.promote_types(x.dtype, torch.float32))
    losses = torch.empty_like(normaliser)
    for part in parts:
        logits = wide(_linear(x[part], w, b))
        chosen = logits.gather(-1, targets[part, None])[:, 0]
        largest = logits.amax(-1, keepdim=True) if len(logits) else logits[:, :1]
        total = logits.sub_(largest).exp_().sum(-1).log_() + largest[:, 0]
        normaliser[part] = total
        losses[part] = total - chosen
    return normaliser, losses


def _slope(logits: Tensor, normaliser: Tensor, targets: Tensor, upstream: Tensor) -> Tensor:
    """(softmax - onehot(target)) upstream, in the place of the logits."""
    if fused(logits):
        from candi.nets.triton import launch

        launch.slope_(logits, normaliser, targets, upstream)
        return logits
    slope = wide(logits).sub_(normaliser[:, None]).exp_()
    slope.scatter_add_(-1, targets[:, None], slope.new_full((len(slope), 1), -1.0))
    return slope.mul_(upstream[:, None])


def _linear(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    with torch.autocast(x.device.type, enabled=False):
        return F.linear(x, w, b)
