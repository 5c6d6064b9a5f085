"""MDLM: masked diffusion. A position shows its token or nothing."""

from dataclasses import dataclass

import torch

from candi.codebook import Codebook
from candi.kernels import masked
from candi.methods.base import Method
from candi.nets.prediction import Prediction
from candi.rng import Rng
from candi.schedules import LinearAlpha, Schedule
from candi.state import State
from candi.types import Hidden, LogProbs, Mask, PerToken, Times, Tokens


class MDLM(Method):
    """q(known) = Bernoulli(alpha(t)); nothing is seen where not known."""

    bound = True
    timed = False

    def __init__(self, codebook: Codebook, *, alpha: Schedule | None = None) -> None:
        super().__init__(codebook)
        self.alpha = alpha or LinearAlpha()

    def corrupt(self, x0: Tokens, t: Times, rng: Rng) -> State:
        return State(t, masked.keep(self.alpha(t), x0.shape, rng), x0)

    def prior(self, x0: Tokens, known: Mask, rng: Rng) -> State:
        return State(torch.ones(len(x0), device=x0.device, dtype=self.codebook.weight.dtype), known, x0)

    def embed(self, state: State) -> Hidden:
        return torch.where(state.known[..., None], self.codebook.lookup(state.tokens), self.codebook.blank())

    def clock(self, state: State) -> Times:
        return torch.zeros_like(state.t)

    def loss(self, prediction: Prediction, state: State, x0: Tokens) -> PerToken:
        """1/t * -log p(x0_i | z_t) where not known, for linear alpha."""
        return masked.weight(self.alpha(state.t), self.alpha.derivative(state.t)) * prediction.nll(x0)

    def step(self, state: State, prediction: Prediction, s: Times, rng: Rng) -> State:
        revealed = masked.reveal(state.known, self.alpha(state.t), self.alpha(s), rng)
        drawn = prediction.at(revealed).draw(rng)
        return State(s, state.known | revealed, torch.where(revealed, drawn, state.tokens))

    def log_likelihood(self, state: State) -> LogProbs:
        unseen = torch.zeros(*state.known.shape, self.codebook.vocab_size, dtype=state.t.dtype, device=state.t.device)
        clean = torch.full_like(unseen, -torch.inf).scatter(-1, state.tokens[..., None], 0.0)
        return torch.where(state.known[..., None], clean, unseen)

    def decode(self, state: State) -> Tokens:
        return state.tokens


@dataclass(frozen=True)
class MdlmSettings:
    """MDLM: masked diffusion, the discrete half of CANDI."""

    def build(self, codebook: Codebook) -> MDLM:
        return MDLM(codebook)
