"""From a corpus to a store: shard by shard, so that what is done survives, with progress, by one process at a time."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import TextColumn

from candi.base.errors import UserError
from candi.base.files import make_folder, sweep, waiting_lock, write_text
from candi.base.progress import ProgressBar, say, text_column
from candi.data.corpus import Corpus
from candi.data.digests import digest
from candi.data.files import suffixes
from candi.data.molecules import rdkit_version, readable
from candi.data.pieces import Piece
from candi.data.store import (
    LOCK,
    MANIFEST,
    TOKENIZER,
    Manifest,
    Shard,
    TokenStore,
    shard_path,
    smallest,
    write_shard,
)
from candi.data.tokenizer import Encoded, Tokenizer

_SHARD = 1 << 25  # characters of text in a shard, or tokens of integers
_BATCH = 1 << 21  # characters that are encoded at once
_SMALL, _BUNDLE = 1 << 20, 256  # bytes of a small file, and how many of them share shards
_PARTING = 2  # of 256: after how many of them a bundle ends
_NAMED = 10  # unusable documents that a shard tells about
_SECONDS = 10.0  # between lines of a log


@dataclass(frozen=True)
class _Bundle:
    """Files whose shards depend on nothing else: a large one, or some small ones."""

    first: int
    count: int
    key: str


@dataclass
class _Shard:
    """A shard that is being made."""

    dtype: np.dtype[Any]
    tokens: list[NDArray[Any]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    given: list[NDArray[np.bool_]] = field(default_factory=list)
    bad: list[list[Any]] = field(default_factory=list)
    unusable: int = 0
    size: int = 0  # tokens up to now
    some_given: bool = False

    def add(self, found: Encoded, ends: bool) -> None:
        self.tokens.append(found.tokens.astype(self.dtype))
        self.size += len(found.tokens)
        self.some_given |= found.given is not None
        self.given.append(np.zeros(len(found.tokens), bool) if found.given is None else found.given)
        if ends:
            self.ends.append(self.size)

    def refuse(self, piece: Piece, why: str) -> None:
        """An empty document, so that the others keep their numbers."""
        if len(self.bad) < _NAMED:
            self.bad.append([len(self.ends), piece.place.short, piece.text[:40], why])
        self.unusable += 1
        self.ends.append(self.size)

    def write(self, folder: Path, key: str) -> Shard:
        tokens = np.concatenate(self.tokens) if self.tokens else np.empty(0, self.dtype)
        given = np.concatenate(self.given) if self.some_given else None
        write_shard(shard_path(folder, key), tokens, np.array(self.ends, np.int64), given)
        count = 0 if given is None else int(given.sum())
        return Shard(key, len(self.ends), len(tokens), count, self.unusable, self.bad)


def store_of(corpus: Corpus, tokenizer: Tokenizer, folder: Path, molecules: bool = False) -> TokenStore:
    """The tokens of a corpus under a folder of stores. They are made where they are not there as the data now is."""
    if corpus.prepared is not None:
        store, manifest = corpus.prepared
        if manifest.tokenizer != tokenizer.fingerprint:
            raise UserError(
                f"{store} holds tokens of another vocabulary; prepare the data with the tokenizer that is to read it."
            )
        if not manifest.finished:
            raise UserError(f"{store} is not finished; run the same candi prepare again, which goes on with it.")
        return TokenStore(store, manifest)
    name = _key("store 1", corpus.identity, _how(corpus, tokenizer, molecules))
    return prepared(corpus, tokenizer, folder / name, molecules)


def prepared(corpus: Corpus, tokenizer: Tokenizer, folder: Path, molecules: bool = False) -> TokenStore:
    """The store in a folder, made or brought up to date by one process, for which others wait."""
    how = _key(_how(corpus, tokenizer, molecules))
    if (found := _current(corpus, how, folder)) is not None:
        return found
    waiting = f"Waiting for another process that turns {corpus.source} into tokens."
    with waiting_lock(folder / LOCK, waiting):
        if (found := _current(corpus, how, folder)) is not None:
            return found
        sweep(folder)
        _Preparation(corpus, tokenizer, folder, molecules, how).make()
    return TokenStore(folder, Manifest.read(folder))


def _current(corpus: Corpus, how: str, folder: Path) -> TokenStore | None:
    """A finished store of the data as it is, made in the way that is asked for."""
    if not (folder / MANIFEST).exists():
        return None
    manifest = Manifest.read(folder)
    current = manifest.finished and manifest.how == how and manifest.data == corpus.fingerprint
    return TokenStore(folder, manifest) if current else None


def _how(corpus: Corpus, tokenizer: Tokenizer, molecules: bool) -> str:
    """What decides how a text becomes tokens: RDKit, what counts as a molecule."""
    reader = rdkit_version() if molecules else "text"
    how = (tokenizer.fingerprint, tokenizer.tolerant, reader, corpus.by_rows, corpus.field, corpus.chat)
    return "\n".join(map(str, how))


def _key(*parts: object) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:32]


class _Preparation:
    """One process that makes a store."""

    def __init__(self, corpus: Corpus, tokenizer: Tokenizer, folder: Path, molecules: bool, how: str) -> None:
        self.corpus, self.tokenizer, self.folder, self.molecules = corpus, tokenizer, folder, molecules
        self.dtype = smallest(tokenizer.vocab_size)
        self.how = how
        self.known = self._known_shards()
        self.total = sum(path.stat().st_size for path in corpus.paths)
        self.begun, self.last_line, self.read, self.read_before = time.monotonic(), time.monotonic(), 0, 0

    def make(self) -> None:
        make_folder(self.folder)
        say(f"Turning {self.corpus.source} into tokens; they are kept in {self.folder}.")
        if self.corpus.survey:
            say(self.corpus.survey)
        write_text(self.folder / TOKENIZER, self.tokenizer.json)
        shards = list[Shard]()
        with ProgressBar(self.total, [TextColumn("[bold]preparing")], [text_column("text")]) as bar:
            bar.start_at(0)
            for bundle in self._bundles():
                for shard in self._shards(bundle, bar):
                    shards.append(shard)
                    self._write(shards, finished=False)  # what is done is found again
        self._write(shards, finished=True)
        if self.corpus.unread:
            say(self.corpus.unread)
        kept = {shard_path(self.folder, shard.key) for shard in shards}
        for path in self.folder.glob("*.safetensors"):
            if path not in kept:
                path.unlink()

    def _write(self, shards: Sequence[Shard], finished: bool) -> None:
        parts = [asdict(shard) for shard in shards]
        if not finished:  # shards of the data as it was before stay known until the end
            parts += [asdict(shard) for key, shard in self.known.items() if key not in {one.key for one in shards}]
        Manifest(
            self.corpus.fingerprint, self.tokenizer.fingerprint, self.dtype.name, self.corpus.source,
            self.corpus.by_rows, parts, self.how, finished=finished,
        ).write(self.folder)  # fmt: skip

    def _known_shards(self) -> dict[str, Shard]:
        if not (self.folder / MANIFEST).exists():
            return {}
        parts = Manifest.read(self.folder).parts
        return {shard.key: shard for shard in parts if shard_path(self.folder, shard.key).exists()}

    def _bundles(self) -> Iterator[_Bundle]:
        """Small files are parted after those whose hash says so: a file more or less changes no other bundle."""
        paths = self.corpus.paths
        if not paths:
            yield _Bundle(0, 1, self.corpus.fingerprint)
        first, made_of = 0, list[str]()
        for number, path in enumerate(paths):
            large, found = path.stat().st_size >= _SMALL, digest(path)
            if large and made_of:
                yield _Bundle(first, number - first, _key(*made_of))
                first, made_of = number, []
            made_of.append("".join(suffixes(path)) + found)
            if large or len(made_of) == _BUNDLE or int(found[-2:], 16) < _PARTING or number + 1 == len(paths):
                yield _Bundle(first, number + 1 - first, _key(*made_of))
                first, made_of = number + 1, []

    def _shards(self, bundle: _Bundle, bar: ProgressBar) -> Iterator[Shard]:
        """The shards of a bundle. Those that are there are passed over: their documents are read and not encoded."""
        number, size, held, shard = 0, 0, False, None
        before = self.read
        for batch in self._batches(bundle):
            held = True  # even if it is of size 0: an end may stand alone
            key = _key(self.how, bundle.key, number)
            if key in self.known:
                size += _size(batch)
                self.read_before += _size(batch)
            else:
                shard = shard or _Shard(self.dtype)
                self._encode(batch, shard)
                size += _size(batch)
            self._show(bar, before, _size(batch))
            if size >= _SHARD:
                yield self.known[key] if shard is None else shard.write(self.folder, key)
                number, size, held, shard = number + 1, 0, False, None
        if held or not number:
            key = _key(self.how, bundle.key, number)
            yield self.known[key] if key in self.known else (shard or _Shard(self.dtype)).write(self.folder, key)
        self.read = before + sum(path.stat().st_size for path in self._paths(bundle))
        bar.update(self.read)

    def _paths(self, bundle: _Bundle) -> Sequence[Path]:
        return self.corpus.paths[bundle.first : bundle.first + bundle.count]

    def _batches(self, bundle: _Bundle) -> Iterator[list[Piece]]:
        """Pieces that are encoded at once."""
        batch, size = list[Piece](), 0
        for _, pieces in islice(self.corpus.documents(bundle.first), bundle.count):
            for piece in pieces:
                batch.append(piece)
                size += piece.size
                if size >= _BATCH:
                    yield batch
                    batch, size = [], 0
        if batch:
            yield batch

    def _encode(self, batch: Sequence[Piece], shard: _Shard) -> None:
        good = readable([piece.text for piece in batch]) if self.molecules else [True] * len(batch)
        for piece, fine, found in zip(batch, good, self.tokenizer.encode_pieces(batch), strict=True):
            if not fine:
                shard.refuse(piece, "is no molecule")
            elif isinstance(found, UserError):
                if not self.corpus.by_rows and not self.molecules:
                    raise UserError(f"{piece.place}: {found}") from None
                shard.refuse(piece, "holds what the vocabulary has not")
            elif self.corpus.by_rows and piece.ends and not len(found.tokens):
                shard.refuse(piece, "is empty")
            else:
                shard.add(found, piece.ends)

    def _show(self, bar: ProgressBar, before: int, size: int) -> None:
        """Bytes that are read, as far as characters tell, the pace, and in a log a line now and then."""
        self.read = min(self.read + size, self.total)
        seconds = max(time.monotonic() - self.begun, 1e-3)
        pace = max(self.read - self.read_before, 0) / seconds / 1e6
        bar.update(self.read, text=f"{self.read / 1e6:,.0f} of {self.total / 1e6:,.0f} MB, {pace:.1f} MB/s")
        now = time.monotonic()
        if not bar.live and now - self.last_line > _SECONDS:
            self.last_line = now
            bar.say(f"{self.read / 1e6:,.0f} of {self.total / 1e6:,.0f} MB, {pace:.1f} MB/s, {bar.left()}")


def _size(pieces: Sequence[Piece]) -> int:
    return sum(piece.size for piece in pieces)
