"""Left to right with a cache: what a causal network has read, it need not read again."""

import torch

from candi.base.types import Labels
from candi.diffusion.prediction import Prediction
from candi.diffusion.state import State
from candi.nets.denoiser import Denoiser
from candi.nets.trunk import Cache


class KVCachedDenoiser:
    """A denoiser for one causal trajectory that keeps the keys and values of all positions read so far.

    `bf16` runs the trunk in bf16.
    """

    def __init__(self, denoiser: Denoiser, cache: Cache, bf16: bool = False) -> None:
        self.denoiser, self.cache, self.bf16 = denoiser, cache, bf16

    def __call__(self, state: State, label: Labels | None = None) -> Prediction:
        denoiser, here = self.denoiser, state.next_position
        fresh = denoiser.method.embed(state)[:, self.cache.length : here + 1]
        time, condition = denoiser.time_input(state), denoiser.label_embedding(state, label)
        with torch.autocast(fresh.device.type, torch.bfloat16, enabled=self.bf16):
            features = denoiser.trunk(fresh, time, condition, self.cache)
        features = features.to(fresh.dtype)
        # only the prediction at `here` means anything; to show it at all positions costs nothing
        everywhere = features[:, -1:].expand(-1, state.known.shape[1], -1)
        return Prediction(everywhere, denoiser.head, denoiser.vocab_size, ~state.known)
