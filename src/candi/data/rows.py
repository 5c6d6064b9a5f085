"""One document a sequence: rows of equal length, padded, each with a label where there is one."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from candi.base.errors import UserError
from candi.base.files import whole_file
from candi.base.progress import say
from candi.base.rng import fold_in
from candi.data.corpus import Corpus
from candi.data.molecules import rdkit_version, readable
from candi.data.tokenizer import Tokenizer

_LISTED = 10


@runtime_checkable
class Sequences(Protocol):
    """What a training step is fed from: a stream cut into windows, or rows."""

    @property
    def size(self) -> str:
        """How much there is, in words."""

    def windows(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sequences of these numbers [N, L], counted from the first ever seen."""

    def labels(self, numbers: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Their labels, if they have some."""

    def first(self, count: int) -> NDArray[np.int64]:
        """Up to `count` of them, always the same: for validation."""

    def first_labels(self, count: int) -> NDArray[np.int64] | None:
        """Their labels."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows [N, L] in a new order each epoch."""

    tokens: NDArray[np.int64]
    seed: int
    classes: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if not len(self.tokens):
            raise UserError("There are no rows to learn from; give more data or a smaller --valid-fraction.")

    @property
    def size(self) -> str:
        return f"{len(self.tokens):,} documents"

    def windows(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.tokens[self._places(numbers)]

    def labels(self, numbers: NDArray[np.int64]) -> NDArray[np.int64] | None:
        return None if self.classes is None else self.classes[self._places(numbers)]

    def first(self, count: int) -> NDArray[np.int64]:
        return self.tokens[self._spread(count)]

    def first_labels(self, count: int) -> NDArray[np.int64] | None:
        return None if self.classes is None else self.classes[self._spread(count)]

    def _places(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return by_epoch(numbers, len(self.tokens), lambda epoch: _order(self.seed, epoch, len(self.tokens)))

    def _spread(self, count: int) -> NDArray[np.int64]:
        return np.linspace(0, len(self.tokens) - 1, min(count, len(self.tokens))).astype(np.int64)


def by_epoch(numbers: NDArray[np.int64], size: int, values: Callable[[int], NDArray[np.int64]]) -> NDArray[np.int64]:
    """values(epoch)[place] of each number = epoch * size + place."""
    epochs, places = np.divmod(numbers, size)
    found = np.empty_like(places)
    for epoch in np.unique(epochs):
        here = epochs == epoch
        found[here] = values(int(epoch))[places[here]]
    return found


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, rows: int) -> NDArray[np.int64]:
    return np.random.default_rng(fold_in(seed, "rows", epoch)).permutation(rows)


@dataclass(frozen=True, eq=False)
class Documents:
    """Rows of a corpus, and which document each of them is."""

    tokens: NDArray[np.int64]
    numbers: NDArray[np.int64]

    def split(self, valid_fraction: float) -> tuple["Documents", "Documents"]:
        """The same for every run: neighbours in a file are often alike, so its end would be no fair test."""
        order = np.random.default_rng(0).permutation(len(self.tokens))
        cut = len(order) - int(len(order) * valid_fraction)
        return self._at(np.sort(order[:cut])), self._at(np.sort(order[cut:]))

    def _at(self, places: NDArray[np.int64]) -> "Documents":
        return Documents(self.tokens[places], self.numbers[places])


def load_documents(
    corpus: Corpus, tokenizer: Tokenizer, length: int, folder: Path, *, molecules: bool, skip_bad: bool
) -> Documents:
    """Made once and kept. Documents that are too long, and molecules that cannot be read, are refused or left out."""
    reader = rdkit_version() if molecules else "text"  # what counts as a molecule
    key = "\n".join(("rows 2", corpus.fingerprint, tokenizer.fingerprint, str(length), reader, str(skip_bad)))
    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.rows.npy"
    if not path.exists():
        say(f"Turning the documents of {corpus.source} into tokens; they are kept in {folder}.")
        table = _made(corpus, tokenizer, length, molecules, skip_bad)
        with whole_file(path) as file:
            np.save(file, table)
    table = np.load(path)
    return Documents(table[:, 1:], table[:, 0])


def _made(corpus: Corpus, tokenizer: Tokenizer, length: int, molecules: bool, skip_bad: bool) -> NDArray[np.int64]:
    texts = [piece.text for piece in corpus.pieces()]
    good = readable(texts) if molecules else [True] * len(texts)
    rows, bad = [], []
    for number, (text, can_be_read) in enumerate(zip(texts, good, strict=True)):
        why = "" if can_be_read else "is no molecule"
        try:
            row = tokenizer.row(text, length) if can_be_read else None
        except UserError:
            row, why = None, "holds what the vocabulary has not"
        if row is None:
            bad.append((number, text, why or "is too long"))
        else:
            rows.append(np.concatenate([[number], row]))
    if bad and not skip_bad:
        raise UserError(_refusal(bad, list(corpus.places()), length))
    return np.stack(rows) if rows else np.empty((0, length + 1), np.int64)


def _refusal(bad: Sequence[tuple[int, str, str]], places: Sequence[str], length: int) -> str:
    listed = "; ".join(f"{places[number]} ({text[:40]}) {why}" for number, text, why in bad[:_LISTED])
    more = f"; and {len(bad) - _LISTED} more" if len(bad) > _LISTED else ""
    return (
        f"{len(bad)} of {len(places):,} documents cannot be used: {listed}{more}. Mend them, raise --length (now "
        f"{length}), or leave them out with --skip-bad."
    )
