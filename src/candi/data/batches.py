"""Packed batches whose order is a pure function of seed and step."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candi.base.errors import UserError
from candi.base.rng import fold_in
from candi.data.rows import by_epoch
from candi.data.store import Joined


@dataclass(frozen=True, eq=False)
class Windows:
    """A stream of tokens cut into windows of equal length, in a new order and from a new offset each epoch."""

    tokens: Joined
    length: int
    seed: int
    marks: Joined | None = None  # which tokens are given

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
                f"give more text or --length {len(self.tokens) // 2} at most."
            )

    @property
    def size(self) -> str:
        return f"{len(self.tokens):,} tokens of text"

    @property
    def per_epoch(self) -> int:
        return len(self.tokens) // self.length - 1  # one is given up for the offset

    def windows(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The windows of these numbers, counted from the first ever seen."""
        return self._cut(self.tokens, self._starts(numbers)).astype(np.int64)

    def given(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        return None if self.marks is None else self._cut(self.marks, self._starts(numbers)) > 0

    def _starts(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return by_epoch(numbers, self.per_epoch, lambda epoch: _starts(self.seed, epoch, self.per_epoch, self.length))

    def _cut(self, values: Joined, starts: NDArray[np.int64]) -> NDArray[Any]:
        return np.stack([values[start : start + self.length] for start in starts.tolist()])

    def labels(self, numbers: NDArray[np.int64]) -> None:
        return None

    def first_given(self, count: int) -> NDArray[np.bool_] | None:
        return None if self.marks is None else self._cut(self.marks, self._spread(count)) > 0

    def first_labels(self, count: int) -> None:
        return None

    def first(self, count: int) -> NDArray[np.int64]:
        """Up to `count` windows spread evenly over the text, always the same: for validation."""
        return self._cut(self.tokens, self._spread(count)).astype(np.int64)

    def _spread(self, count: int) -> NDArray[np.int64]:
        total = len(self.tokens) // self.length
        return np.linspace(0, total - 1, min(count, total)).astype(np.int64) * self.length

    @property
    def learned(self) -> float:
        """The fraction of all tokens that is not given."""
        if self.marks is None:
            return 1.0
        return 1 - sum(int((part > 0).sum()) for part in self.marks.parts()) / len(self.marks)


@lru_cache(maxsize=2)
def _starts(seed: int, epoch: int, windows: int, length: int) -> NDArray[np.int64]:
    """Where the windows of an epoch begin, in their order."""
    random = np.random.default_rng(fold_in(seed, "epoch", epoch))
    order = random.permutation(windows)
    return int(random.integers(length)) + order * length
