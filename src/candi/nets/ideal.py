"""The exact posterior of a finite distribution: the truth that every loss and sampler is tested against."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from candi.base.types import Tokens
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
        return self.posterior(state, self.sequences, self.log_prior)

    def posterior(self, state: State, sequences: Int[Tensor, "S L"], log_prior: Float[Tensor, "*B S"]) -> Prediction:
        """p(x0_i | z_t) of sequences with these log-probabilities."""
        by_token = self.method.log_likelihood(state)  # [B, L, V]
        spelled = sequences.T.unsqueeze(0).expand(len(by_token), -1, -1)  # [B, L, S]
        evidence = by_token.gather(-1, spelled).sum(1)  # log q(z_t | x) for every x
        posterior = torch.softmax(log_prior + evidence, dim=-1)  # [B, S]
        belongs = F.one_hot(sequences, self.vocab_size).to(posterior.dtype)  # [S, L, V]
        marginals = torch.einsum("bs,slv->blv", posterior, belongs)
        log_probs = marginals.log()
        if self.method.leave_one_out:
            # p(x0_i | z without i) ~ p(x0_i | z) / q(z_i | x0_i)
            log_probs = log_probs - by_token
        return Prediction.from_logits(log_probs, ~state.known)


class IdealBlockDenoiser(IdealDenoiser):
    """p(x0^k_i = v | z_t^k, x^<k), the exact posterior of a block given those before it."""

    def __init__(
        self, method: Method, sequences: Int[Tensor, "S L"], probabilities: Float[Tensor, "S"], vocab_size: int,
        size: int,
    ) -> None:  # fmt: skip
        super().__init__(method, sequences, probabilities, vocab_size)
        self.size = size
        self.written: Tokens | None = None

    def extend(self, tokens: Tokens) -> None:
        self.written = tokens if self.written is None else torch.cat([self.written, tokens], 1)

    def select(self, rows: Int[Tensor, "N"]) -> None:
        self.written = None if self.written is None else self.written[rows]

    def restart(self, tokens: Tokens) -> None:
        raise NotImplementedError("the sequences of a finite distribution have one length")

    def forward(self, state: State) -> Prediction:
        start = 0 if self.written is None else self.written.shape[1]
        block = self.sequences[:, start : start + self.size]
        return self.posterior(state, block, self.log_prior + self._given(self.written, len(state.known)))

    def side_by_side(self, state: State, context: Tokens) -> Prediction:
        """Of all blocks of clean sequences [B, L] at once, in states [B L/b, b]: what training sees."""
        count = context.shape[1] // self.size
        found = []
        for block in range(count):
            rows = torch.arange(block, len(state.known), count)
            part = State(
                state.t[rows], state.known[rows], state.tokens[rows],
                None if state.values is None else state.values[rows],
                noise_t=None if state.noise_t is None else state.noise_t[rows],
            )  # fmt: skip
            self.written = context[:, : block * self.size]
            found.append(self(part).log_probs())
        self.written = None
        return Prediction.from_logits(torch.stack(found, 1).flatten(0, 1), ~state.known)

    def _given(self, written: Tokens | None, rows: int) -> Float[Tensor, "B S"]:
        """log 1[x^<k is what is written] for each row and sequence."""
        none = self.log_prior.new_zeros(rows, len(self.sequences))
        if written is None or not written.shape[1]:
            return none
        same = (written[:, None] == self.sequences[None, :, : written.shape[1]]).all(-1)
        return none.masked_fill(~same, -torch.inf)
