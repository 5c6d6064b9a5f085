"""Pieces that the steps of several methods share."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.base.types import LogProbs, Mask, PerToken, Times, Values
from candi.diffusion.draws import categorical
from candi.diffusion.kernels import gaussian
from candi.diffusion.prediction import Prediction, uniforms
from candi.diffusion.schedules import Schedule, timesteps
from candi.diffusion.solvers import SOLVERS
from candi.diffusion.spaces import Space
from candi.diffusion.state import State


def solver_step(
    state: State, prediction: Prediction, target: Values, s: Times, space: Space, sigma: Schedule, solver: str, rng: Rng
) -> Values:
    """The values of a state carried to the noise of time s by a solver that aims at the target, shifted by guidance."""
    if prediction.shift is not None:
        target = target + prediction.shift
    return SOLVERS[solver](state.noisy, target, sigma(state.u), sigma(s), lambda: space.noise(state.known.shape, rng))


PRIORS = ("normal", "frequencies")
FIRST_HITTING = "first-hitting"  # an order in which each position is revealed at its own exact time


def steps_of_order(steps: int, length: int, order: str) -> Float[Tensor, "steps_and_one"]:
    """Even steps of t; of first-hitting a step a position, whose times are drawn on the way."""
    even = timesteps(steps)  # validates the number
    return timesteps(length) if order == FIRST_HITTING else even


def gaussian_prior(
    space: Space, sigma: Times, shape: torch.Size, rng: Rng, frequencies: Float[Tensor, "P V"] | None
) -> Values:
    """z_1 where nothing is known: sigma_1 eps, or point(u) + sigma_1 eps with u drawn from the token frequencies.

    The law at t = 1 is point(x0) + sigma_1 eps. The second is that law position by position; the first is its limit
    for a large sigma_1.
    """
    noise = space.noise(shape, rng)
    if frequencies is None:
        return gaussian.corrupt(torch.zeros_like(noise), sigma, noise)
    check_positions(frequencies, shape[1])
    logits = frequencies.double().log().expand(*shape, -1).flatten(0, 1)
    tokens = categorical(logits, uniforms(shape, rng).flatten()).view(shape)
    return gaussian.corrupt(space.point(tokens), sigma, noise)


def check_positions(frequencies: Float[Tensor, "P V"], length: int) -> None:
    """Refuse frequencies of other positions than a sequence of this length has; one row is of all positions."""
    if len(frequencies) not in (1, length):
        raise UserError(
            f"The model knows token frequencies for {len(frequencies)} positions, not for {length}; take its own "
            "length, or the prior normal."
        )


def pin_known(state: State, log_likelihood: LogProbs) -> LogProbs:
    """A log-likelihood whose known positions allow their own token only."""
    clean = torch.full_like(log_likelihood, -torch.inf).scatter(-1, state.tokens[..., None], 0.0)
    return torch.where(state.known[..., None], clean, log_likelihood)


def flat_likelihood(state: State, vocab_size: int) -> LogProbs:
    """The log-likelihood of a state that shows nothing where it is not known: the same for every token."""
    return pin_known(state, torch.zeros(*state.known.shape, vocab_size, dtype=state.t.dtype, device=state.t.device))


def top_count(score: PerToken, open: Mask, count: Int[Tensor, "B"]) -> Mask:
    """The `count` open positions of each row with the highest score; of equals, the first."""
    filled = score.masked_fill(~open, -torch.inf).round(decimals=4)  # the last bit of a float must not decide
    ranked = filled.argsort(dim=-1, descending=True, stable=True).argsort(-1)
    return open & (ranked < count[:, None])


def entropy_bounded(entropy: PerToken, open: Mask, bound: float) -> Mask:
    """The most open positions, surest first, whose entropies without the largest sum to at most the bound.

    That sum bounds what is lost by drawing them independently. At least one a row.
    """
    # equally sure positions go from left to right: the last bit of a float must not decide
    filled = entropy.masked_fill(~open, torch.inf).round(decimals=4)
    ordered, order = filled.sort(stable=True, dim=-1)
    before = ordered.nan_to_num(posinf=0.0).cumsum(-1) - ordered.nan_to_num(posinf=0.0)  # all but the largest so far
    chosen = (before <= bound) & ordered.isfinite()
    return torch.zeros_like(open).scatter(-1, order, chosen)


def entropy(prediction: Prediction) -> PerToken:
    """-sum_v p log p at the open positions."""
    return prediction.reduce(lambda log_p: torch.special.entr(log_p.exp()).sum(-1))


def remask_rate(alpha_t: Times, alpha_s: Times, most: float) -> Float[Tensor, "B"]:
    """sigma = min(most, (1 - alpha_s)/alpha_t): the share of revealed tokens that a remasking step takes back."""
    return ((1 - alpha_s) / alpha_t.clamp(min=1e-9)).clamp(max=most)
