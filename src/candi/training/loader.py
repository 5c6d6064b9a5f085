"""Each process's part of every batch. Row i of a step is the same row, with the same time and noise, on any device."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from candi.base.rng import Rng, fold_in
from candi.base.types import Labels, Mask, Tokens
from candi.data.rows import Sequences


@dataclass(frozen=True)
class MicroBatch:
    """Some rows of a global batch of `rows`."""

    x0: Tokens
    row: NDArray[np.int64]  # no sequence: Fabric looks at every item of those
    rows: int
    rng: Rng
    label: Labels | None = None
    given: Mask | None = None  # tokens that stay as they are and are not learned
    learned: float = 1.0  # the fraction that is, of all the data


@dataclass(frozen=True)
class Read:
    """The same before it is on a device, with a seed for each row."""

    x0: NDArray[np.int64]
    row: list[int]
    rows: int
    seeds: list[int]
    label: NDArray[np.int64] | None
    given: NDArray[np.bool_] | None


@dataclass(frozen=True)
class ShardedLoader:
    """Rows rank, rank + world, ... of the global batch, cut into micro-batches the same way: all see all times."""

    sequences: Sequences
    batch_size: int
    micro_batch_size: int
    seed: int
    rank: int
    world: int
    device: torch.device

    def step(self, step: int) -> list[MicroBatch]:
        return [self.placed(part) for part in self.read(step)]

    def read(self, step: int) -> list[Read]:
        """What this process reads for a step."""
        mine = range(self.rank, self.batch_size, self.world)
        parts = len(mine) // self.micro_batch_size
        return [self._part(step, mine[part::parts]) for part in range(parts)]

    def _part(self, step: int, rows: range) -> Read:
        numbers, sequences = step * self.batch_size + np.array(rows), self.sequences
        seeds = [fold_in(self.seed, "train", step, row) for row in rows]
        return Read(
            sequences.windows(numbers), list(rows), self.batch_size, seeds, sequences.labels(numbers),
            sequences.given(numbers),
        )  # fmt: skip

    def placed(self, read: Read) -> MicroBatch:
        """On the device, with the random numbers of its rows."""
        label, given = (None if array is None else _to(array, self.device) for array in (read.label, read.given))
        return MicroBatch(
            _to(read.x0, self.device), np.array(read.row), read.rows, Rng.per_row(read.seeds, self.device), label,
            given, self.sequences.learned,
        )  # fmt: skip

    def validation(self, count: int) -> Iterator[MicroBatch]:
        """The same sequences, times and noise every time, shared among the processes; the last part may be short."""
        sequences, labels = self.sequences.first(count), self.sequences.first_labels(count)
        given = self.sequences.first_given(count)
        mine = range(self.rank, len(sequences), self.world)
        for start in range(0, len(mine), self.micro_batch_size):
            rows = mine[start : start + self.micro_batch_size]
            seeds = [fold_in(self.seed, "validation", row) for row in rows]
            label = None if labels is None else labels[list(rows)]
            marks = None if given is None else given[list(rows)]
            yield self.placed(Read(sequences[list(rows)], list(rows), len(sequences), seeds, label, marks))


def _to(array: NDArray[Any], device: torch.device) -> Tensor:
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
