"""p(x0 | z_t) at the open positions, computed only as far as it is asked."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from candi.base.rng import Rng
from candi.base.types import LogProbs, Mask, PerToken, Rows, Tokens, Values
from candi.diffusion.open_positions import OpenPositions
from candi.diffusion.readout import Mapped, Readout, chunks, wide


class Prediction:
    """Features [B, L, F] and the readout that turns rows of them into logits [N, V].

    Nothing of size [B, L, V] exists unless `log_probs` is called: rows are read out in chunks. Positions that are
    not open get 0.
    """

    def __init__(
        self,
        features: Float[Tensor, "B L F"],
        readout: Readout,
        vocab_size: int,
        open: Mask | OpenPositions,
        shift: Values | None = None,
    ) -> None:
        self.features, self.readout, self.vocab_size = features, readout, vocab_size
        self.positions = open if isinstance(open, OpenPositions) else OpenPositions(open)
        self.shift = shift  # what guidance adds to the target that noisy positions move to

    @classmethod
    def from_logits(cls, logits: LogProbs, open: Mask) -> "Prediction":
        """p = softmax(logits [B, L, V]), for a network that makes its logits itself."""
        return cls(logits, Mapped(lambda rows: rows), logits.shape[-1], open)

    @property
    def open(self) -> Mask:
        return self.positions.open

    def map(self, function: Callable[[Rows], Rows]) -> "Prediction":
        """The same prediction with a function applied to its logits."""
        return self._with(readout=Mapped(function, self.readout))

    def tempered(self, temperature: float) -> "Prediction":
        """The same prediction with its logits divided by a temperature."""
        return self._with(readout=self.readout.tempered(temperature))

    def tilted(self, tilt: LogProbs) -> "Prediction":
        """p_v exp(tilt_v), normalised. Dense."""
        return self._with(features=self.log_probs() + tilt, readout=Mapped(lambda logits: logits))

    def cfg(self, other: "Prediction", weight: float) -> "Prediction":
        """Classifier-free guidance: p (p / other)^weight, normalised, of two predictions of one network."""
        return self._with(features=(1 + weight) * self.features - weight * other.features)

    def shifted(self, shift: Values) -> "Prediction":
        """The same prediction, whose noisy positions move to their target + shift."""
        return self._with(shift=shift if self.shift is None else self.shift + shift)

    def at(self, where: Mask | OpenPositions) -> "Prediction":
        """The same prediction asked at fewer positions; `OpenPositions` must be open, and may know their count."""
        return self._with(positions=where if isinstance(where, OpenPositions) else OpenPositions(self.open & where))

    def within(self, capacity: int) -> "Prediction":
        """The same prediction, with the promise that at most `capacity` positions are open."""
        return self._with(positions=OpenPositions(self.open, capacity))

    def cut(self, length: int) -> "Prediction":
        """The same of the first positions alone."""
        return self._with(
            features=self.features[:, :length],
            positions=OpenPositions(self.open[:, :length]),
            shift=None if self.shift is None else self.shift[:, :length],
        )

    def _with(
        self,
        features: Tensor | None = None,
        readout: Readout | None = None,
        positions: OpenPositions | None = None,
        shift: Values | None = None,
    ) -> "Prediction":
        return Prediction(
            self.features if features is None else features,
            self.readout if readout is None else readout,
            self.vocab_size,
            self.positions if positions is None else positions,
            self.shift if shift is None else shift,
        )

    def nll(self, x0: Tokens) -> PerToken:
        """-log p(x0_i | z_t)."""
        return self.positions.scatter(self.readout.nll(self._rows(), self.positions.gather(x0), self.vocab_size))

    def reduce(self, function: Callable[..., Tensor], *per_token: Shaped[Tensor, "B L"]) -> PerToken:
        """function(log-probabilities [N, V], other values [N], ...) -> [N], by chunks; remade in the backward pass."""
        rows, others = self._rows(), [self.positions.gather(values) for values in per_token]

        def of_rows(rows: Tensor, *others: Tensor) -> Tensor:
            return function(torch.log_softmax(wide(self.readout(rows)), -1), *others)

        parts = [
            checkpoint(of_rows, rows[part], *(o[part] for o in others), use_reentrant=False, preserve_rng_state=False)
            for part in chunks(len(rows), self.vocab_size, rows.device)
        ]
        return self.positions.scatter(torch.cat(parts))

    def compare(
        self, other: "Prediction", function: Callable[..., Tensor], *per_token: Shaped[Tensor, "B L"]
    ) -> PerToken:
        """function(log p [N, V], log q [N, V], other values [N], ...) -> [N] of two predictions, at the open positions

        of this one, by chunks; remade in the backward pass.
        """
        rows, theirs = self._rows(), self.positions.gather(other.features)
        others = [self.positions.gather(values) for values in per_token]

        def of_rows(rows: Tensor, theirs: Tensor, *others: Tensor) -> Tensor:
            log_p, log_q = (
                torch.log_softmax(wide(readout(some)), -1)
                for readout, some in ((self.readout, rows), (other.readout, theirs))
            )
            return function(log_p, log_q, *others)

        parts = [
            checkpoint(
                of_rows, rows[part], theirs[part], *(o[part] for o in others), use_reentrant=False,
                preserve_rng_state=False,
            )
            for part in chunks(len(rows), 2 * self.vocab_size, rows.device)
        ]  # fmt: skip
        return self.positions.scatter(torch.cat(parts))

    def mode(self) -> Tokens:
        """The likeliest tokens."""
        return self.positions.scatter(self.readout.mode(self._rows(), self.vocab_size))

    def draw(self, rng: Rng) -> Tokens:
        """x^_i ~ p(x0_i | z_t). A position uses the same random number whichever others are open."""
        return self.draw_with(uniforms(self.open.shape, rng))

    def draw_with(self, uniforms: Float[Tensor, "B L"]) -> Tokens:
        """The draws that given uniform random numbers decide."""
        return self.positions.scatter(self.readout.draw(self._rows(), self.positions.gather(uniforms), self.vocab_size))

    def mean(self, table: Float[Tensor, "V K"]) -> Values:
        """E[table[x0_i]] = softmax @ table."""
        return self.positions.scatter(self.readout.mean(self._rows(), table))

    def top(self, count: int) -> tuple[Values, Shaped[Tensor, "B L K"], PerToken]:
        """The likeliest tokens: their log-probabilities and themselves, and the entropy of all; 0 where not open."""
        parts = []
        rows = self._rows()
        for part in chunks(len(rows), self.vocab_size, rows.device):
            log_p = torch.log_softmax(wide(self.readout(rows[part])), -1)
            parts.append((*log_p.topk(count, -1), -(log_p.exp() * log_p).nansum(-1)))
        values, tokens, entropy = (self.positions.scatter(torch.cat(column)) for column in zip(*parts, strict=True))
        return values, tokens, entropy

    def log_probs(self) -> LogProbs:
        """The dense log-probabilities: for small V, guidance and the exact posterior."""
        return self.positions.scatter(self.readout.log_probs(self._rows(), self.vocab_size))

    def _rows(self) -> Float[Tensor, "N F"]:
        return self.positions.gather(self.features)


def uniforms(shape: torch.Size, rng: Rng) -> Float[Tensor, "B L"]:
    """The random numbers of a draw.

    A step that may not need its draw takes them all the same: what happens to a row must not depend on whether another
    row of the batch needed one.
    """
    return rng.uniform(*shape, dtype=torch.float64)  # float32 would cut the tail
