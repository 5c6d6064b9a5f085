"""UDLM: uniform diffusion. A corrupted position shows some other token, and nobody says which are corrupted."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candi.base.rng import Rng
from candi.base.types import Hidden, LogProbs, Mask, PerToken, Rows, Times, Tokens
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.kernels import uniform
from candi.diffusion.methods.base import Method, MethodSettings, Predict
from candi.diffusion.prediction import Prediction
from candi.diffusion.schedules import LinearAlpha, Schedule
from candi.diffusion.state import State
from candi.diffusion.steps import pin_known


class UDLM(Method):
    """q(z | x) = alpha(t) 1[z = x] + (1 - alpha(t))/V.

    The bound is tight, and the reverse step exact, for the leave-one-out posterior p(x0_i | z_t without position i):
    that is what the network is asked to learn.
    """

    bound = True
    leave_one_out = True
    extra_symbols = 0

    def __init__(self, embedding: TokenEmbedding, *, alpha: Schedule | None = None) -> None:
        super().__init__(embedding)
        self.alpha = alpha or LinearAlpha()

    def corrupt(self, x0: Tokens, t: Times, rng: Rng) -> State:
        noisy = uniform.corrupt(x0, self.alpha(t), self.embedding.vocab_size, rng)
        return State(t, torch.zeros_like(x0, dtype=torch.bool), noisy)

    def prior(self, x0: Tokens, known: Mask, rng: Rng) -> State:
        t = torch.ones(len(x0), device=x0.device, dtype=self.embedding.weight.dtype)
        return State(t, known, x0.where(known, rng.integers(*x0.shape, below=self.embedding.vocab_size)))

    def embed(self, state: State) -> Hidden:
        return self.embedding.lookup(state.tokens)

    def time_input(self, state: State) -> Times:
        return -self.alpha(state.t).log()

    def loss(self, prediction: Prediction, state: State, x0: Tokens) -> PerToken:
        alpha, slope = (f(state.t)[:, None].expand(x0.shape) for f in (self.alpha, self.alpha.derivative))
        return prediction.reduce(uniform.nelbo, x0, state.tokens, alpha, slope)

    def step(self, state: State, predict: Predict, s: Times, rng: Rng) -> State:
        prediction = predict()
        here = (-prediction.nll(state.tokens)).exp()
        tokens = uniform.step(
            state.tokens, prediction.draw(rng), here, self.alpha(state.t), self._alpha_of_step(s),
            self.embedding.vocab_size, rng,
        )  # fmt: skip
        return State(s, state.known | (s <= 0)[:, None], state.tokens.where(state.known, tokens))

    def posterior(self, log_p: Rows, tokens: Int[Tensor, "N"], t: Float[Tensor, "N"]) -> Rows:
        return uniform.with_own(log_p, tokens, self.alpha(t))

    def to_symbols(self, state: State) -> Tokens:
        return state.tokens

    def transition(self, state: State, prediction: Prediction, s: Times) -> LogProbs:
        return uniform.transition(state.tokens, prediction.log_probs(), self.alpha(state.t), self._alpha_of_step(s))

    def _alpha_of_step(self, s: Times) -> Times:
        """A trajectory ends at x0 itself, also where alpha(0) is below 1."""
        return self.alpha(s).masked_fill(s <= 0, 1.0)

    def from_symbols(self, state: State, symbols: Tokens, s: Times) -> State:
        return State(s, state.known | (s <= 0)[:, None], symbols)

    def log_likelihood(self, state: State) -> LogProbs:
        noisy = uniform.log_likelihood(state.tokens, self.alpha(state.t), self.embedding.vocab_size)
        return pin_known(state, noisy)

    def decode(self, state: State) -> Tokens:
        return state.tokens

    def endpoint_terms(self, denoise: Callable[[State], Prediction], x0: Tokens, rng: Rng) -> PerToken:
        return uniform_endpoint_terms(self, self.alpha, denoise, x0, rng)


def uniform_endpoint_terms(
    method: Method, alpha: Schedule, denoise: Callable[[State], Prediction], x0: Tokens, rng: Rng
) -> PerToken:
    """KL of the prior at t = 1, and -log p(x0 | z_0) where the schedule does not begin at exactly 1."""
    size = method.embedding.vocab_size
    start = torch.zeros(len(x0), device=x0.device, dtype=method.embedding.weight.dtype)
    prior = uniform.prior_divergence(alpha(torch.ones_like(start)), size)[:, None].expand(x0.shape)
    if bool((alpha(start) == 1).all()):
        return prior
    state = method.corrupt(x0, start, rng)
    prediction = denoise(state)
    return prior + uniform.reconstruction(
        prediction.nll(x0), prediction.nll(state.tokens), state.tokens == x0, alpha(start), size
    )


@dataclass(frozen=True)
class UdlmSettings(MethodSettings):
    """UDLM: uniform diffusion."""

    mask_vector: ClassVar[bool] = False

    def build(self, embedding: TokenEmbedding) -> UDLM:
        return UDLM(embedding)
