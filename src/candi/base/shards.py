"""Tensors that are read by rows, from one file or from shards: the rows that each of several processes had.

NAME.shards.json stands for NAME.safetensors: it says which rows of which tensor lie in which file. Joined, they are the
file that one process would have written, byte for byte.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256 as hash_of
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from candi.base.config import read_json
from candi.base.errors import UserError
from candi.base.files import need_file, sha256, whole_file

# in the order in which a file has tensors of several types
_TYPES = {
    "U64": torch.uint64, "I64": torch.int64, "F64": torch.float64, "F32": torch.float32, "U32": torch.uint32,
    "I32": torch.int32, "BF16": torch.bfloat16, "F16": torch.float16, "U16": torch.uint16, "I16": torch.int16,
    "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _TYPES.items()}


@dataclass(frozen=True)
class Index:
    """`files` in the order of the processes; `tensors` by name: type, shape, and for each file its first row and the
    one after its last. `same` are further names of a tensor."""

    files: list[str]
    tensors: dict[str, list[Any]]
    same: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, files: Sequence[str], cut: Mapping[str, Tensor], whole: Mapping[str, Tensor], same: Mapping[str, str]
    ) -> "Index":
        """Of tensors that are cut among processes, and of some that the first one writes whole."""
        parts, tensors = len(files), dict[str, list[Any]]()
        for name, tensor in cut.items():
            rows = [rows_of(len(tensor), part, parts) for part in range(parts)]
            tensors[name] = [_NAMES[tensor.dtype], list(tensor.shape), rows]
        for name, tensor in whole.items():
            rows = [(0, len(tensor) if tensor.dim() else 1), *[(0, 0)] * (parts - 1)]
            tensors[name] = [_NAMES[tensor.dtype], list(tensor.shape), rows]
        return cls(list(files), tensors, dict(same))

    def write(self, path: Path) -> None:
        index_of(path).write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "Index":
        try:
            found = cls(**read_json(path))
            inside = all(Path(name).name == name for name in found.files)  # none leads out of the folder
            fits = all(k in _TYPES and len(rows) == len(found.files) for k, _, rows in found.tensors.values())
            fits = fits and all(isinstance(n, int) and n >= 0 for _, shape, _ in found.tensors.values() for n in shape)
            if inside and fits and set(found.same.values()) <= found.tensors.keys():
                return found
        except (TypeError, ValueError, AttributeError):
            pass
        raise UserError(f"{path} is no list of shards; it is damaged.")


def index_of(path: Path) -> Path:
    """Where the shards of a file are listed."""
    return path.with_suffix(".shards.json")


def rows_of(length: int, part: int, parts: int) -> tuple[int, int]:
    """The first row of a process and the one after its last, as FSDP cuts a tensor."""
    each = -(-length // parts)
    return min(part * each, length), min((part + 1) * each, length)


class TensorFile(Mapping[str, Tensor]):
    """The tensors of a file that is there, or is there in shards. Each is read when it is asked for."""

    def __init__(self, path: Path, renamed: Callable[[str], str] = str) -> None:
        self.path, self._open = path, dict[str, Any]()
        if not path.exists() and index_of(path).exists():
            self._index = Index.read(index_of(path))
        else:
            self._index = Index([path.name], self._own())
        self._stored = {renamed(name): name for name in self._index.tensors}
        self._stored |= {renamed(name): other for name, other in self._index.same.items()}

    def _own(self) -> dict[str, list[Any]]:
        """The tensors of one file as a list of shards has them."""
        if not self.path.exists():
            raise UserError(f"{self.path} is missing; {self.path.parent} is not a checkpoint.")
        with self._readable() as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        shapes = {name: (piece.get_dtype(), piece.get_shape()) for name, piece in slices.items()}
        return {name: [kind, shape, [[0, shape[0] if shape else 1]]] for name, (kind, shape) in shapes.items()}

    @contextmanager
    def _readable(self, name: str | None = None) -> Iterator[Any]:
        path = self.path if name is None else self.path.parent / name
        try:
            if path.name not in self._open:
                need_file(path)
                self._open[path.name] = safe_open(path, framework="pt")
            yield self._open[path.name]
        except (SafetensorError, OSError, KeyError, AttributeError) as error:
            raise UserError(f"{path} cannot be read ({error}); it is damaged or cut short.") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, name: str) -> Tensor:
        shape = self.shape(name)
        if shape:
            return self.rows(name, 0, shape[0])
        with self._readable(self._index.files[0]) as file:
            return file.get_tensor(self._stored[name])

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._index.tensors[self._stored[name]][1])

    def rows(self, name: str, start: int, stop: int) -> Tensor:
        """Those from `start` to `stop` of a tensor."""
        kind, shape, places = self._index.tensors[self._stored[name]]
        found = []
        for file_name, (first, last) in zip(self._index.files, places, strict=True):
            low, high = max(start, first), min(stop, last)
            if low < high:
                with self._readable(file_name) as file:
                    piece = file.get_slice(self._stored[name])
                    if piece.get_shape() != [last - first, *shape[1:]] or piece.get_dtype() != kind:
                        raise UserError(f"{self.path.parent / file_name} holds another part of {name} than is listed.")
                    found.append(piece[low - first : high - first])
        if sum(map(len, found)) != stop - start:
            raise UserError(f"The shards of {self.path} do not hold all of {name}.")
        empty = torch.empty(0, *shape[1:], dtype=_TYPES[kind])
        return found[0] if len(found) == 1 else torch.cat(found) if found else empty

    def joined(self) -> Iterator[bytes]:
        """What one file of all the tensors holds; no more than one tensor is in memory."""
        order = list(_TYPES)
        names = sorted(self, key=lambda name: (order.index(self._kind(name)), name))
        header, end = {}, 0
        for name in names:
            kind, shape = self._kind(name), self.shape(name)
            start, end = end, end + prod(shape) * _TYPES[kind].itemsize
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": (start, end)}
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
        yield len(text).to_bytes(8, "little") + text
        for name in names:
            yield self[name].contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()

    def _kind(self, name: str) -> str:
        return str(self._index.tensors[self._stored[name]][0])


def join(path: Path, out: Path) -> None:
    """One file of shards."""
    with whole_file(out) as file:
        for part in TensorFile(path).joined():
            file.write(part)


def tensors_hash(path: Path) -> str:
    """SHA-256 of a file of tensors, or of what its shards are joined."""
    if path.exists():
        return sha256(path)
    found = hash_of()
    for part in TensorFile(path).joined():
        found.update(part)
    return found.hexdigest()
