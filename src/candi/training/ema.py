"""Averaged weights."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


class EMA:
    """shadow <- d shadow + (1 - d) weight; d = min(decay, (1 + n)/(10 + n)), so that the first steps soon fade."""

    def __init__(self, parameters: Sequence[Tensor], decay: float) -> None:
        self.parameters, self.decay = list(parameters), decay
        self.shadow = [parameter.detach().clone() for parameter in self.parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.shadow, [p.detach() for p in self.parameters], 1 - decay)

    @contextmanager
    def applied(self, written: Callable[[], None]) -> Iterator[None]:
        """The model holds the averaged weights inside the block, its own after it; `written` is called at both ends."""
        own = [parameter.detach().clone() for parameter in self.parameters]
        self._write(self.shadow)
        written()
        try:
            yield
        finally:
            self._write(own)
            written()

    @torch.no_grad()
    def _write(self, values: Sequence[Tensor]) -> None:
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.copy_(value)
