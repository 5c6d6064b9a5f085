"""The condition that labels give a trunk."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candi.base.types import Labels


class LabelEmbedding(nn.Embedding):
    """sum_k E_k[y_k]: each label has a vector for each of its classes, and a last one for none of them."""

    def __init__(self, classes: Sequence[int], width: int) -> None:
        super().__init__(sum(count + 1 for count in classes), width)
        self.classes = tuple(classes)

    def forward(self, labels: Labels) -> Float[Tensor, "B C"]:
        first, found = 0, []
        for place, count in enumerate(self.classes):
            found.append(super().forward(labels[:, place] + first))
            first += count + 1
        return found[0] if len(found) == 1 else torch.stack(found).sum(0)

    def none(self, like: Tensor) -> Labels:
        """No class of any label, for so many rows."""
        return torch.stack([torch.full_like(like, count, dtype=torch.long) for count in self.classes], -1)
