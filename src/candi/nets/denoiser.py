"""Method, trunk and head joined into one network."""

from torch import nn

from candi.codebook import Codebook
from candi.methods.base import Method, MethodSettings
from candi.nets.prediction import Prediction
from candi.nets.transformer import Transformer, TrunkSettings
from candi.rng import Rng
from candi.state import State
from candi.types import PerToken, Times, Tokens


class Denoiser(nn.Module):
    """state -> p(x0 | state): embed, trunk, head."""

    def __init__(self, method: Method, trunk: Transformer) -> None:
        super().__init__()
        self.method, self.trunk = method, trunk
        self.head = nn.Linear(method.codebook.width, method.codebook.vocab_size)
        # the first prediction is uniform, so the first loss is log V
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @classmethod
    def build(cls, vocab_size: int, trunk: TrunkSettings, method: MethodSettings) -> "Denoiser":
        built = method.build(Codebook(vocab_size, trunk.width))
        return cls(built, Transformer(trunk, causal=built.causal))

    def forward(self, state: State) -> Prediction:
        features = self.trunk(self.method.embed(state), self.method.clock(state))
        return Prediction(features, self.head, self.method.codebook.vocab_size, ~state.known)


class Objective(nn.Module):
    """The whole training computation in one forward pass, which is what DDP and FSDP need to see."""

    def __init__(self, denoiser: Denoiser) -> None:
        super().__init__()
        self.denoiser = denoiser

    def forward(self, x0: Tokens, t: Times, rng: Rng) -> PerToken:
        method = self.denoiser.method
        state = method.corrupt(x0, t, rng)
        return method.loss(self.denoiser(state), state, x0)
