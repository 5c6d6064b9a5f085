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
        mine = range(self.rank, self.batch_size, self.world)
        parts = len(mine) // self.micro_batch_size
        return [self._part(step, mine[part::parts]) for part in range(parts)]

    def _part(self, step: int, rows: range) -> MicroBatch:
        numbers, sequences = step * self.batch_size + np.array(rows), self.sequences
        seeds = [fold_in(self.seed, "train", step, row) for row in rows]
        return self._micro(
            sequences.windows(numbers), list(rows), seeds, self.batch_size, sequences.labels(numbers),
            sequences.given(numbers),
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
            yield self._micro(sequences[list(rows)], list(rows), seeds, len(sequences), label, marks)

    def _micro(
        self, x0: NDArray[np.int64], rows: list[int], seeds: list[int], batch: int, labels: NDArray[np.int64] | None,
        given: NDArray[np.bool_] | None,
    ) -> MicroBatch:  # fmt: skip
        label, marks = (None if array is None else _to(array, self.device) for array in (labels, given))
        return MicroBatch(
            _to(x0, self.device), np.array(rows), batch, Rng.per_row(seeds, self.device), label, marks,
            self.sequences.learned,
        )  # fmt: skip


def _to(array: NDArray[Any], device: torch.device) -> Tensor:
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
