"""The open positions of a batch as a list of rows, and back."""

import math
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from candi.base.types import Mask


class OpenPositions:
    """Row i of the list is the i-th open position, in reading order.

    With a `capacity` the list has that many rows whatever is open, the rest being idle: shapes are then the same in
    every training step, and nothing waits for the device to count. The device asserts that the capacity suffices.
    """

    def __init__(self, open: Mask, capacity: int | None = None) -> None:
        self.open = open
        self.capacity = capacity if open.is_cuda else None  # a CPU knows the number at once

    def __len__(self) -> int:
        """Rows of the list."""
        return len(self._index)

    def prefetch_count(self) -> "OpenPositions":
        """Start copying the count, so that reading it need not wait for a network that is launched later."""
        _ = self._total
        return self

    @cached_property
    def _count(self) -> Tensor:
        """Open positions up to and including each."""
        return self.open.flatten().cumsum(0)

    @cached_property
    def _total(self) -> "Tensor | _PendingCount":
        return _PendingCount(self._count[-1]) if self.open.is_cuda else self._count[-1]

    @cached_property
    def _index(self) -> Tensor:
        """Where row i lies: the first position by which i + 1 are open."""
        count = self._count
        if self.capacity is None:
            rows = int(self._total)
        else:
            rows = min(self.capacity, len(count))
            torch._assert_async(count[-1] <= rows)
        numbers = torch.arange(1, rows + 1, device=count.device)
        return torch.searchsorted(count, numbers).clamp(max=len(count) - 1)

    @cached_property
    def _busy(self) -> Tensor:
        """Rows that stand for a position."""
        return torch.arange(len(self._index), device=self.open.device) < self._count[-1]

    def gather(self, values: Shaped[Tensor, "B L ..."]) -> Shaped[Tensor, "N ..."]:
        """The rows of the open positions."""
        if values.stride(1) == 0 and values.shape[1] > 1:  # one row for all positions: it is not copied to each
            return values[:, 0].index_select(0, self._index // values.shape[1])
        gathered: Tensor = _Gather.apply(values.flatten(0, 1), self)
        return gathered

    def scatter(self, rows: Shaped[Tensor, "N ..."]) -> Shaped[Tensor, "B L ..."]:
        """Rows at their positions, 0 elsewhere."""
        scattered: Tensor = _Scatter.apply(rows, self)
        return scattered.unflatten(0, self.open.shape)

    def _gather(self, values: Tensor, only_busy: bool) -> Tensor:
        picked = values.index_select(0, self._index)
        return _masked(picked, self._busy) if only_busy and self.capacity is not None else picked

    def _scatter(self, rows: Tensor) -> Tensor:
        open = self.open.flatten()
        if not len(rows):
            return rows.new_zeros(len(open), *rows.shape[1:])
        return _masked(rows.index_select(0, (self._count - 1).clamp(0, len(rows) - 1)), open)


class _PendingCount:
    """A number on its way from the GPU: reading it waits for what was launched before it, not for what came after."""

    def __init__(self, number: Tensor) -> None:
        self.copy = number.to("cpu", non_blocking=True)
        self.arrived = torch.cuda.Event()
        self.arrived.record()

    def __int__(self) -> int:
        self.arrived.synchronize()
        return int(self.copy)


def capacity_for(fraction: Float[Tensor, "B"], length: int) -> int:
    """Rows enough for the open positions of sequences in which each is open with probability `fraction`.

    Bernstein: more than mean + sqrt(2 variance c) + c/3 of them have probability exp(-c); c = 32 is 1e-14.
    """
    fraction = fraction.double().clamp(0, 1)
    mean, variance, c = length * float(fraction.sum()), length * float((fraction * (1 - fraction)).sum()), 32.0
    most = mean + math.sqrt(2 * variance * c) + c / 3
    return min(length * len(fraction), 64 * math.ceil(most / 64))


def _masked(values: Tensor, mask: Tensor) -> Tensor:
    return values.masked_fill(~mask.view(-1, *[1] * (values.dim() - 1)), 0)


# Each is the other's gradient. Both only read, by an index without repetitions: repeatable, and no atomic additions.


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, positions: OpenPositions) -> Tensor:
        ctx.positions = positions
        return positions._gather(values, only_busy=False)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        return ctx.positions._scatter(upstream), None


class _Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, positions: OpenPositions) -> Tensor:
        ctx.positions = positions
        return positions._scatter(rows)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        return ctx.positions._gather(upstream, only_busy=True), None
