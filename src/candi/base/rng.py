"""Explicit randomness."""

import hashlib
import importlib.util
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor

_TRITON = importlib.util.find_spec("triton") is not None
_BLOCK = 1024  # numbers that one program of the kernel makes
Kind = Literal["uniform", "normal"]
_KINDS = {  # as the kernel counts them
    ("uniform", torch.float32): 0,
    ("uniform", torch.float64): 1,
    ("normal", torch.float32): 2,
    ("normal", torch.float64): 3,
}


def fold_in(seed: int, *path: int | str) -> int:
    """A new seed that is a pure function of `seed` and a path such as ("train", step, row)."""
    digest = hashlib.blake2b(repr((seed, *path)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class Rng:
    """Random numbers for a batch, drawn in equal parts from a number of streams.

    One stream: it serves the whole batch. One stream a row: row i depends on its own stream alone, so neither the size
    of the batch nor the number of devices changes what happens to it.
    """

    def __init__(self, streams: "Streams") -> None:
        self._streams = streams
        self.device = streams.device

    @classmethod
    def from_seed(cls, seed: int, device: torch.device | str = "cpu") -> "Rng":
        return cls(Generators([seed], torch.device(device)))

    @classmethod
    def per_row(cls, seeds: Iterable[int], device: torch.device | str = "cpu") -> "Rng":
        device = torch.device(device)
        return cls((Counters if device.type == "cuda" and _TRITON else Generators)(list(seeds), device))

    def copy(self) -> "Rng":
        """The same streams from their beginning, in a place of their own."""
        return Rng(self._streams.copy())

    def follow(self, other: "Rng") -> None:
        """Begin with the streams of another one, which are put into the place of these."""
        self._streams.follow(other._streams)

    def uniform(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """U[0, 1), shape [B, ...]."""
        return self._filled(shape, dtype, "uniform")

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """N(0, 1), shape [B, ...]."""
        return self._filled(shape, dtype, "normal")

    def integers(self, *shape: int, below: int) -> Tensor:
        """Uniform on {0, ..., below - 1}, shape [B, ...]."""
        return (self.uniform(*shape, dtype=torch.float64) * below).long().clamp(max=below - 1)

    def _filled(self, shape: tuple[int, ...], dtype: torch.dtype, kind: Kind) -> Tensor:
        if shape[0] % self._streams.count:
            raise ValueError(f"{shape[0]} rows cannot be shared equally by {self._streams.count} streams")
        out = torch.empty(shape, dtype=dtype, device=self.device)
        self._streams.fill(out, kind)
        return out


class Repeated(Rng):
    """Numbers that can be drawn once more: `again` begins with the first of them."""

    def __init__(self, rng: Rng, drawn: list[Tensor] | None = None) -> None:
        super().__init__(rng._streams)
        self._drawn = [] if drawn is None else drawn
        self._repeating, self._next = drawn is not None, 0

    def again(self) -> "Repeated":
        return Repeated(self, self._drawn)

    def _filled(self, shape: tuple[int, ...], dtype: torch.dtype, kind: Kind) -> Tensor:
        if not self._repeating:
            self._drawn.append(super()._filled(shape, dtype, kind))
            return self._drawn[-1]
        self._next += 1
        found = self._drawn[self._next - 1]
        assert (found.shape, found.dtype) == (torch.Size(shape), dtype), "other numbers than the first time"
        return found


class Streams(ABC):
    """Streams of random numbers, each for an equal part of the rows."""

    def __init__(self, seeds: Sequence[int], device: torch.device) -> None:
        self.count, self.device = len(seeds), device

    @abstractmethod
    def fill(self, out: Tensor, kind: Kind) -> None:
        """The next numbers of every stream."""

    def copy(self) -> "Streams":
        raise NotImplementedError(f"{type(self).__name__} cannot be copied")

    def follow(self, other: "Streams") -> None:
        raise NotImplementedError(f"{type(self).__name__} cannot follow others")


class Generators(Streams):
    """torch's generators, one call for each."""

    def __init__(self, seeds: Sequence[int], device: torch.device) -> None:
        super().__init__(seeds, device)
        self._generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]

    def fill(self, out: Tensor, kind: Kind) -> None:
        rows = len(out) // self.count
        for index, generator in enumerate(self._generators):
            part = out[index * rows : (index + 1) * rows]
            part.uniform_(generator=generator) if kind == "uniform" else part.normal_(generator=generator)


class Counters(Streams):
    """Numbers that are a function of (seed, how many draws were before, place): one launch for all streams."""

    def __init__(self, seeds: Sequence[int], device: torch.device) -> None:
        super().__init__(seeds, device)
        waiting = torch.tensor(seeds, dtype=torch.int64, device="cpu")
        self._seeds = waiting.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else waiting
        self._draws = 0

    def copy(self) -> "Counters":
        found = Counters.__new__(Counters)
        found.count, found.device, found._seeds, found._draws = self.count, self.device, self._seeds.clone(), 0
        return found

    def follow(self, other: Streams) -> None:
        assert isinstance(other, Counters)
        self._seeds.copy_(other._seeds)
        self._draws = 0

    def fill(self, out: Tensor, kind: Kind) -> None:
        from candi.base import rng_kernel

        count = out.numel() // self.count
        if count:
            with torch.cuda.device_of(out):
                blocks = math.ceil(count / _BLOCK)  # all on the first axis of the grid: others end at 65,535
                rng_kernel.fill[(self.count * blocks,)](
                    out, self._seeds, self._draws, count, blocks, KIND=_KINDS[kind, out.dtype], BLOCK=_BLOCK
                )
        self._draws += 1
