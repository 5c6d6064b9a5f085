"""Sequences that a step of training is fed from, and rows: one document a sequence, padded."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from candi.base.errors import UserError
from candi.base.progress import say
from candi.base.rng import fold_in
from candi.data.corpus import Corpus
from candi.data.prepare import store_of
from candi.data.store import TokenStore
from candi.data.tokenizer import Tokenizer

_LISTED = 10


@runtime_checkable
class Sequences(Protocol):
    """What a training step is fed from: a stream cut into windows, or rows."""

    @property
    def size(self) -> str:
        """How much there is, in words."""

    @property
    def length(self) -> int:
        """Tokens in each."""

    @property
    def learned(self) -> float:
        """The fraction of all tokens that is not given."""

    def windows(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sequences of these numbers [N, L], counted from the first ever seen."""

    def given(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Which of their tokens are given [N, L], if some are."""

    def labels(self, numbers: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Their labels, if they have some."""

    def first(self, count: int) -> NDArray[np.int64]:
        """Up to `count` of them, always the same: for validation."""

    def first_given(self, count: int) -> NDArray[np.bool_] | None:
        """Which of their tokens are given."""

    def first_labels(self, count: int) -> NDArray[np.int64] | None:
        """Their labels."""


@dataclass(frozen=True, eq=False)
class Documents:
    """Some documents of a store as rows of `length` tokens, and which document each of them is.

    Where rows are written in blocks, the block in which a document ends is filled with padding, which is learned; those
    after it are never written, and count as given.
    """

    store: TokenStore
    length: int
    pad: int
    numbers: NDArray[np.int64]
    block: int | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens [N, L] of the documents at these places, padded."""
        index, inside = self._index(places)
        return np.where(inside, self.store.tokens.take(index).astype(np.int64), self.pad)

    def given(self, places: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Which of their tokens are given [N, L], if some are."""
        given = None
        if self.store.given is not None:
            index, inside = self._index(places)
            given = inside & (self.store.given.take(index) > 0)
        if self.block is None:
            return given
        after = np.stack(
            [unwritten(size, self.length, self.block) for size in self._sizes(self.numbers[places]).tolist()]
        )
        return after if given is None else given | after

    def _sizes(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.store.ends[numbers] - np.where(numbers > 0, self.store.ends[numbers - 1], 0)

    def _index(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where in the stream the tokens of each row are [N, L], and which of them are of its document."""
        numbers, ends = self.numbers[places], self.store.ends
        index = np.where(numbers > 0, ends[numbers - 1], 0)[:, None] + np.arange(self.length)
        inside = index < ends[numbers, None]
        return np.where(inside, index, 0), inside

    @property
    def learned(self) -> float:
        """The fraction of all places that is not given."""
        given = sum(shard.given for shard in self.store.shards) / max(1, len(self.store.ends))
        filled = self.length if self.block is None else -(-self._sizes(self.numbers) // self.block) * self.block
        return float(np.mean(filled) - given) / self.length

    def split(self, valid_fraction: float) -> tuple["Documents", "Documents"]:
        """The same for every run: neighbours in a file are often alike, so its end would be no fair test."""
        order = np.random.default_rng(0).permutation(len(self))
        cut = len(order) - int(len(order) * valid_fraction)
        return self._at(np.sort(order[:cut])), self._at(np.sort(order[cut:]))

    def _at(self, places: NDArray[np.int64]) -> "Documents":
        return dataclasses.replace(self, numbers=self.numbers[places])


def unwritten(size: int, length: int, block: int | None) -> NDArray[np.bool_]:
    """Which places of a row lie after the block in which a document of so many tokens ends."""
    return np.arange(length) >= (length if block is None else -(-size // block) * block)


@dataclass(frozen=True, eq=False)
class Rows:
    """Documents in a new order each epoch."""

    documents: Documents
    seed: int
    classes: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if not len(self.documents):
            raise UserError("There are no rows to learn from; give more data or a smaller --valid-fraction.")

    @property
    def size(self) -> str:
        return f"{len(self.documents):,} documents"

    @property
    def length(self) -> int:
        return self.documents.length

    @property
    def learned(self) -> float:
        return self.documents.learned

    def windows(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.documents.rows(self._places(numbers))

    def given(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        return self.documents.given(self._places(numbers))

    def labels(self, numbers: NDArray[np.int64]) -> NDArray[np.int64] | None:
        return None if self.classes is None else self.classes[self._places(numbers)]

    def first(self, count: int) -> NDArray[np.int64]:
        return self.documents.rows(self._spread(count))

    def first_given(self, count: int) -> NDArray[np.bool_] | None:
        return self.documents.given(self._spread(count))

    def first_labels(self, count: int) -> NDArray[np.int64] | None:
        return None if self.classes is None else self.classes[self._spread(count)]

    def _places(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        size = len(self.documents)
        return by_epoch(numbers, size, lambda epoch: _order(self.seed, epoch, size))

    def _spread(self, count: int) -> NDArray[np.int64]:
        size = len(self.documents)
        return np.linspace(0, size - 1, min(count, size)).astype(np.int64)


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


def load_documents(corpus: Corpus, tokenizer: Tokenizer, length: int, folder: Path, *, skip_bad: bool) -> Documents:
    """The documents of a corpus as rows. Those that are too long, and molecules that cannot be read, are refused or
    left out."""
    return documents_of(store_of(corpus, tokenizer, folder, tokenizer.framed), tokenizer, length, skip_bad, corpus)


def documents_of(
    store: TokenStore, tokenizer: Tokenizer, length: int, skip_bad: bool, corpus: Corpus | None = None,
    block: int | None = None,
) -> Documents:  # fmt: skip
    """The documents of a store as rows of `length` tokens, of a model that writes in blocks or at once."""
    sizes = np.diff(store.ends, prepend=0)
    longest = int(sizes.max(initial=0))
    if tokenizer.pad is None and len(sizes) and (short := int(sizes[sizes > 0].min(initial=longest))) < length:
        raise UserError(
            f"The rows of {store.source} have {short} tokens and nothing to fill longer ones with; give "
            f"--length {longest}."
        )
    fit = (sizes > 0) & (sizes <= length)
    if not fit.all():
        if not skip_bad:
            raise UserError(_refusal(store, corpus, sizes, length))
        long, out = int((sizes > length).sum()), int((~fit).sum())
        say(f"{out:,} of {len(fit):,} documents are left out, {long:,} of them because they are too long.")
    return Documents(store, length, tokenizer.pad or 0, np.flatnonzero(fit), block)


def _refusal(store: TokenStore, corpus: Corpus | None, sizes: NDArray[np.int64], length: int) -> str:
    """Which documents cannot be used, and which length would hold all that are only too long."""
    long = np.flatnonzero(sizes > length)
    bad = list(store.bad)
    if len(bad) < _LISTED:
        some = long[: _LISTED - len(bad)].tolist()
        found = _found(corpus, some)
        bad += [(n, *found[n], f"is too long ({sizes[n]} tokens)") for n in some]
    listed = "; ".join(
        f"{place} ({text}) {why}" if text else f"{place} {why}" for _, place, text, why in sorted(bad)[:_LISTED]
    )
    count = store.unusable + len(long)
    more = f"; and {count - _LISTED} more" if count > _LISTED else ""
    advice = f"--length {sizes.max()} holds all of them" if not store.unusable else f"raise --length (now {length})"
    if len(long) and store.unusable:
        advice = f"raise --length (now {length}; {sizes.max()} holds the longest)"
    return (
        f"{count} of {len(sizes):,} documents cannot be used: {listed}{more}. Mend them, {advice}, or leave them out "
        "with --skip-bad."
    )


def _found(corpus: Corpus | None, numbers: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Where documents stand and how they begin, as far as their data is at hand."""
    found = {number: (f"document {number + 1}", "") for number in numbers}
    if corpus is not None and corpus.prepared is None:
        documents = (piece for piece in corpus.pieces() if piece.ends)
        for number, piece in enumerate(islice(documents, max(numbers, default=-1) + 1)):
            if number in found:
                found[number] = piece.place.short, piece.text[:40]
    return found
