"""Classifier-free guidance: a network that knows labels steers itself.

log p_w = (1 + w) log p(x0 | z_t, y) - w log p(x0 | z_t), up to its normaliser. Logits are linear in the features of the
last layer, so the same combination of features gives it: nothing of size V is held.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch

from candi.base.errors import UserError
from candi.base.types import Labels
from candi.diffusion.prediction import Prediction
from candi.diffusion.sampler import Denoise
from candi.diffusion.state import State


@runtime_checkable
class Conditional(Protocol):
    """A network that may be conditioned on labels."""

    def __call__(self, state: State, label: Labels | None = None) -> Prediction: ...


def classifier_free(network: Conditional, without: Conditional, label: Sequence[int], weight: float) -> Denoise:
    """`label` is a class of each label. A weight of 0 is plain generation by it; else the network runs twice a step.

    `without` is asked without labels: the same network, or, of one that remembers what it has read, another of it.
    """
    if not -1 <= weight < float("inf"):
        raise UserError(f"The weight of a label must be at least -1, not {weight}.")

    def denoise(state: State) -> Prediction:
        wanted = torch.stack([torch.full_like(state.tokens[:, 0], one) for one in label], -1)
        prediction = network(state, wanted)
        return prediction if weight == 0 else prediction.cfg(without(state), weight)

    return denoise
