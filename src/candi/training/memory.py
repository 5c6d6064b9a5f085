"""How much memory a step needs, measured on one sequence and on two before more are tried."""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class NoMemoryLeft(Exception):
    """What is measured takes more than it may."""


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes that a step needs beside the network: some in any case, and some for each sequence at once."""

    fixed: int
    each: int

    @classmethod
    def from_peaks(cls, kept: int, peaks: Mapping[int, int]) -> "MemoryNeed":
        """From the most bytes at a time for some numbers of sequences, beside what is `kept` through the step."""
        first, last = [(0, 0), *peaks.items()][-2:]
        each = (last[1] - first[1]) // (last[0] - first[0])
        return cls(kept + last[1] - last[0] * each, each)

    def of(self, sequences: int) -> int:
        return self.fixed + sequences * self.each

    def most(self, share: int, room: int) -> int:
        """The most sequences that fit, of those that a share can be cut into; at least 1."""
        return max(size for size in range(1, share + 1) if share % size == 0 and (size == 1 or self.of(size) <= room))


def out_of_memory(error: RuntimeError) -> bool:
    """Whether a device or the machine had no more to give."""
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


class Allocated(TorchDispatchMode):
    """Counts the bytes of all tensors that are made inside it; more than `limit` at once are refused.

    Unlike the memory of the process, this count is the same whenever the same thing is computed.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit, self.now, self.peak = limit, 0, 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        given = {tensor.untyped_storage()._cdata for tensor in _tensors((args, kwargs))}  # seen or written, not made
        for tensor in _tensors(made):
            storage = tensor.untyped_storage()
            if storage._cdata not in given | self._known:
                self._count(storage._cdata, storage.nbytes())
                weakref.finalize(storage, self._freed, storage._cdata, storage.nbytes())
        return made

    def _count(self, place: int, size: int) -> None:
        self._known.add(place)
        self.now += size
        self.peak = max(self.peak, self.now)
        if self.now > self.limit:
            raise NoMemoryLeft

    def _freed(self, place: int, size: int) -> None:
        self._known.discard(place)
        self.now -= size


def _tensors(values: object) -> list[Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, Tensor)]
