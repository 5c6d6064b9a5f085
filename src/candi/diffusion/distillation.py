"""Few steps by distillation: what a teacher says along its walk, and how far a student is from it in one step.

z_t is walked to z_s by the method's own step. The target at each position that is open in z_t is the teacher's
distribution at the moment at which the position was revealed, or, if it is still open, at z_s. Nothing in it asks which
method it is: what a network that leaves out its own position predicts is first made the posterior of all of z.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candi.base.errors import unknown
from candi.base.rng import Rng
from candi.base.types import Mask, PerToken, Rows, Times, Tokens, Values
from candi.diffusion.draws import categorical
from candi.diffusion.methods.base import Method
from candi.diffusion.prediction import Prediction, uniforms
from candi.diffusion.sampler import Denoise, Step, advance
from candi.diffusion.state import State

LOSSES = ("forward", "reverse", "squared")


@dataclass(frozen=True)
class Target:
    """What a student is to predict at the open positions of z_t.

    `prediction` was made at times `t` of states whose tokens were `tokens`; where `hard`, the token `drawn` is all.
    """

    prediction: Prediction | None
    tokens: Tokens
    t: PerToken
    drawn: Tokens
    hard: Mask


@torch.no_grad()
def walked(
    method: Method, denoise: Denoise, step: Step, state: State, times: Sequence[Times], rng: Rng, *,
    answer: Denoise | None = None, draws: bool = False,
) -> Target:  # fmt: skip
    """The target of a walk z_t -> ... -> z_s over these times, t the first. `answer` speaks at z_s, by default the

    teacher itself. With `draws` a target is one draw of the distribution, at revealed positions the one that was made.
    """
    found, first = _Collected(state), state
    for s in times[1:]:
        seen, later = advance(denoise, step, state, s, rng)
        if seen.prediction is not None:
            found.put(later.known & ~state.known, seen.prediction, state)
        state = later
    drawn = state.tokens
    still = ~state.known
    if bool(still.any()):
        prediction = (answer or denoise)(state)
        found.put(still, prediction, state)
        if draws:
            drawn = _drawn(method, prediction, state, rng).where(still, drawn)
    return found.target(drawn, ~first.known if draws else torch.zeros_like(first.known))


@torch.no_grad()
def paired(answer: Denoise, state: State, later: State, x0: Tokens) -> Target:
    """The target of z_t and z_s that one draw of noise has made of the same data: data where z_s knows it, else what

    `answer` says at z_s. Discrete consistency, and with Gaussian noise consistency along the straight ODE.
    """
    found, still = _Collected(state), ~later.known
    if bool(still.any()):
        found.put(still, answer(later), later)
    return found.target(x0, ~state.known & later.known)


def _drawn(method: Method, prediction: Prediction, state: State, rng: Rng) -> Tokens:
    """A draw of p(x0_i | z) at every open position, its own position put in."""
    numbers = uniforms(state.known.shape, rng)
    if not method.leave_one_out:
        return prediction.draw_with(numbers)

    def draw(log_p: Rows, tokens: Int[Tensor, "N"], t: Float[Tensor, "N"], u: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
        return categorical(method.posterior(log_p, tokens, t), u).double()  # every token is such a number

    return prediction.reduce(draw, state.tokens, state.t[:, None].expand(state.known.shape), numbers).long()


class _Collected:
    """Predictions of several moments, each where it counts."""

    def __init__(self, state: State) -> None:
        self._open, self._tokens = ~state.known, state.tokens
        self._t: PerToken = state.t[:, None].expand(state.known.shape)
        self._features: Values | None = None
        self._last: Prediction | None = None

    def put(self, where: Mask, prediction: Prediction, state: State) -> None:
        features = prediction.features
        self._features = features if self._features is None else torch.where(where[..., None], features, self._features)
        self._tokens = torch.where(where, state.tokens, self._tokens)
        self._t = torch.where(where, state.t[:, None], self._t)
        self._last = prediction

    def target(self, drawn: Tokens, hard: Mask) -> Target:
        prediction = None
        if self._features is not None and self._last is not None:
            last = self._last
            prediction = Prediction(self._features, last.readout, last.vocab_size, self._open)
        return Target(prediction, self._tokens, self._t, drawn, hard)


def divergence(method: Method, student: Prediction, state: State, target: Target, loss: str = "forward") -> PerToken:
    """How far the student at z_t is from the target, at each position: KL(target || student), KL(student || target),

    or |target - student|^2; where the target is a token, -log p of it.
    """
    if loss not in LOSSES:
        raise unknown("loss", loss, LOSSES)
    distance = _DISTANCES[loss]
    t = state.t[:, None].expand(state.known.shape)

    def posterior(log_p: Rows, tokens: Int[Tensor, "N"], t: Float[Tensor, "N"]) -> Rows:
        return method.posterior(log_p, tokens, t)

    def soft(
        log_p: Rows, log_q: Rows, here: Int[Tensor, "N"], t: Float[Tensor, "N"], there: Int[Tensor, "N"],
        s: Float[Tensor, "N"],
    ) -> Float[Tensor, "N"]:  # fmt: skip
        return distance(posterior(log_p, here, t), posterior(log_q, there, s))

    def of_token(
        log_p: Rows, here: Int[Tensor, "N"], t: Float[Tensor, "N"], token: Int[Tensor, "N"]
    ) -> Float[Tensor, "N"]:
        return -posterior(log_p, here, t).gather(-1, token[:, None])[:, 0]

    everywhere = target.hard | state.known
    if target.prediction is None or bool(everywhere.all()):
        return student.reduce(of_token, state.tokens, t, target.drawn)
    found = student.compare(target.prediction, soft, state.tokens, t, target.tokens, target.t)
    if bool(target.hard.any()):
        found = torch.where(target.hard, student.reduce(of_token, state.tokens, t, target.drawn), found)
    return found


def _forward(log_p: Rows, log_q: Rows) -> Float[Tensor, "N"]:
    return (log_q.exp() * (log_q.clamp(min=_LEAST) - log_p.clamp(min=_LEAST))).sum(-1)


def _reverse(log_p: Rows, log_q: Rows) -> Float[Tensor, "N"]:
    return _forward(log_q, log_p)


def _squared(log_p: Rows, log_q: Rows) -> Float[Tensor, "N"]:
    return (log_p.exp() - log_q.exp()).square().sum(-1)


_LEAST = -30.0  # log probability: what one of them rules out costs the other so much, and not infinitely much
_DISTANCES: dict[str, Callable[[Rows, Rows], Float[Tensor, "N"]]] = {
    "forward": _forward,
    "reverse": _reverse,
    "squared": _squared,
}
