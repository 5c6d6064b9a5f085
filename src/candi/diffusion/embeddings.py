"""Vectors for tokens and for times: the two learned tables that a method may use."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from candi.base.types import Hidden, Table, Times, Tokens


class TokenEmbedding(nn.Module):
    """W [V, D] and the mask vector b [D]. Both are L2-normalised at use, so only directions are learned."""

    mask: nn.Parameter | None

    def __init__(self, vocab_size: int, width: int, mask_vector: bool = True) -> None:
        super().__init__()
        self.vocab_size, self.width = vocab_size, width
        self.weight = nn.Parameter(torch.randn(vocab_size, width) / width**0.5)
        mask = torch.randn(width) / width**0.5  # drawn either way: one seed starts all methods from the same weights
        self.mask = nn.Parameter(mask) if mask_vector else None

    def rows(self) -> Table:
        """All unit vectors w_v."""
        return F.normalize(self.weight, dim=-1)

    def lookup(self, tokens: Tokens) -> Hidden:
        """w_x. The raw rows are gathered before they are normalised: no second copy of the table."""
        return F.normalize(F.embedding(tokens, self.weight), dim=-1)

    def mixture(self, tokens: Int[Tensor, "B L K"], weights: Float[Tensor, "B L K"]) -> Hidden:
        """sum_k weight_k w_k, without K vectors a position: the norms go into the weights."""
        weights = weights / self.weight.norm(dim=-1)[tokens]
        mixed: Tensor = F.embedding_bag(
            tokens.flatten(0, 1), self.weight, mode="sum", per_sample_weights=weights.flatten(0, 1)
        )
        return mixed.unflatten(0, tokens.shape[:2])

    def mask_vector(self) -> Tensor:
        """b [D]."""
        assert self.mask is not None, "this embedding was built without a mask vector"
        return F.normalize(self.mask, dim=-1)


class TimestepEmbedder(nn.Module):
    """A number per sequence (-log alpha or log sigma, -5 to 7) as a vector [B, C]: sines of it, then two layers.

    With `zero_init` it starts as 0, so that a network starts without the number.
    """

    frequencies: Tensor

    def __init__(self, width: int, waves: int = 64, zero_init: bool = False) -> None:
        super().__init__()
        spread = torch.linspace(math.log(0.25), math.log(64.0), waves)  # periods from 25 down to 0.1
        self.register_buffer("frequencies", spread.exp(), persistent=False)
        self.mlp = nn.Sequential(nn.Linear(2 * waves, width), nn.SiLU(), nn.Linear(width, width))
        if zero_init:
            for parameter in self.mlp[-1].parameters():
                nn.init.zeros_(parameter)

    def forward(self, time: Times) -> Float[Tensor, "B C"]:
        angle = time[:, None] * self.frequencies
        embedded: Tensor = self.mlp(torch.cat([angle.cos(), angle.sin()], dim=-1).to(time.dtype))
        return embedded
