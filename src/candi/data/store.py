"""Tokens on disk: shards of documents, memory-mapped, and a manifest that says of which content they are made.

A shard is a safetensors file: `tokens` in the smallest integer that holds them, `ends`, where each document ends, and
`given`, where something is. Its name is a hash of what it is made of, so that a changed file makes its own shards anew.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from candi.base.config import from_json, read_json
from candi.base.errors import UserError
from candi.base.files import need_file, write_bytes, write_text

MANIFEST, TOKENIZER, LOCK = "manifest.json", "tokenizer.json", "preparing.lock"
_FORMAT = 1
_SUFFIX = ".safetensors"


@dataclass(frozen=True)
class Shard:
    """What a shard holds. `bad` are documents that could not be used: number, place, beginning and reason of some."""

    key: str
    documents: int
    tokens: int
    given: int = 0
    unusable: int = 0
    bad: list[list[Any]] | None = None


@dataclass(frozen=True)
class Manifest:
    """What a store is made of: the data's hash, the tokenizer's, and the shards in their order."""

    data: str
    tokenizer: str
    dtype: str
    source: str
    rows: bool
    shards: list[Any]
    how: str = ""  # a hash of how the data became tokens
    format: int = _FORMAT
    finished: bool = True

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        path = folder / MANIFEST
        found = from_json(cls, read_json(path), str(path))
        if found.format != _FORMAT or found.dtype not in ("uint8", "uint16", "uint32"):
            raise UserError(f"{path} is of another version of the store; prepare it again with candi prepare.")
        names = [shard.get("key") if isinstance(shard, dict) else None for shard in found.shards]
        if not all(isinstance(name, str) and name.isalnum() for name in names):
            raise UserError(f"{path} names no shards; prepare it again with candi prepare.")
        return found

    @property
    def parts(self) -> list[Shard]:
        return [from_json(Shard, shard, "a shard of the manifest") for shard in self.shards]

    def write(self, folder: Path) -> None:
        write_text(folder / MANIFEST, json.dumps(vars(self), indent=1) + "\n")


def smallest(vocab_size: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The smallest integer that holds all tokens."""
    return np.dtype(np.uint8 if vocab_size <= 2**8 else np.uint16 if vocab_size <= 2**16 else np.uint32)


def is_store(path: Path) -> bool:
    """Whether a folder says that it is one; there are other things that have a manifest."""
    if not (path / MANIFEST).is_file():
        return False
    found = read_json(path / MANIFEST)
    return isinstance(found, dict) and {"shards", "dtype", "tokenizer"} <= found.keys()


def shard_path(folder: Path, key: str) -> Path:
    return folder / f"{key}{_SUFFIX}"


def write_shard(
    path: Path, tokens: NDArray[np.unsignedinteger[Any]], ends: NDArray[np.int64], given: NDArray[np.bool_] | None
) -> None:
    """All of it or nothing."""
    arrays: dict[str, NDArray[Any]] = {"tokens": tokens, "ends": ends}
    if given is not None:
        arrays["given"] = given.astype(np.uint8)
    write_bytes(path, save(arrays))


