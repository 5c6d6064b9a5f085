"""D-CBG: discrete guidance by a classifier that knows the method's noise.

p(z_s^l = v | z_t, y) ~ p(z_s^l = v | z_t) p(y | z_t with position l set to v)^weight, at each position by itself: exact
in the limit of many steps, where no two positions change at once.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.base.types import Mask, Times, Tokens
from candi.diffusion.draws import categorical
from candi.diffusion.guidance.base import Context, LogProbability, gradient, with_context
from candi.diffusion.methods.base import Method, Predict
from candi.diffusion.prediction import uniforms
from candi.diffusion.sampler import Denoise, Step
from candi.diffusion.state import State

DCBG = ("first-order", "exact")  # its forms
_ROWS = 4096  # sequences that a classifier reads at once


@dataclass(frozen=True)
class DiscreteGuidance:
    """For methods whose states are symbols (tokens, and the mask where there is one).

    First order: log p(y | z_t) + g[l, v] - g[l, z_t^l], one backward pass a step. Exact: L x S readings a step.
    """

    classifier: LogProbability
    weight: float
    first_order: bool = True
    context: Context | None = None

    def behind(self, context: Context) -> "DiscreteGuidance":
        return replace(self, context=context)

    def over(self, method: Method, denoise: Denoise, step: Step) -> tuple[Denoise, Step]:
        if method.extra_symbols is None:
            raise UserError(
                f"{type(method).__name__} has no discrete states to guide; guide it by a gradient and any classifier."
            )
        count = method.embedding.vocab_size + method.extra_symbols

        def step_guided(state: State, predict: Predict, s: Times, rng: Rng) -> State:
            symbols = method.to_symbols(state)
            whole = with_context(self.context, symbols)
            if self.first_order:
                change = first_order(self.classifier, whole, count, state.t)
            else:
                open = F.pad(~state.known, (whole.shape[1] - symbols.shape[1], 0))
                change = exactly(self.classifier, whole, count, state.t, open)
            change = change[:, -symbols.shape[1] :]
            logits = method.transition(state, predict(), s) + self.weight * change
            drawn = categorical(logits.flatten(0, 1), uniforms(symbols.shape, rng).flatten()).view_as(symbols)
            return method.from_symbols(state, drawn.where(~state.known, symbols), s)

        return denoise, step_guided


def first_order(classifier: LogProbability, symbols: Tokens, count: int, t: Times) -> Float[Tensor, "B L S"]:
    """g[l, v] - g[l, z^l]: the change of log p(y | z), to first order, when position l alone becomes v."""
    _, slope = gradient(classifier, symbols, count, t)
    return slope - slope.gather(-1, symbols[..., None])


@torch.no_grad()
def exactly(
    classifier: LogProbability, symbols: Tokens, count: int, t: Times, open: Mask | None = None
) -> Float[Tensor, "B L S"]:
    """log p(y | z with position l set to v) - log p(y | z) at open positions, by reading every neighbour of z there."""
    now = classifier(F.one_hot(symbols, count).to(t.dtype), t)
    row, place = torch.ones_like(symbols).nonzero().T if open is None else open.nonzero().T
    change = now.new_zeros(*symbols.shape, count)
    for part in torch.arange(len(row) * count, device=symbols.device).split(_ROWS):
        which, where, symbol = row[part // count], place[part // count], part % count
        neighbours = symbols[which].scatter(1, where[:, None], symbol[:, None])
        change[which, where, symbol] = classifier(F.one_hot(neighbours, count).to(t.dtype), t[which]) - now[which]
    return change
