"""Networks that read (nearly) one-hot inputs and say how likely each label is."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candi.base.errors import UserError
from candi.base.types import Hidden, Times
from candi.diffusion.guidance.base import LogProbability
from candi.nets.dit import DiT, DiTSettings


class Recurrent(nn.Module):
    """Gated recurrent units in both directions."""

    def __init__(self, trunk: DiTSettings) -> None:
        super().__init__()
        self.cells = nn.GRU(trunk.width, trunk.width // 2, trunk.blocks, batch_first=True, bidirectional=True)

    def train(self, mode: bool = True) -> "Recurrent":
        """The cells stay in training, where alone cuDNN gives gradients; without dropout nothing else differs."""
        super().train(mode)
        self.cells.train()
        return self

    def forward(self, vectors: Hidden, t: Times) -> Hidden:
        features: Tensor = self.cells(vectors)[0]
        return features


class Bag(nn.Module):
    """No order at all: with the mean over positions, logistic regression on how often each symbol occurs."""

    def forward(self, vectors: Hidden, t: Times) -> Hidden:
        return vectors


READERS: dict[str, Callable[[DiTSettings], nn.Module]] = {
    "transformer": DiT,
    "recurrent": Recurrent,
    "bag": lambda trunk: Bag(),
}


class Classifier(nn.Module):
    """log p(y | x) for inputs [B, L, S] that are differentiable: rows of S symbols, one-hot or near it.

    The mean is taken over real positions: those that do not show `pad`. With noise nobody knows which they are, and
    it is taken over all. A classifier of clean inputs gets no time.
    """

    def __init__(
        self, symbols: int, trunk: DiTSettings, classes: int = 2, pad: int | None = None, time_conditioned: bool = True,
        kind: str = "transformer",
    ) -> None:  # fmt: skip
        super().__init__()
        self.pad, self.symbols, self.time_conditioned, self.classes = pad, symbols, time_conditioned, classes
        self.vectors = nn.Parameter(torch.randn(symbols, trunk.width) / trunk.width**0.5)
        self.trunk = READERS[kind](trunk)
        self.out = nn.Linear(trunk.width, classes)

    def forward(self, inputs: Float[Tensor, "B L S"], t: Times) -> Float[Tensor, "B C"]:
        time = t.to(self.vectors.dtype) if self.time_conditioned else torch.zeros_like(t, dtype=self.vectors.dtype)
        features = self.trunk(inputs.to(self.vectors.dtype) @ self.vectors, time)
        real = torch.ones_like(inputs[..., :1]) if self.pad is None else (inputs.argmax(-1) != self.pad)[..., None]
        pooled = (features * real).sum(1) / real.sum(1).clamp(min=1)
        log_probs: Tensor = torch.log_softmax(self.out(pooled), -1)
        return log_probs

    def log_probability(self, target: int) -> LogProbability:
        """Of one class: what guidance needs."""
        if not 0 <= target < self.classes:
            raise UserError(f"The classifier has the labels 0 to {self.classes - 1}, not {target}.")

        def of(inputs: Float[Tensor, "B L S"], t: Times) -> Float[Tensor, "B"]:
            chosen: Tensor = self(inputs, t)[:, target]
            return chosen

        return of
