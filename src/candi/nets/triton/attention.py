"""What launches the kernel of causal trajectories: it reads as much of the cache as there is, and no more."""

import torch
import triton
from jaxtyping import Float, Int
from torch import Tensor

from candi.nets.triton.attention_kernel import attend_last as kernel

_BLOCK = 128  # positions read at once


def attend_last(
    q: Float[Tensor, "B H 1 E"],
    keys: Float[Tensor, "B H S E"],
    values: Float[Tensor, "B H S E"],
    position: Int[Tensor, "1"],
) -> Float[Tensor, "B H 1 E"]:
    """softmax(q k^T / sqrt(E)) v over the positions up to `position`, a number on the device."""
    batch, heads, _, width = q.shape
    q, out = q.contiguous(), torch.empty_like(q, memory_format=torch.contiguous_format)
    kernel[(batch * heads,)](
        q, keys, values, position, out, width**-0.5, keys.shape[2], width,
        WIDTH=triton.next_power_of_2(width), BLOCK=_BLOCK, num_warps=4,
    )  # fmt: skip
    return out
