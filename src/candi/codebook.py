"""Token vectors."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from candi.types import Hidden, Table, Tokens


class Codebook(nn.Module):
    """W [V, D] and the vector b of an empty position. Both are L2-normalised at use, so only directions are learned."""

    empty: nn.Parameter | None

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.vocab_size, self.width = vocab_size, width
        self.weight = nn.Parameter(torch.randn(vocab_size, width) / width**0.5)
        self.empty = nn.Parameter(torch.randn(width) / width**0.5)

    def without_empty(self) -> "Codebook":
        """For methods that have no empty positions: a weight that nothing uses would have no gradient."""
        self.empty = None
        return self

    def rows(self) -> Table:
        """All unit vectors w_v."""
        return F.normalize(self.weight, dim=-1)

    def lookup(self, tokens: Tokens) -> Hidden:
        """w_x. The raw rows are gathered before they are normalised: no second copy of the table."""
        return F.normalize(F.embedding(tokens, self.weight), dim=-1)

    def mixture(self, tokens: Int[Tensor, "B L K"], weights: Float[Tensor, "B L K"]) -> Hidden:
        """sum_k weight_k w_k, without a tensor of K vectors a position: the lengths go into the weights."""
        weights = weights / self.weight.norm(dim=-1)[tokens]
        mixed: Tensor = F.embedding_bag(
            tokens.flatten(0, 1), self.weight, mode="sum", per_sample_weights=weights.flatten(0, 1)
        )
        return mixed.unflatten(0, tokens.shape[:2])

    def blank(self) -> Tensor:
        """b [D]."""
        assert self.empty is not None, "this method has no empty positions"
        return F.normalize(self.empty, dim=-1)
