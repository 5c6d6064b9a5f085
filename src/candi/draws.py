"""The categorical draw: one implementation for every method."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candi.types import Rows

PRECISION = "float64"  # stamped into outputs: float32 cuts the tail and acts like a lower temperature


def categorical(logits: Rows, uniform: Float[Tensor, "N"]) -> Int[Tensor, "N"]:
    """The first v with p_1 + ... + p_v > u: exact down to probabilities of 1e-15, for one float64 uniform a row."""
    cumulative = torch.softmax(logits.double(), dim=-1).cumsum(-1)
    target = uniform.double()[:, None] * cumulative[:, -1:]
    found = torch.searchsorted(cumulative, target, right=True).squeeze(-1)
    return found.clamp(max=logits.shape[-1] - 1)