class Joined:
    """Arrays one after another, read as one: nothing is copied before it is asked for."""

    def __init__(self, arrays: Sequence[NDArray[Any]], start: int = 0, stop: int | None = None) -> None:
        self._arrays = [array for array in arrays if len(array)]
        self._starts = np.cumsum([0, *map(len, self._arrays)])
        self._first = start
        self._last = int(self._starts[-1]) if stop is None else stop

    def __len__(self) -> int:
        return self._last - self._first

    def __getitem__(self, place: slice) -> NDArray[Any]:
        """The values from `start` to `stop`."""
        start, stop, _ = place.indices(len(self))
        return self._read(self._first + start, max(self._first + stop, self._first + start))

    def take(self, places: NDArray[np.int64]) -> NDArray[Any]:
        """The values at these places, of any shape."""
        if len(self._arrays) == 1:
            return self._arrays[0][places + self._first]
        flat = places.ravel() + self._first
        which = np.searchsorted(self._starts, flat, "right") - 1
        found = np.empty(len(flat), self.dtype)
        for shard in np.unique(which):
            here = which == shard
            found[here] = self._arrays[shard][flat[here] - self._starts[shard]]
        return found.reshape(places.shape)

    def part(self, start: int, stop: int) -> "Joined":
        """A part, which is not read yet."""
        return Joined(self._arrays, self._first + start, self._first + stop)

    def parts(self, size: int = 1 << 24) -> Iterator[NDArray[Any]]:
        """All values, some at a time."""
        return (self[start : start + size] for start in range(0, len(self), size))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._arrays[0].dtype if self._arrays else np.dtype(np.uint8)

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        first = int(np.searchsorted(self._starts, start, "right")) - 1
        found = []
        while start < stop:
            end = min(stop, int(self._starts[first + 1]))
            found.append(self._arrays[first][start - self._starts[first] : end - self._starts[first]])
            start, first = end, first + 1
        return found[0] if len(found) == 1 else np.concatenate(found) if found else np.empty(0, self.dtype)


class TokenStore:
    """The tokens of a corpus: one stream, and where its documents end."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest, self.shards = folder, manifest, manifest.parts

    @property
    def source(self) -> str:
        return self.manifest.source

    @cached_property
    def tokens(self) -> Joined:
        return Joined(self._arrays("tokens"))

    @cached_property
    def given(self) -> Joined | None:
        """Which tokens are given, if some are."""
        if not any(shard.given for shard in self.shards):
            return None
        found = zip(self._arrays("given"), self.shards, strict=True)
        return Joined([array if len(array) else np.zeros(shard.tokens, np.uint8) for array, shard in found])

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Where each document ends in the stream; one that could not be used is empty."""
        starts = np.cumsum([0, *(shard.tokens for shard in self.shards)])
        found = [ends + start for ends, start in zip(self._arrays("ends"), starts, strict=False)]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    @property
    def unusable(self) -> int:
        return sum(shard.unusable for shard in self.shards)

    @property
    def bad(self) -> list[tuple[int, str, str, str]]:
        """Number, place, beginning and reason of some of the documents that could not be used."""
        starts = np.cumsum([0, *(shard.documents for shard in self.shards)]).tolist()
        return [
            (start + int(number), str(place), str(text), str(why))
            for start, shard in zip(starts, self.shards, strict=False)
            for number, place, text, why in shard.bad or []
        ]

    def _arrays(self, name: str) -> list[NDArray[Any]]:
        return [_mapped(shard_path(self.folder, shard.key), name, shard) for shard in self.shards]


def _mapped(path: Path, name: str, shard: Shard) -> NDArray[Any]:
    """An array of a shard, memory-mapped; empty where there is none of this name."""
    need_file(path)
    try:
        with safe_open(path, framework="numpy") as file:  # checks that the file is whole
            names, kinds = set(file.keys()), {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118
            if name not in names:
                return np.empty(0, np.uint8)
            length = {"tokens": shard.tokens, "given": shard.tokens}.get(name, len_of(kinds["ends"]))
            if len_of(kinds["tokens"]) != shard.tokens or len_of(kinds[name]) != length:
                raise UserError(f"{path} is not the shard that its manifest names; prepare the data again.")
            dtype = {"U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "I64": np.int64}[kinds[name].get_dtype()]
        with path.open("rb") as file_:
            size = int.from_bytes(file_.read(8), "little")
            begin = json.loads(file_.read(size))[name]["data_offsets"][0]
        if not length:
            return np.empty(0, dtype)
        # NumPy's own map would keep the file open, and there may be more shards than files that can be
        whole = torch.from_file(str(path), shared=False, size=path.stat().st_size, dtype=torch.uint8).numpy()
        found: NDArray[Any] = whole[8 + size + begin :][: length * np.dtype(dtype).itemsize].view(dtype)
        found.flags.writeable = False
        return found
    except (OSError, SafetensorError, KeyError) as error:
        raise UserError(f"{path} cannot be read ({error}); prepare the data again.") from None


def len_of(piece: Any) -> int:
    return int(piece.get_shape()[0])
