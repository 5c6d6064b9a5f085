"""A transformer that reads (nearly) one-hot inputs and says how likely each label is."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candi.errors import UserError
from candi.guidance.base import LogProbability
from candi.nets.transformer import Transformer, TrunkSettings
from candi.types import Times


class Classifier(nn.Module):
    """log p(y | x) for inputs [B, L, S] that are differentiable: rows of S symbols, one-hot or near it.

    The mean is taken over real positions: those that do not show `pad`. With noise nobody knows which they are, and
    it is taken over all. One that reads clean inputs alone was never told a time, and is told none.
    """

    def __init__(
        self, symbols: int, trunk: TrunkSettings, classes: int = 2, pad: int | None = None, timed: bool = True
    ) -> None:
        super().__init__()
        self.pad, self.symbols, self.timed, self.classes = pad, symbols, timed, classes
        self.vectors = nn.Parameter(torch.randn(symbols, trunk.width) / trunk.width**0.5)
        self.trunk = Transformer(trunk)
        self.out = nn.Linear(trunk.width, classes)

    def forward(self, inputs: Float[Tensor, "B L S"], t: Times) -> Float[Tensor, "B C"]:
        clock = t.to(self.vectors.dtype) if self.timed else torch.zeros_like(t, dtype=self.vectors.dtype)
        features = self.trunk(inputs.to(self.vectors.dtype) @ self.vectors, clock)
        real = torch.ones_like(inputs[..., :1]) if self.pad is None else (inputs.argmax(-1) != self.pad)[..., None]
        pooled = (features * real).sum(1) / real.sum(1).clamp(min=1)
        log_probs: Tensor = torch.log_softmax(self.out(pooled), -1)
        return log_probs

    def log_probability(self, target: int) -> LogProbability:
        """Of one label: what guidance needs."""
        if not 0 <= target < self.classes:
            raise UserError(f"The classifier has the labels 0 to {self.classes - 1}, not {target}.")

        def of(inputs: Float[Tensor, "B L S"], t: Times) -> Float[Tensor, "B"]:
            chosen: Tensor = self(inputs, t)[:, target]
            return chosen

        return of
