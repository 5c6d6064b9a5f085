"""Triton kernels for the last layer on a GPU: sums over the vocabulary while the logits are still in registers.

The logits z = (x W^T + b) scale of a row are cut into blocks of columns, and each block into parts. Only the maximum
and the sum of exponentials of each ever reach memory: a few numbers where there would be thousands.
"""

from dataclasses import dataclass

import torch
import triton
from jaxtyping import Float, Int
from torch import Tensor

from candi.nets.triton import kernels as triton_kernels

BLOCK, PART = 256, 16  # columns
_ROWS, _DEPTH, _GROUP = 128, 64, 8  # a tile's rows, its share of the inner dimension, column blocks done together


@dataclass(frozen=True)
class Sums:
    """Of exp(z - maximum of its block): over each block, and over each part of a block."""

    maxima: Float[Tensor, "N blocks"]
    totals: Float[Tensor, "N blocks"]
    parts: Float[Tensor, "N parts"] | None

    def normaliser(self) -> Float[Tensor, "N"]:
        """log sum_v exp z_v."""
        return torch.logsumexp(self.maxima + self.totals.log(), -1)


def sums(
    rows: Float[Tensor, "N F"],
    weight: Float[Tensor, "V F"],
    bias: Float[Tensor, "V"],
    scale: float = 1.0,
    by_part: bool = False,
) -> Sums:
    rows, weight = rows.contiguous(), weight.contiguous()
    count, size, width = len(rows), len(weight), rows.shape[1]
    blocks = triton.cdiv(size, BLOCK)
    maxima, totals = (torch.empty(count, blocks, device=rows.device) for _ in range(2))
    parts = torch.empty(count, blocks * (BLOCK // PART), device=rows.device) if by_part else None
    if count:
        triton_kernels.sums[(triton.cdiv(count, _ROWS) * blocks,)](
            rows, weight, bias, maxima, totals, parts, scale, count, size, width, blocks,
            ROWS=_ROWS, BLOCK=BLOCK, PART=PART, DEPTH=_DEPTH, GROUP=_GROUP, EVEN=width % _DEPTH == 0,
            num_warps=8, num_stages=3,
        )  # fmt: skip
    return Sums(maxima, totals, parts)


def draw(
    rows: Float[Tensor, "N F"],
    weight: Float[Tensor, "V F"],
    bias: Float[Tensor, "V"],
    uniform: Float[Tensor, "N"],
    scale: float = 1.0,
) -> Int[Tensor, "N"]:
    """The first v with p_1 + ... + p_v > u: its block, its part of the block, then its place among sixteen logits that

    are made again. All cumulative sums are in float64.
    """
    rows, weight = rows.contiguous(), weight.contiguous()
    known = sums(rows, weight, bias, scale, by_part=True)
    drawn = torch.empty(len(rows), dtype=torch.long, device=rows.device)
    if len(rows):
        blocks, width = known.maxima.shape[1], rows.shape[1]
        triton_kernels.pick[(len(rows),)](
            rows, weight, bias, known.maxima, known.totals, known.parts, uniform, drawn, scale,
            len(weight), width, blocks,
            BLOCKS=triton.next_power_of_2(blocks), WIDTH=triton.next_power_of_2(width), BLOCK=BLOCK, PART=PART,
            num_warps=4,
        )  # fmt: skip
    return drawn


def softmax_(logits: Float[Tensor, "N V"], scale: float = 1.0) -> None:
    """logits <- softmax(logits scale), in place: one pass over memory, the second reading comes from the cache."""
    count, size = logits.shape
    if count:
        triton_kernels.softmax[(count,)](logits, scale, size, BLOCK=4096, num_warps=8)


def slope_(
    logits: Float[Tensor, "N V"],
    normaliser: Float[Tensor, "N"],
    targets: Int[Tensor, "N"],
    upstream: Float[Tensor, "N"],
) -> None:
    """logits <- (softmax(logits) - onehot(target)) upstream, in place."""
    count, size = logits.shape
    if count:
        triton_kernels.slope[(count, triton.cdiv(size, 4096))](
            logits, normaliser, targets, upstream, size, BLOCK=4096, num_warps=8
        )
