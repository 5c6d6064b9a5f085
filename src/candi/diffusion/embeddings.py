"""Vectors for tokens and for times: the two learned tables that a method may use."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from candi.base.types import Hidden, Table, Times, Tokens


class TokenEmbedding(nn.Module):
    """W [V, D] and the mask vector b [D]. Both are L2-normalised at use, so only directions are learned.

    With `unit` False they are used as they are, for networks that were trained so; Gaussian noise lives among the
    unit vectors all the same.
    """

    mask: nn.Parameter | None

    def __init__(self, vocab_size: int, width: int, mask_vector: bool = True, unit: bool = True) -> None:
        super().__init__()
        self.vocab_size, self.width, self.unit = vocab_size, width, unit
        self.weight = nn.Parameter(torch.randn(vocab_size, width) / width**0.5)
        mask = torch.randn(width) / width**0.5  # drawn either way: one seed starts all methods from the same weights
        self.mask = nn.Parameter(mask) if mask_vector else None

    def rows(self) -> Table:
        """All vectors w_v."""
        return self._scaled(self.weight)

    def lookup(self, tokens: Tokens) -> Hidden:
        """w_x. The raw rows are gathered before they are normalised: no second copy of the table."""
        return self._scaled(F.embedding(tokens, self.weight))

    def directions(self) -> Table:
        """All unit vectors w_v/|w_v|, where Gaussian noise lives."""
        return F.normalize(self.weight, dim=-1)

    def direction(self, tokens: Tokens) -> Hidden:
        """w_x/|w_x|."""
        return F.normalize(F.embedding(tokens, self.weight), dim=-1)

    def mixture(self, tokens: Int[Tensor, "B L K"], weights: Float[Tensor, "B L K"]) -> Hidden:
        """sum_k weight_k w_k, without K vectors a position: the norms go into the weights."""
        weights = weights / self.weight.norm(dim=-1)[tokens] if self.unit else weights
        mixed: Tensor = F.embedding_bag(
            tokens.flatten(0, 1), self.weight, mode="sum", per_sample_weights=weights.flatten(0, 1)
        )
        return mixed.unflatten(0, tokens.shape[:2])

    def mask_vector(self) -> Tensor:
        """b [D]."""
        assert self.mask is not None, "this embedding was built without a mask vector"
        return self._scaled(self.mask)

    def _scaled(self, vectors: Tensor) -> Tensor:
        return F.normalize(vectors, dim=-1) if self.unit else vectors


class TimestepEmbedder(nn.Module):
    """A number per sequence (-log alpha or log sigma, -5 to 7) as a vector [B, C]: sines of it, then two layers.

    Our frequencies have periods from 25 down to 0.1; `sinusoidal` ones are 10000^(-i/128), as in most published
    networks. With `zero_init` it starts as 0, so that a network starts without the number.
    """

    frequencies: Tensor

    def __init__(self, width: int, waves: int = 64, zero_init: bool = False, sinusoidal: bool = False) -> None:
        super().__init__()
        waves = 128 if sinusoidal else waves
        ends = (0.0, -math.log(10_000.0) * (waves - 1) / waves) if sinusoidal else (math.log(0.25), math.log(64.0))
        self.register_buffer("frequencies", torch.linspace(*ends, waves).exp(), persistent=False)
        self.mlp = nn.Sequential(nn.Linear(2 * waves, width), nn.SiLU(), nn.Linear(width, width))
        if zero_init:
            for parameter in self.mlp[-1].parameters():
                nn.init.zeros_(parameter)

    def forward(self, time: Times) -> Float[Tensor, "B C"]:
        angle = time[:, None] * self.frequencies
        embedded: Tensor = self.mlp(torch.cat([angle.cos(), angle.sin()], dim=-1).to(time.dtype))
        return embedded
