"""A corpus that is read as it is needed and kept nowhere: for data that fits no disk.

Sequences are made in the order in which the files are read, which is another in every epoch, and shuffled in blocks:
sequence n is at a random place of block n // B. So it is a function of the seed and of n, and a run that is continued
sees what it would have seen. Where each block begins is kept as it becomes known; without that the files are read from
the beginning again, and the result is the same.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from candi.base.errors import UserError
from candi.base.files import write_text
from candi.base.progress import say
from candi.base.rng import fold_in
from candi.data.batches import Windows
from candi.data.corpus import HUB, Corpus
from candi.data.pieces import Piece
from candi.data.rows import unwritten
from candi.data.store import Joined
from candi.data.tokenizer import Encoded, Tokenizer, padded

BLOCK = 4096  # sequences that are shuffled among each other
_HELD_OUT = 256  # sequences kept from training, from the beginning of the first file
_TOGETHER = 1 << 20  # characters that are encoded at once
_KEPT = 3  # blocks in memory: a batch may lie in two


@dataclass(frozen=True)
class _At:
    """Where a sequence begins: epoch, how many files and pieces of one are passed, and tokens of the next piece."""

    epoch: int = 0
    file: int = 0
    piece: int = 0
    token: int = 0


@dataclass(frozen=True)
class _Sequence:
    """Tokens [L], which of them are given, and where the next sequence begins."""

    tokens: NDArray[np.int64]
    given: NDArray[np.bool_] | None
    next: _At


class Stream:
    """Sequences without end. Of the first file so many pieces, and tokens of the next one, are `held_out`."""

    def __init__(
        self, corpus: Corpus, tokenizer: Tokenizer, length: int, seed: int, folder: Path, *, skip_bad: bool = False,
        held_out: tuple[int, int] = (0, 0), block: int = BLOCK, written: int | None = None,
    ) -> None:  # fmt: skip
        """`block` sequences are shuffled among each other; `written` is the block of a model that writes in blocks."""
        self.corpus, self.tokenizer, self.length, self.seed, self.skip_bad = corpus, tokenizer, length, seed, skip_bad
        self.held_out, self.block, self.written = held_out, block, written
        self._made = 0
        self._blocks: OrderedDict[int, tuple[NDArray[np.int64], NDArray[np.bool_] | None]] = OrderedDict()
        made_of = (corpus.fingerprint, tokenizer.fingerprint, length, seed, skip_bad, held_out, block, corpus.by_rows)
        self._known = folder / "streams" / f"{hashlib.sha256(repr(made_of).encode()).hexdigest()[:32]}.json"
        self._begins = self._read_begins()

    @property
    def size(self) -> str:
        return f"a stream of {len(self.corpus.stream_files):,} files"

    @cached_property
    def learned(self) -> float:
        given = self._block(0)[1]
        return 1.0 if given is None else 1 - float(given.mean())

    def windows(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.stack([self._block(n // self.block)[0][self._place(n)] for n in numbers.tolist()])

    def given(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        if self._block(0)[1] is None:
            return None
        found = [(self._block(n // self.block)[1], self._place(n)) for n in numbers.tolist()]
        return np.stack([np.zeros(self.length, bool) if some is None else some[place] for some, place in found])

    def labels(self, numbers: NDArray[np.int64]) -> None:
        return None

    def first(self, count: int) -> NDArray[np.int64]:
        return self._block(0)[0][:count]

    def first_given(self, count: int) -> NDArray[np.bool_] | None:
        given = self._block(0)[1]
        return None if given is None else given[:count]

    def first_labels(self, count: int) -> None:
        return None

    def _place(self, number: int) -> int:
        return int(_order(self.seed, number // self.block, self.block)[number % self.block])

    def _block(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        if number in self._blocks:
            self._blocks.move_to_end(number)
            return self._blocks[number]
        nearest = min(number, len(self._begins) - 1)
        for made in range(nearest, number + 1):  # those in between only tell where the next one begins
            found = list(islice(self._sequences(self._begins[made]), self.block))
            if made + 1 == len(self._begins):
                self._begins.append(found[-1].next)
                write_text(self._known, json.dumps([list(vars(at).values()) for at in self._begins]))
        some = any(one.given is not None for one in found)
        given = np.stack([np.zeros(self.length, bool) if one.given is None else one.given for one in found])
        self._blocks[number] = np.stack([one.tokens for one in found]), given if some else None
        if len(self._blocks) > _KEPT:
            self._blocks.popitem(last=False)
        return self._blocks[number]

    def _read_begins(self) -> list[_At]:
        try:
            return [_At(*map(int, at)) for at in json.loads(self._known.read_text())] or [_At()]
        except (OSError, ValueError, TypeError, RecursionError):
            return [_At()]

    def _sequences(self, at: _At) -> Iterator[_Sequence]:
        """From some place on, for ever."""
        rows = self.corpus.by_rows or self.tokenizer.framed
        for one in self._rows(at) if rows else self._windows(at):
            self._made += 1
            yield one

    def _rows(self, at: _At) -> Iterator[_Sequence]:
        """Each document that fits."""
        for piece_at, found in self._encoded(at):
            size = len(found.tokens)
            if size > self.length and not self.skip_bad:
                raise UserError(
                    f"A document of {self.corpus.source} has {size} tokens, and a sequence {self.length}; raise "
                    "--length, or leave such documents out with --skip-bad."
                )
            if 0 < size <= self.length and (size == self.length or self.tokenizer.pad is not None):
                after = _At(piece_at.epoch, piece_at.file, piece_at.piece + 1)
                marks = unwritten(size, self.length, self.written)
                if found.given is not None:
                    marks[:size] |= found.given
                given = marks if found.given is not None or self.written is not None else None
                yield _Sequence(padded(found.tokens, self.length, self.tokenizer.pad), given, after)

    def _windows(self, at: _At) -> Iterator[_Sequence]:
        """One document after another, cut."""
        tokens, marks, some = [np.empty(0, np.int64)], [np.empty(0, bool)], False
        held = 0
        for piece_at, found in self._encoded(at):
            skipped = at.token if piece_at == _At(at.epoch, at.file, at.piece) else 0
            skipped = max(skipped, self._held_tokens(piece_at))
            tokens.append(found.tokens[skipped:])
            marks.append(np.zeros(len(tokens[-1]), bool) if found.given is None else found.given[skipped:])
            some |= found.given is not None
            held += len(tokens[-1])
            if held < self.length:
                continue
            joined, given = np.concatenate(tokens), np.concatenate(marks)
            for start in range(0, held - self.length + 1, self.length):
                left = held - start - self.length  # tokens of this piece that are still to come
                after = _At(piece_at.epoch, piece_at.file, piece_at.piece, len(found.tokens) - left)
                cut = slice(start, start + self.length)
                yield _Sequence(joined[cut], given[cut] if some else None, after)
            rest = held % self.length
            tokens, marks, held = [joined[held - rest :]], [given[held - rest :]], rest

    def _encoded(self, at: _At) -> Iterator[tuple[_At, Encoded]]:
        """Pieces with their places, encoded some at a time."""
        batch, size = list[tuple[_At, Piece]](), 0
        for one in self._pieces(at):
            if one is not None:
                batch.append(one)
                size += max(1, one[1].size)
            if one is None or size >= _TOGETHER:
                yield from self._of(batch)
                batch, size = [], 0

    def _of(self, batch: list[tuple[_At, Piece]]) -> Iterator[tuple[_At, Encoded]]:
        encoded = self.tokenizer.encode_pieces([piece for _, piece in batch])
        for (place, piece), found in zip(batch, encoded, strict=True):
            if not isinstance(found, UserError):
                yield place, found
            elif not self.skip_bad:
                raise UserError(f"{piece.place}: {found}") from None

    def _held_tokens(self, at: _At) -> int:
        """Tokens at the beginning of a piece that are kept for validation."""
        first = _order(self.seed, -1 - at.epoch, len(self.corpus.stream_files))[at.file] == 0
        return self.held_out[1] if first and at.piece == self.held_out[0] else 0

    def _pieces(self, at: _At) -> Iterator[tuple[_At, Piece] | None]:
        """All pieces from a place on, one epoch after another; None where one ends."""
        for epoch in count(at.epoch):
            order = _order(self.seed, -1 - epoch, len(self.corpus.stream_files)).tolist()
            made = self._made
            for file in range(at.file if epoch == at.epoch else 0, len(order)):
                here = epoch == at.epoch and file == at.file
                first = max(at.piece if here else 0, self.held_out[0] if order[file] == 0 else 0)
                for piece, one in enumerate(islice(self.corpus.pieces_of(order[file]), first, None), first):
                    yield _At(epoch, file, piece), one
            yield None
            if made == self._made and epoch > at.epoch:  # a whole epoch has given nothing
                raise UserError(f"{self.corpus.source} holds too little for a sequence; give more, or --valid.")


@lru_cache(maxsize=8)
def _order(seed: int, number: int, size: int) -> NDArray[np.int64]:
    return np.random.default_rng(fold_in(seed, "stream", number)).permutation(size)


def streamed(
    corpus: Corpus, tokenizer: Tokenizer, length: int, seed: int, folder: Path, *, skip_bad: bool, hold_out: bool,
    block: int | None = None,
) -> tuple[Stream, Windows | None]:  # fmt: skip
    """What is learned from, and the beginning of the first file to validate on, if that is kept from it."""
    if not corpus.source.startswith(HUB) and corpus.survey:  # of the hub nothing but what is needed is fetched
        say(corpus.survey)
    if not hold_out:
        return Stream(corpus, tokenizer, length, seed, folder, skip_bad=skip_bad, written=block), None
    rows, wanted = corpus.by_rows or tokenizer.framed, _HELD_OUT * length
    tokens, marks, held = list[NDArray[np.int64]](), list[NDArray[np.bool_]](), (0, 0)
    whole = Stream(corpus, tokenizer, length, seed, folder, skip_bad=skip_bad)
    for place, one in enumerate(corpus.pieces_of(0)):
        left = wanted - sum(map(len, tokens))
        if left <= 0:
            break
        held = (place + 1, 0)
        for _, found in whole._of([(_At(), one)]):
            size = len(found.tokens)
            if not size or (rows and size > length):
                continue
            given = np.zeros(size, bool) if found.given is None else found.given
            if not rows and size > left:  # the rest of a long piece is learned from
                held = (place, left)
            take = size if rows else min(size, left)
            tokens.append(padded(found.tokens[:take], length if rows else take, tokenizer.pad))
            after = unwritten(size, length, block) if rows else np.zeros(take, bool)
            marks.append(np.append(given[:take], after[take:]))
    if sum(map(len, tokens)) < length:
        raise UserError(f"The first file of {corpus.source} is too short to validate on; give --valid.")
    joined, given = np.concatenate(tokens)[:wanted], np.concatenate(marks)[:wanted]
    valid = Windows(Joined([joined]), length, seed, Joined([given.astype(np.uint8)]) if given.any() else None)
    return Stream(corpus, tokenizer, length, seed, folder, skip_bad=skip_bad, held_out=held, written=block), valid
