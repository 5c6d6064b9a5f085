"""Left to right with memory: what a causal network has read, it need not read again."""

from candi.nets.denoiser import Denoiser
from candi.nets.prediction import Prediction
from candi.state import State
from candi.types import Labels


def position(state: State) -> int:
    """The position that comes next in a causal walk, where t = 1 - position / length."""
    length = state.known.shape[1]
    return round((1 - float(state.t[0])) * length)


class Remembering:
    """A denoiser for one causal walk that keeps the keys and values of all positions read so far."""

    def __init__(self, denoiser: Denoiser) -> None:
        self.denoiser = denoiser
        self.memory = denoiser.trunk.memory()
        self.read = 0

    def __call__(self, state: State, label: Labels | None = None) -> Prediction:
        here, method = position(state), self.denoiser.method
        fresh = method.embed(state)[:, self.read : here + 1]
        told = self.denoiser.told(state, label)
        features = self.denoiser.trunk(fresh, self.denoiser.clock(state), self.memory, told)
        self.read = here + 1
        # only the prediction at `here` means anything; to show it at all positions costs nothing
        everywhere = features[:, -1:].expand(-1, state.known.shape[1], -1)
        return Prediction(everywhere, self.denoiser.head, method.codebook.vocab_size, ~state.known)
