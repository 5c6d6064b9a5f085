"""Packed batches whose order is a pure function of seed and step."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from candi.base.errors import UserError
from candi.base.rng import fold_in


@dataclass(frozen=True, eq=False)
class Windows:
    """A stream of tokens cut into windows of equal length, in a new order and from a new offset each epoch."""

    tokens: NDArray[np.unsignedinteger]
    length: int
    seed: int

    def __post_init__(self) -> None:
        if len(self.tokens) < self.length:
            raise UserError(
                f"The text has {len(self.tokens)} tokens, too few for a sequence of {self.length}; give more text."
            )

    def check_epoch(self) -> None:
        """That there is enough for windows from any offset."""
        if len(self.tokens) < 2 * self.length:
            raise UserError(
                f"The text has {len(self.tokens)} tokens, too few for sequences of {self.length}; "
                "give more text or a smaller --length."
            )

    @property
    def size(self) -> str:
        return f"{len(self.tokens):,} tokens of text"

    @property
    def per_epoch(self) -> int:
        return len(self.tokens) // self.length - 1  # one is given up for the offset

    def window(self, index: int) -> NDArray[np.int64]:
        """The index-th window ever seen."""
        epoch, place = divmod(index, self.per_epoch)
        order, offset = _epoch(self.seed, epoch, self.per_epoch, self.length)
        start = offset + int(order[place]) * self.length
        return self.tokens[start : start + self.length].astype(np.int64)

    def label(self, index: int) -> int | None:
        return None

    def first_labels(self, count: int) -> list[int | None]:
        return [None] * len(self.first(count))

    def first(self, count: int) -> NDArray[np.int64]:
        """Up to `count` windows spread evenly over the text, always the same: for validation."""
        total = len(self.tokens) // self.length
        places = np.linspace(0, total - 1, min(count, total)).astype(np.int64)
        return np.stack([self.tokens[p * self.length : (p + 1) * self.length].astype(np.int64) for p in places])


@lru_cache(maxsize=2)
def _epoch(seed: int, epoch: int, windows: int, length: int) -> tuple[NDArray[np.int64], int]:
    random = np.random.default_rng(fold_in(seed, "epoch", epoch))
    return random.permutation(windows), int(random.integers(length))
