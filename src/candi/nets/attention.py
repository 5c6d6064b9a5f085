"""Attention, by the fastest kernel for what is asked of it."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

_TILE = 64  # positions that cuDNN takes at once; lengths that are no multiple are not known to be faster, or to work


def attention(
    q: Float[Tensor, "B H L E"],
    k: Float[Tensor, "B G S E"],
    v: Float[Tensor, "B G S E"],
    causal: bool,
    mask: Bool[Tensor, "L S"] | None = None,
) -> Float[Tensor, "B H L E"]:
    """softmax(q k^T / sqrt(E)) v; H / G heads of q share one of k and v.

    Where it is causal the queries are the last L of the S positions. The kernel is named, not left to torch's flags: a
    compiled step that was kept on disk ignores the flags, since they are no part of its key. cuDNN's adds up the
    gradient of q in any order, so it is for those who did not ask for the same bits again.
    """
    read = k.shape[2] - q.shape[2]
    if causal and read:  # new positions see all that was read and, of the new ones, themselves and those before
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril(read)
    causal = causal and mask is None
    shared = q.shape[1] // k.shape[1]
    if mask is None and not read and _by_cudnn(q):
        k, v = (x.repeat_interleave(shared, 1) if shared > 1 else x for x in (k, v))
        found = torch.ops.aten._scaled_dot_product_cudnn_attention(
            q, k, v, None, torch.is_grad_enabled(), 0.0, causal, False
        )
        out: Tensor = found[0]
        return out
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=shared > 1)


def _by_cudnn(q: Tensor) -> bool:
    fits = q.is_cuda and q.dtype.itemsize == 2 and q.shape[-1] % 8 == 0 and q.shape[-1] <= 128
    whole = q.shape[2] % _TILE == 0 and q.shape[2] >= 2 * _TILE
    repeatable = torch.are_deterministic_algorithms_enabled() and torch.is_grad_enabled()
    return fits and whole and not repeatable and torch.cuda.get_device_capability(q.device) >= (9, 0)
