"""Method, trunk and head joined into one network."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candi.codebook import Codebook
from candi.methods.base import Method, MethodSettings
from candi.nets.head import Head
from candi.nets.prediction import Prediction
from candi.nets.transformer import Transformer, TrunkSettings
from candi.state import State
from candi.types import Hidden, Labels, Mask, Times, Tokens, Values


class Denoiser(nn.Module):
    """state -> p(x0 | state): embed, trunk, head."""

    method: Method
    trunk: Transformer
    head: Head

    def __init__(self, method: Method, trunk: Transformer, classes: int = 0) -> None:
        super().__init__()
        self.method, self.trunk, self.classes = method, trunk, classes
        self.head = Head(method.codebook.width, method.codebook.vocab_size)
        # a vector for each label, and the last for none
        self.labels = nn.Embedding(classes + 1, trunk.settings.conditioning) if classes else None

    @classmethod
    def build(cls, vocab_size: int, trunk: TrunkSettings, method: MethodSettings, classes: int = 0) -> "Denoiser":
        built = method.build(Codebook(vocab_size, trunk.width))
        return cls(built, Transformer(trunk, causal=built.causal), classes)

    def forward(self, state: State, label: Labels | None = None) -> Prediction:
        features = self.features(state.t, state.known, state.tokens, state.values, state.noise_t, label)
        return Prediction(features, self.head, self.method.codebook.vocab_size, ~state.known)

    def features(
        self, t: Times, known: Mask, tokens: Tokens, values: Values | None, noise_t: Times | None, label: Labels | None
    ) -> Hidden:
        """What the trunk makes of a state. Of tensors alone, so that it can be compiled."""
        state = State(t, known, tokens, values, noise_t=noise_t)
        features: Tensor = self.trunk(self.method.embed(state), self.clock(state), label=self.told(state, label))
        return features

    def told(self, state: State, label: Labels | None) -> Float[Tensor, "B C"] | None:
        """What the trunk is told of the labels, if it was trained with some."""
        if self.labels is None:
            return None
        told: Tensor = self.labels(torch.full_like(state.tokens[:, 0], self.classes) if label is None else label)
        return told

    def clock(self, state: State) -> Times:
        """The time as the trunk is told it, in the precision of the weights; 0 for methods without one."""
        clock = self.method.clock(state) if self.method.timed else torch.zeros_like(state.t)
        return clock.to(self.head.weight.dtype)
