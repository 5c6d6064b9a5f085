"""Autoregressive: one token after another, left to right."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from candi.codebook import Codebook
from candi.methods.base import Method, Predict
from candi.nets.prediction import Prediction, luck
from candi.rng import Rng
from candi.sampling.causal import position
from candi.sampling.steps import blind
from candi.schedules import times
from candi.state import State
from candi.types import Hidden, LogProbs, Mask, PerToken, Times, Tokens


class AR(Method):
    """p(x) = prod_i p(x_i | x_1 .. x_{i-1}). A walk takes as many steps as there are tokens.

    Given tokens to the right of a blank are kept, but nothing to their left can know of them.
    """

    bound = True  # with equality
    causal = True
    timed = False
    shows = False
    own_steps = True

    def corrupt(self, x0: Tokens, t: Times, rng: Rng) -> State:
        return State(t, torch.zeros_like(x0, dtype=torch.bool), x0)

    def prior(self, x0: Tokens, known: Mask, rng: Rng) -> State:
        return State(torch.ones(len(x0), device=x0.device, dtype=self.codebook.weight.dtype), known, x0)

    def embed(self, state: State) -> Hidden:
        """Position i sees the token before it; the first sees the empty vector."""
        start = self.codebook.blank().expand(len(state.tokens), 1, -1)
        return torch.cat([start, self.codebook.lookup(state.tokens[:, :-1])], dim=1)

    def loss(self, prediction: Prediction, state: State, x0: Tokens) -> PerToken:
        return prediction.nll(x0)

    def times(self, steps: int, length: int) -> Float[Tensor, "steps_and_one"]:
        times(steps)  # a number of steps that is none is refused here too
        return times(length)

    def step(self, state: State, predict: Predict, s: Times, rng: Rng) -> State:
        here = torch.zeros_like(state.known)
        here[:, position(state)] = True
        here &= ~state.known
        tokens, numbers = state.tokens, luck(state.known.shape, rng)
        if here.any():
            tokens = predict().at(here).pick(numbers).where(here, tokens)
        return State(s, state.known | here, tokens)

    def log_likelihood(self, state: State) -> LogProbs:
        return blind(state, self.codebook.vocab_size)

    def decode(self, state: State) -> Tokens:
        return state.tokens


@dataclass(frozen=True)
class ArSettings:
    """Autoregressive: one token after another, with a key-value cache at generation."""

    def build(self, codebook: Codebook) -> AR:
        return AR(codebook)
