"""Dropout by a hash: a mask is a function of a seed and a place, so that nothing of it is kept or drawn anew.

A compiler joins it with what stands around it, forward and backward, and the masks are the same compiled or not.
"""

import math

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from candi.base.types import Hidden


def dropout_seeds(count: int, device: torch.device) -> Int[Tensor, "count 2"]:
    """Seeds of so many masks, by torch's generator, in one launch."""
    return torch.randint(-(2**31), 2**31 - 1, (count, 2), dtype=torch.int32, device=device)


def keep_mask(like: Tensor, seed: Int[Tensor, "2"], p: float) -> Bool[Tensor, "..."]:
    """True with probability 1 - p, exactly to 2^-32: bits of a mixed place, both halves of the seed put in on the way.

    Multiplications by odd numbers and shifts onto itself, as in the last steps of common hashes; int32 wraps around.
    """
    x = torch.arange(like.numel(), dtype=torch.int32, device=like.device).view(like.shape) ^ seed[0]
    x = (x ^ (x >> 16 & 0xFFFF)) * 0x21F0AAAD ^ seed[1]
    x = (x ^ (x >> 15 & 0x1FFFF)) * 0x735A2D97
    x = x ^ (x >> 15 & 0x1FFFF)
    return x >= math.floor(p * 2**32) - 2**31


class Dropout(nn.Module):
    """h m / (1 - p), m = 1 with probability 1 - p; without a seed, as in sampling, h."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, hidden: Hidden, seed: Int[Tensor, "2"] | None) -> Hidden:
        if seed is None:
            return hidden
        return torch.where(keep_mask(hidden, seed, self.p), hidden / (1 - self.p), 0.0)
