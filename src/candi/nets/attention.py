"""Attention, by the fastest kernel for what is asked of it."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F


def attention(
    q: Float[Tensor, "B H L E"],
    k: Float[Tensor, "B H S E"],
    v: Float[Tensor, "B H S E"],
    causal: bool,
    mask: Bool[Tensor, "L S"] | None = None,
) -> Float[Tensor, "B H L E"]:
    """softmax(q k^T / sqrt(E)) v.

    The kernel is named, not left to torch's flags: a compiled step that was kept on disk ignores the flags, since they
    are no part of its key. cuDNN's adds up the gradient of q in any order, so it is for those who did not ask for the
    same bits again.
    """
    if mask is None and _by_cudnn(q):
        found = torch.ops.aten._scaled_dot_product_cudnn_attention(
            q, k, v, None, torch.is_grad_enabled(), 0.0, causal, False
        )
        out: Tensor = found[0]
        return out
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)


def _by_cudnn(q: Tensor) -> bool:
    fits = q.is_cuda and q.dtype.itemsize == 2 and q.shape[-1] % 8 == 0 and q.shape[-1] <= 128 and q.shape[2] >= 128
    repeatable = torch.are_deterministic_algorithms_enabled() and torch.is_grad_enabled()
    return fits and not repeatable and torch.cuda.get_device_capability(q.device) >= (9, 0)
