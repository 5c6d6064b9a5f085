"""The open positions of a batch as a list of rows, and back."""

import math
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from candi.types import Mask


class Places:
    """Row i of the list is the i-th open position, in reading order.

    With `room`, the list has that many rows whatever is open, the rest being idle: shapes are then the same in every
    training step, and nobody waits for the device to count. Something that is not true is never said for it: were more
    open than there is room for, the device would refuse to go on.
    """

    def __init__(self, open: Mask, room: int | None = None) -> None:
        self.open = open
        self.room = room if open.is_cuda else None  # a CPU knows the number at once

    def __len__(self) -> int:
        """Rows of the list."""
        return len(self._index)

    def counted(self) -> "Places":
        """Counted from now on, so that whoever asks after a network was launched need not wait for the network."""
        _ = self._total
        return self

    @cached_property
    def _count(self) -> Tensor:
        """Open positions up to and including each."""
        return self.open.flatten().cumsum(0)

    @cached_property
    def _total(self) -> "Tensor | _Arriving":
        return _Arriving(self._count[-1]) if self.open.is_cuda else self._count[-1]

    @cached_property
    def _index(self) -> Tensor:
        """Where row i lies: the first position by which i + 1 are open."""
        count = self._count
        if self.room is None:
            rows = int(self._total)
        else:
            rows = min(self.room, len(count))
            torch._assert_async(count[-1] <= rows)
        numbers = torch.arange(1, rows + 1, device=count.device)
        return torch.searchsorted(count, numbers).clamp(max=len(count) - 1)

    @cached_property
    def _busy(self) -> Tensor:
        """Rows that stand for a position."""
        return torch.arange(len(self._index), device=self.open.device) < self._count[-1]

    def take(self, values: Shaped[Tensor, "B L ..."]) -> Shaped[Tensor, "N ..."]:
        """The rows of the open positions."""
        taken: Tensor = _Take.apply(values.flatten(0, 1), self)
        return taken

    def spread(self, rows: Shaped[Tensor, "N ..."]) -> Shaped[Tensor, "B L ..."]:
        """Rows in their places, 0 elsewhere."""
        placed: Tensor = _Spread.apply(rows, self)
        return placed.unflatten(0, self.open.shape)

    def _pick(self, values: Tensor, only_busy: bool) -> Tensor:
        picked = values.index_select(0, self._index)
        return _masked(picked, self._busy) if only_busy and self.room is not None else picked

    def _place(self, rows: Tensor) -> Tensor:
        open = self.open.flatten()
        if not len(rows):
            return rows.new_zeros(len(open), *rows.shape[1:])
        return _masked(rows.index_select(0, (self._count - 1).clamp(0, len(rows) - 1)), open)


class _Arriving:
    """A number on its way from the GPU: to read it waits for what was launched before, not for what came after."""

    def __init__(self, number: Tensor) -> None:
        self.copy = number.to("cpu", non_blocking=True)
        self.arrived = torch.cuda.Event()
        self.arrived.record()

    def __int__(self) -> int:
        self.arrived.synchronize()
        return int(self.copy)


def room_for(share: Float[Tensor, "B"], length: int) -> int:
    """Room for the open positions of rows in which each is open with chance `share`, by itself.

    Bernstein: more than mean + sqrt(2 variance c) + c/3 of them have a chance of exp(-c); c = 32 is 1e-14.
    """
    share = share.double().clamp(0, 1)
    mean, variance, c = length * float(share.sum()), length * float((share * (1 - share)).sum()), 32.0
    most = mean + math.sqrt(2 * variance * c) + c / 3
    return min(length * len(share), 64 * math.ceil(most / 64))


def _masked(values: Tensor, mask: Tensor) -> Tensor:
    return values.masked_fill(~mask.view(-1, *[1] * (values.dim() - 1)), 0)


# Each is the other's gradient. Both only read, by an index without repetitions: repeatable, and no atomic additions.


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, places: Places) -> Tensor:
        ctx.places = places
        return places._pick(values, only_busy=False)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        return ctx.places._place(upstream), None


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Places) -> Tensor:
        ctx.places = places
        return places._place(rows)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        return ctx.places._pick(upstream, only_busy=True), None
