"""UDLM: uniform diffusion. A corrupted position shows some other token, and nobody says which are corrupted."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from candi.codebook import Codebook
from candi.kernels import uniform
from candi.methods.base import Method, Predict
from candi.nets.prediction import Prediction
from candi.rng import Rng
from candi.sampling.steps import certain
from candi.schedules import LinearAlpha, Schedule
from candi.state import State
from candi.types import Hidden, LogProbs, Mask, PerToken, Times, Tokens


class UDLM(Method):
    """q(z | x) = alpha(t) 1[z = x] + (1 - alpha(t))/V.

    The bound is tight, and the reverse step exact, for the leave-one-out posterior p(x0_i | z_t without position i):
    that is what the network is asked to learn.
    """

    bound = True
    leave_one_out = True
    symbols = 0

    def __init__(self, codebook: Codebook, *, alpha: Schedule | None = None) -> None:
        super().__init__(codebook.without_empty())
        self.alpha = alpha or LinearAlpha()

    def corrupt(self, x0: Tokens, t: Times, rng: Rng) -> State:
        noisy = uniform.corrupt(x0, self.alpha(t), self.codebook.vocab_size, rng)
        return State(t, torch.zeros_like(x0, dtype=torch.bool), noisy)

    def prior(self, x0: Tokens, known: Mask, rng: Rng) -> State:
        t = torch.ones(len(x0), device=x0.device, dtype=self.codebook.weight.dtype)
        return State(t, known, x0.where(known, rng.integers(*x0.shape, below=self.codebook.vocab_size)))

    def embed(self, state: State) -> Hidden:
        return self.codebook.lookup(state.tokens)

    def clock(self, state: State) -> Times:
        return -self.alpha(state.t).log()

    def loss(self, prediction: Prediction, state: State, x0: Tokens) -> PerToken:
        alpha, slope = (f(state.t)[:, None].expand(x0.shape) for f in (self.alpha, self.alpha.derivative))
        return prediction.reduce(uniform.nelbo, x0, state.tokens, alpha, slope)

    def step(self, state: State, predict: Predict, s: Times, rng: Rng) -> State:
        prediction = predict()
        here = (-prediction.nll(state.tokens)).exp()
        tokens = uniform.step(
            state.tokens, prediction.draw(rng), here, self.alpha(state.t), self.alpha(s), self.codebook.vocab_size, rng
        )
        return State(s, state.known | (s <= 0)[:, None], state.tokens.where(state.known, tokens))

    def shown(self, state: State) -> Tokens:
        return state.tokens

    def transition(self, state: State, prediction: Prediction, s: Times) -> LogProbs:
        return uniform.transition(state.tokens, prediction.log_probs(), self.alpha(state.t), self.alpha(s))

    def arrive(self, state: State, symbols: Tokens, s: Times) -> State:
        return State(s, state.known | (s <= 0)[:, None], symbols)

    def log_likelihood(self, state: State) -> LogProbs:
        noisy = uniform.log_likelihood(state.tokens, self.alpha(state.t), self.codebook.vocab_size)
        return certain(state, noisy)

    def decode(self, state: State) -> Tokens:
        return state.tokens

    def boundary(self, denoise: Callable[[State], Prediction], x0: Tokens, rng: Rng) -> PerToken:
        return uniform_boundary(self, self.alpha, denoise, x0, rng)


def uniform_boundary(
    method: Method, alpha: Schedule, denoise: Callable[[State], Prediction], x0: Tokens, rng: Rng
) -> PerToken:
    """KL of the prior at t = 1, and -log p(x0 | z_0) where the schedule does not begin at exactly 1."""
    size = method.codebook.vocab_size
    start = torch.zeros(len(x0), device=x0.device, dtype=method.codebook.weight.dtype)
    prior = uniform.prior_divergence(alpha(torch.ones_like(start)), size)[:, None].expand(x0.shape)
    if bool((alpha(start) == 1).all()):
        return prior
    state = method.corrupt(x0, start, rng)
    prediction = denoise(state)
    return prior + uniform.reconstruction(
        prediction.nll(x0), prediction.nll(state.tokens), state.tokens == x0, alpha(start), size
    )


@dataclass(frozen=True)
class UdlmSettings:
    """UDLM: uniform diffusion."""

    def build(self, codebook: Codebook) -> UDLM:
        return UDLM(codebook)
