"""p(x0 | z_t) at the open positions, computed only as far as it is asked."""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from candi.draws import categorical
from candi.rng import Rng
from candi.types import LogProbs, Mask, PerToken, Rows, Tokens, Values

Readout = Callable[[Float[Tensor, "N F"]], Rows]

# Logits held at once, counted in numbers: 16 MiB of float32 on a CPU, where memory is dear and small matrices fast.
_BUDGET = {"cpu": 2**22, "cuda": 2**27}


class Prediction:
    """Features [B, L, F] and the readout that turns rows of them into logits [N, V].

    Nothing of size [B, L, V] exists unless `log_probs` is called. Rows are read out in chunks, and in training
    recomputed in the backward pass. Positions that are not open get 0.
    """

    def __init__(
        self, features: Float[Tensor, "B L F"], readout: Readout, vocab_size: int, open: Mask
    ) -> None:
        self.features, self.readout, self.vocab_size, self.open = features, readout, vocab_size, open

    def map(self, f: Callable[[Rows], Rows]) -> "Prediction":
        """The same prediction with `f` applied to its logits."""
        readout = self.readout
        return Prediction(self.features, lambda rows: f(readout(rows)), self.vocab_size, self.open)

    def at(self, where: Mask) -> "Prediction":
        """The same prediction asked at fewer positions."""
        return Prediction(self.features, self.readout, self.vocab_size, self.open & where)

    def nll(self, x0: Tokens) -> PerToken:
        """-log p(x0_i | z_t) by chunked linear + cross-entropy."""
        targets = x0[self.open]

        def losses(rows: Tensor, target: Tensor) -> Tensor:
            return F.cross_entropy(self._logits(rows), target, reduction="none")

        chunks = list(self._chunks())
        recompute = len(chunks) > 1 and torch.is_grad_enabled()
        parts = [
            checkpoint(losses, rows, targets[where], use_reentrant=False, preserve_rng_state=False)
            if recompute
            else losses(rows, targets[where])
            for where, rows in chunks
        ]
        return self._scatter(torch.cat(parts))

    def draw(self, rng: Rng) -> Tokens:
        """x^_i ~ p(x0_i | z_t). A position uses the same random number whichever others are open."""
        uniform = rng.uniform(*self.open.shape, dtype=torch.float64)[self.open]
        parts = [categorical(self._logits(rows), uniform[where]) for where, rows in self._chunks()]
        return self._scatter(torch.cat(parts))

    def mean(self, table: Float[Tensor, "V K"]) -> Values:
        """E[table[x0_i]] = softmax @ table."""
        parts = [torch.softmax(self._logits(rows), -1).to(table.dtype) @ table for _, rows in self._chunks()]
        return self._scatter(torch.cat(parts))

    def log_probs(self) -> LogProbs:
        """The dense log-probabilities: for small V, guidance and the exact posterior."""
        parts = [torch.log_softmax(self._logits(rows), -1) for _, rows in self._chunks()]
        return self._scatter(torch.cat(parts))

    def _logits(self, rows: Tensor) -> Tensor:
        logits = self.readout(rows)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))  # bf16 sums over V are too coarse

    def _chunks(self) -> Iterator[tuple[slice, Tensor]]:
        rows = self.features[self.open]
        size = max(1, _BUDGET.get(rows.device.type, 2**24) // self.vocab_size)
        # at least one chunk, if an empty one: every parameter then takes part in every backward pass
        for start in range(0, max(len(rows), 1), size):
            where = slice(start, start + size)
            yield where, rows[where]

    def _scatter(self, parts: Tensor) -> Tensor:
        out = parts.new_zeros(*self.open.shape, *parts.shape[1:])
        return out.index_put((self.open,), parts)
