"""A trajectory looked at closely: at every step, what each position is and what the network predicts there."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candi.diffusion.prediction import Prediction
from candi.diffusion.sampler import SampleStep
from candi.diffusion.state import State
from candi.model.model import Model

_DENSE = 2**26  # numbers: more are not held to find out a rank


class PositionKind(IntEnum):
    """What a position is."""

    GIVEN = 0
    CLEAN = 1
    REVEALED = 2  # by the latest step
    NOISY = 3


@dataclass(frozen=True)
class TopTokens:
    """The network's prediction at one state: the likeliest tokens where it was asked, and the entropy.

    `rank` counts the tokens that the noise alone makes look likelier than the network's first choice; it has none where
    a state shows nothing of a token.
    """

    tokens: Int[Tensor, "L K"]
    probabilities: Float[Tensor, "L K"]
    entropy: Float[Tensor, "L"]
    rank: Int[Tensor, "L"] | None


@dataclass(frozen=True)
class TraceStep:
    """One state of one sequence."""

    step: int
    steps: int
    t: float
    sigma: float | None  # the noise on open positions, of methods with Gaussian noise
    tokens: Int[Tensor, "L"]  # what it looks like; -1 where it looks like nothing
    kinds: Int[Tensor, "L"]
    top: TopTokens | None  # None where the network was not asked, as of the last state
    last: bool = False

    @property
    def clean(self) -> float:
        return float((self.kinds != PositionKind.NOISY).double().mean())


def trace(model: Model, options: Mapping[str, Any], number: int = 0, alternatives: int = 1) -> Iterator[TraceStep]:
    """The trajectory of sample `number`; `options` are those of `Model.trajectory`."""
    method = model.denoiser.method
    gaussian = method.gaussian()
    given = before = None
    steps = 0
    for step, (one, last) in enumerate(_with_last(model.trajectory(1, first=number, **options))):
        state, prediction = one.state, one.prediction
        known = state.known[0]
        if given is None or before is None:
            given = before = known
            steps = model.planned_steps(known, options)
        kinds = torch.full_like(known, PositionKind.NOISY, dtype=torch.long)
        kinds[known] = PositionKind.REVEALED
        kinds[known & before] = PositionKind.CLEAN
        kinds[known & given] = PositionKind.GIVEN
        tokens = method.decode(state)[0]
        yield TraceStep(
            step, steps, float(state.t[0]),
            None if gaussian is None else float(gaussian[1](state.u)[0]),
            (tokens if method.noise_is_visible else tokens.masked_fill(~known, -1)).cpu(),
            kinds.cpu(), None if prediction is None else _top_tokens(model, state, prediction, alternatives), last,
        )  # fmt: skip
        before = known


def _with_last(steps: Iterator[SampleStep]) -> Iterator[tuple[SampleStep, bool]]:
    """Each with whether it is the last one: a text may end before it has its whole length."""
    before = None
    for step in steps:
        if before is not None:
            yield before, False
        before = step
    if before is not None:
        yield before, True


@torch.no_grad()
def _top_tokens(model: Model, state: State, prediction: Prediction, alternatives: int) -> TopTokens:
    method, size = model.denoiser.method, prediction.vocab_size
    if method.causal:  # only the position that comes next was asked about
        prediction = prediction.at(~state.known & ((~state.known).cumsum(-1) == 1))
    log_p, tokens, entropy = prediction.top(min(alternatives, size))
    unasked = ~state.known & ~prediction.open  # what comes later: nothing is known of it
    log_p, entropy = log_p.masked_fill(unasked[..., None], -torch.inf), entropy.masked_fill(unasked, math.log(size))
    rank = None
    if method.noise_is_visible and state.known.shape[1] * size <= _DENSE:
        likely = method.log_likelihood(state)[0]
        rank = (likely > likely.gather(-1, tokens[0, :, :1])).sum(-1).cpu()
    return TopTokens(tokens[0].cpu(), log_p[0].exp().float().cpu(), entropy[0].float().cpu(), rank)
