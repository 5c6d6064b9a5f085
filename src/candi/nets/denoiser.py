"""Method, trunk and head joined into one network."""

import torch
from torch import Tensor, nn

from candi.codebook import Codebook
from candi.methods.base import Method, MethodSettings
from candi.nets.head import Head
from candi.nets.prediction import Prediction
from candi.nets.transformer import Transformer, TrunkSettings
from candi.state import State
from candi.types import Hidden, Mask, Times, Tokens, Values


class Denoiser(nn.Module):
    """state -> p(x0 | state): embed, trunk, head."""

    method: Method
    trunk: Transformer
    head: Head

    def __init__(self, method: Method, trunk: Transformer) -> None:
        super().__init__()
        self.method, self.trunk = method, trunk
        self.head = Head(method.codebook.width, method.codebook.vocab_size)

    @classmethod
    def build(cls, vocab_size: int, trunk: TrunkSettings, method: MethodSettings) -> "Denoiser":
        built = method.build(Codebook(vocab_size, trunk.width))
        return cls(built, Transformer(trunk, causal=built.causal))

    def forward(self, state: State) -> Prediction:
        features = self.features(state.t, state.known, state.tokens, state.values)
        return Prediction(features, self.head, self.method.codebook.vocab_size, ~state.known)

    def features(self, t: Times, known: Mask, tokens: Tokens, values: Values | None) -> Hidden:
        """What the trunk makes of a state. Of tensors alone, so that it can be compiled."""
        state = State(t, known, tokens, values)
        features: Tensor = self.trunk(self.method.embed(state), self.clock(state))
        return features

    def clock(self, state: State) -> Times:
        """The time as the trunk is told it, in the precision of the weights; 0 for methods without one."""
        clock = self.method.clock(state) if self.method.timed else torch.zeros_like(state.t)
        return clock.to(self.head.weight.dtype)
