"""p(x0 | z_t) at the open positions, computed only as far as it is asked."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from candi.draws import categorical
from candi.nets.head import Mapped, Readout, chunks
from candi.rng import Rng
from candi.types import LogProbs, Mask, PerToken, Rows, Tokens, Values


class Prediction:
    """Features [B, L, F] and the readout that turns rows of them into logits [N, V].

    Nothing of size [B, L, V] exists unless `log_probs` is called: rows are read out in chunks. Positions that are
    not open get 0.
    """

    def __init__(self, features: Float[Tensor, "B L F"], readout: Readout, vocab_size: int, open: Mask) -> None:
        self.features, self.readout, self.vocab_size, self.open = features, readout, vocab_size, open

    def map(self, function: Callable[[Rows], Rows]) -> "Prediction":
        """The same prediction with a function applied to its logits."""
        return Prediction(self.features, Mapped(function, self.readout), self.vocab_size, self.open)

    def at(self, where: Mask) -> "Prediction":
        """The same prediction asked at fewer positions."""
        return Prediction(self.features, self.readout, self.vocab_size, self.open & where)

    def nll(self, x0: Tokens) -> PerToken:
        """-log p(x0_i | z_t)."""
        return self._scatter(self.readout.nll(self.features[self.open], x0[self.open]))

    def reduce(self, function: Callable[..., Tensor], *per_token: Shaped[Tensor, "B L"]) -> PerToken:
        """function(log-probabilities [N, V], other values [N], ...) -> [N], by chunks; remade in the backward pass."""
        rows, others = self.features[self.open], [values[self.open] for values in per_token]

        def of_rows(rows: Tensor, *others: Tensor) -> Tensor:
            return function(torch.log_softmax(_wide(self.readout(rows)), -1), *others)

        parts = [
            checkpoint(of_rows, rows[part], *(o[part] for o in others), use_reentrant=False, preserve_rng_state=False)
            for part in chunks(len(rows), self.vocab_size, rows.device)
        ]
        return self._scatter(torch.cat(parts))

    def mode(self) -> Tokens:
        """The likeliest tokens."""
        return self._by_chunk(lambda logits, _: logits.argmax(-1))

    def draw(self, rng: Rng) -> Tokens:
        """x^_i ~ p(x0_i | z_t). A position uses the same random number whichever others are open."""
        return self.pick(luck(self.open.shape, rng))

    def pick(self, luck: Float[Tensor, "B L"]) -> Tokens:
        """The draws that given random numbers decide."""
        chosen = luck[self.open]
        return self._by_chunk(lambda logits, part: categorical(logits, chosen[part]))

    def mean(self, table: Float[Tensor, "V K"]) -> Values:
        """E[table[x0_i]] = softmax @ table."""
        return self._by_chunk(lambda logits, _: torch.softmax(logits, -1).to(table.dtype) @ table)

    def log_probs(self) -> LogProbs:
        """The dense log-probabilities: for small V, guidance and the exact posterior."""
        return self._by_chunk(lambda logits, _: torch.log_softmax(logits, -1))

    def _by_chunk(self, function: Callable[[Rows, slice], Tensor]) -> Tensor:
        rows = self.features[self.open]
        parts = []
        for part in chunks(len(rows), self.vocab_size, rows.device):
            parts.append(function(_wide(self.readout(rows[part])), part))
        return self._scatter(torch.cat(parts))

    def _scatter(self, rows: Tensor) -> Tensor:
        out = rows.new_zeros(*self.open.shape, *rows.shape[1:])
        return out.index_put((self.open,), rows)


def luck(shape: torch.Size, rng: Rng) -> Float[Tensor, "B L"]:
    """The random numbers of a draw. A step that may not need its draw takes them all the same: what happens to a row

    must not depend on whether another row of the batch needed one.
    """
    return rng.uniform(*shape, dtype=torch.float64)  # float32 would cut the tail


def _wide(logits: Rows) -> Rows:
    """Sums over V are too coarse in bf16."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
