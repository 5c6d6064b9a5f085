"""Left to right with memory: what a causal network has read, it need not read again."""

import torch

from candi.nets.denoiser import Denoiser
from candi.nets.prediction import Prediction
from candi.state import State
from candi.types import Labels


def position(state: State) -> int:
    """The position that comes next in a causal walk, where t = 1 - position / length."""
    length = state.known.shape[1]
    return round((1 - float(state.t[0])) * length)


class Remembering:
    """A denoiser for one causal walk that keeps the keys and values of all positions read so far, in bf16 on wish."""

    def __init__(self, denoiser: Denoiser, bf16: bool = False) -> None:
        self.denoiser, self.bf16 = denoiser, bf16
        self.memory = denoiser.trunk.memory()
        self.read = 0

    def __call__(self, state: State, label: Labels | None = None) -> Prediction:
        here, method = position(state), self.denoiser.method
        fresh = method.embed(state)[:, self.read : here + 1]
        told = self.denoiser.told(state, label)
        with torch.autocast(fresh.device.type, torch.bfloat16, enabled=self.bf16):
            features = self.denoiser.trunk(fresh, self.denoiser.clock(state), self.memory, told)
        features = features.to(fresh.dtype)
        self.read = here + 1
        # only the prediction at `here` means anything; to show it at all positions costs nothing
        everywhere = features[:, -1:].expand(-1, state.known.shape[1], -1)
        return Prediction(everywhere, self.denoiser.head, method.codebook.vocab_size, ~state.known)
