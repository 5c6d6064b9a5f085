"""D-CBG: discrete guidance by a classifier that knows the method's noise.

p(z_s^l = v | z_t, y) ~ p(z_s^l = v | z_t) p(y | z_t with position l set to v)^weight, at each position by itself: exact
in the limit of many steps, where no two positions change at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from candi.draws import categorical
from candi.errors import UserError
from candi.guidance.base import LogProbability, gradient
from candi.methods.base import Method, Predict
from candi.nets.prediction import luck
from candi.rng import Rng
from candi.sampling.walk import Denoise, Step
from candi.state import State
from candi.types import Times, Tokens

_ROWS = 4096  # sequences that a classifier reads at once


@dataclass(frozen=True)
class DiscreteGuidance:
    """For methods whose states are symbols (tokens, and the mask where there is one).

    First order: log p(y | z_t) + g[l, v] - g[l, z_t^l], one backward pass a step. Exact: L x S readings a step.
    """

    classifier: LogProbability
    weight: float
    first_order: bool = True

    def over(self, method: Method, denoise: Denoise, step: Step) -> tuple[Denoise, Step]:
        if method.symbols is None:
            raise UserError(
                f"{type(method).__name__} has no discrete states to guide; guide it by a gradient and any classifier."
            )
        count = method.codebook.vocab_size + method.symbols

        def step_guided(state: State, predict: Predict, s: Times, rng: Rng) -> State:
            shown = method.shown(state)
            change = (first_order if self.first_order else exactly)(self.classifier, shown, count, state.t)
            logits = method.transition(state, predict(), s) + self.weight * change
            drawn = categorical(logits.flatten(0, 1), luck(shown.shape, rng).flatten()).view_as(shown)
            return method.arrive(state, drawn.where(~state.known, shown), s)

        return denoise, step_guided


def first_order(classifier: LogProbability, shown: Tokens, count: int, t: Times) -> Float[Tensor, "B L S"]:
    """g[l, v] - g[l, z^l]: the change of log p(y | z), to first order, when position l alone becomes v."""
    _, slope = gradient(classifier, shown, count, t)
    return slope - slope.gather(-1, shown[..., None])


@torch.no_grad()
def exactly(classifier: LogProbability, shown: Tokens, count: int, t: Times) -> Float[Tensor, "B L S"]:
    """log p(y | z with position l set to v) - log p(y | z), by reading every neighbour of z."""
    batch, length = shown.shape
    now = classifier(F.one_hot(shown, count).to(t.dtype), t)
    parts = [
        classifier(F.one_hot(rows, count).to(t.dtype), t[which]) - now[which]
        for which, rows in _neighbours(shown, count)
    ]
    return torch.cat(parts).view(batch, length, count)


def _neighbours(shown: Tokens, count: int) -> Iterator[tuple[Tensor, Tokens]]:
    """(which row of the batch, the row with one position changed), in the order of [B, L, S]."""
    batch, length = shown.shape
    for numbers in torch.arange(batch * length * count, device=shown.device).split(_ROWS):
        which, place, symbol = numbers // (length * count), numbers // count % length, numbers % count
        yield which, shown[which].scatter(1, place[:, None], symbol[:, None])
