"""The exact posterior of a finite distribution: the truth that every loss and sampler is tested against."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from candi.diffusion.methods.base import Method
from candi.diffusion.prediction import Prediction
from candi.diffusion.state import State


class IdealDenoiser(nn.Module):
    """p(x0_i = v | z_t) = sum_{x: x_i = v} p(x) q(z_t | x) / sum_x p(x) q(z_t | x), over sequences [S, L]."""

    sequences: Tensor
    log_prior: Tensor

    def __init__(
        self, method: Method, sequences: Int[Tensor, "S L"], probabilities: Float[Tensor, "S"], vocab_size: int
    ) -> None:
        super().__init__()
        self.method, self.vocab_size = method, vocab_size
        self.register_buffer("sequences", sequences)
        self.register_buffer("log_prior", probabilities.log())

    def forward(self, state: State) -> Prediction:
        by_token = self.method.log_likelihood(state)  # [B, L, V]
        spelled = self.sequences.T.unsqueeze(0).expand(len(by_token), -1, -1)  # [B, L, S]
        evidence = by_token.gather(-1, spelled).sum(1)  # log q(z_t | x) for every x
        posterior = torch.softmax(self.log_prior + evidence, dim=-1)  # [B, S]
        belongs = F.one_hot(self.sequences, self.vocab_size).to(posterior.dtype)  # [S, L, V]
        marginals = torch.einsum("bs,slv->blv", posterior, belongs)
        log_probs = marginals.log()
        if self.method.leave_one_out:
            # p(x0_i | z without i) ~ p(x0_i | z) / q(z_i | x0_i)
            log_probs = log_probs - by_token
        return Prediction.from_logits(log_probs, ~state.known)
