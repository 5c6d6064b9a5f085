"""Autoregressive: one token after another, left to right."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from candi.base.rng import Rng
from candi.base.types import Hidden, LogProbs, Mask, PerToken, Times, Tokens
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.methods.base import Method, MethodSettings, Predict
from candi.diffusion.open_positions import OpenPositions
from candi.diffusion.prediction import Prediction, uniforms
from candi.diffusion.schedules import timesteps
from candi.diffusion.state import State, hidden
from candi.diffusion.steps import flat_likelihood


class AR(Method):
    """p(x) = prod_i p(x_i | x_1 .. x_{i-1}). Sampling takes as many steps as there are tokens.

    Its states hold all tokens in training, where none is known: position i sees the ones before it alone, by `embed`
    and by a causal trunk. Given tokens to the right of a blank are kept, but nothing to their left can see them.
    """

    bound = True  # with equality
    causal = True
    looks_back = 1
    time_conditioned = False
    noise_is_visible = False
    fixed_steps = True

    def corrupt(self, x0: Tokens, t: Times, rng: Rng) -> State:
        return State(t, torch.zeros_like(x0, dtype=torch.bool), x0)

    def prior(self, x0: Tokens, known: Mask, rng: Rng) -> State:
        t = torch.ones(len(x0), device=x0.device, dtype=self.embedding.weight.dtype)
        return State(t, known, hidden(x0, known))

    def embed(self, state: State) -> Hidden:
        """Position i sees the token before it; the first sees the mask vector."""
        start = self.embedding.mask_vector().expand(len(state.tokens), 1, -1)
        return torch.cat([start, self.embedding.lookup(state.tokens[:, :-1])], dim=1)

    def loss(self, prediction: Prediction, state: State, x0: Tokens) -> PerToken:
        return prediction.nll(x0)

    def timesteps(self, steps: int, length: int) -> Float[Tensor, "steps_and_one"]:
        timesteps(steps)  # validates the number
        return timesteps(length)

    def step(self, state: State, predict: Predict, s: Times, rng: Rng) -> State:
        here = torch.zeros_like(state.known).scatter(1, state.next_positions[:, None], True) & ~state.known
        tokens, numbers = state.tokens, uniforms(state.known.shape, rng)
        # what is recorded as a graph cannot be asked
        if (here.is_cuda and torch.cuda.is_current_stream_capturing()) or here.any():
            one_a_row = OpenPositions(here, capacity=len(here))
            tokens = predict().at(one_a_row).draw_with(numbers).where(here, tokens)
        return State(s, state.known | here, tokens)

    def log_likelihood(self, state: State) -> LogProbs:
        return flat_likelihood(state, self.embedding.vocab_size)

    def decode(self, state: State) -> Tokens:
        return state.tokens


@dataclass(frozen=True)
class ArSettings(MethodSettings):
    """Autoregressive: one token after another, with a key-value cache at generation."""

    def build(self, embedding: TokenEmbedding) -> AR:
        return AR(embedding)
