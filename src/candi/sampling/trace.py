"""A walk looked at closely: at every step, what each position is and what the network thinks of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candi.model import Model
from candi.nets.prediction import Prediction
from candi.state import State

_DENSE = 2**26  # numbers: more are not held to find out a rank


class Kind(IntEnum):
    """What a position is."""

    GIVEN = 0
    CLEAN = 1
    REVEALED = 2  # by the latest step
    NOISY = 3


@dataclass(frozen=True)
class Guess:
    """What the network makes of one state: the likeliest tokens where it was asked, and how undecided it is.

    `rank` counts the tokens that the noise alone makes look likelier than the network's first choice; it has none where
    a state shows nothing of a token.
    """

    tokens: Int[Tensor, "L K"]
    probabilities: Float[Tensor, "L K"]
    entropy: Float[Tensor, "L"]
    rank: Int[Tensor, "L"] | None


@dataclass(frozen=True)
class Moment:
    """One state of one sequence."""

    step: int
    steps: int
    t: float
    sigma: float | None  # the noise on open positions, of methods with Gaussian noise
    tokens: Int[Tensor, "L"]  # what it looks like; -1 where it looks like nothing
    kinds: Int[Tensor, "L"]
    guess: Guess | None  # none of the last state

    @property
    def clean(self) -> float:
        return float((self.kinds != Kind.NOISY).double().mean())


def trace(model: Model, options: Mapping[str, Any], number: int = 0, alternatives: int = 1) -> Iterator[Moment]:
    """The walk of sample `number`; `options` are those of `Model.walk`."""
    guesses: list[Guess] = []
    settled = model.settled(**options)
    method = model.denoiser.method

    def look(state: State, prediction: Prediction) -> None:
        guesses.append(_guess(model, state, prediction, alternatives))

    states = model.walk(1, first=number, seen=look, **options)  # what nobody gave, it recommends by itself
    state: State | None = next(states)
    assert state is not None
    given = before = state.known[0]
    steps = len(method.times(settled["steps"], len(given))) - 1
    gaussian = method.gaussian()
    step = 0
    while state is not None:
        guesses.clear()
        later = next(states, None)  # the network runs on this state when the next one is asked for
        known = state.known[0]
        kinds = torch.full_like(known, Kind.NOISY, dtype=torch.long)
        kinds[known] = Kind.REVEALED
        kinds[known & before] = Kind.CLEAN
        kinds[known & given] = Kind.GIVEN
        tokens = method.decode(state)[0]
        yield Moment(
            step, steps, float(state.t[0]),
            None if gaussian is None else float(gaussian[1](state.u)[0]),
            (tokens if method.shows else tokens.masked_fill(~known, -1)).cpu(),
            kinds.cpu(), guesses[0] if guesses else None,
        )  # fmt: skip
        before, state, step = known, later, step + 1


@torch.no_grad()
def _guess(model: Model, state: State, prediction: Prediction, alternatives: int) -> Guess:
    method, size = model.denoiser.method, prediction.vocab_size
    if method.causal:  # only the position that comes next was asked about
        prediction = prediction.at(~state.known & ((~state.known).cumsum(-1) == 1))
    log_p, tokens, entropy = prediction.top(min(alternatives, size))
    rank = None
    if method.shows and state.known.shape[1] * size <= _DENSE:
        likely = method.log_likelihood(state)[0]
        rank = (likely > likely.gather(-1, tokens[0, :, :1])).sum(-1).cpu()
    return Guess(tokens[0].cpu(), log_p[0].exp().float().cpu(), entropy[0].float().cpu(), rank)
