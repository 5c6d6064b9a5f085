"""Rows of the next steps, read while the device is busy with this one."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
_AHEAD = 2  # steps
_STALL = 0.02  # seconds of waiting that a device notices


class Prefetched(Generic[T]):
    """make(step) for one step after another: the next ones are made in a thread. `stalled` is how long was waited.

    What is made is a function of the step alone, so it does not matter when, and a step may be asked for again.
    """

    def __init__(self, make: Callable[[int], T]) -> None:
        self._make = make
        self._thread = ThreadPoolExecutor(1, "prefetch")
        self._coming: dict[int, Future[T]] = {}
        self.stalled = 0.0

    def __call__(self, step: int) -> T:
        ahead = self._coming.pop(step, None)
        for other in [one for one in self._coming if not step < one <= step + _AHEAD]:
            self._coming.pop(other).cancel()
        begun = time.monotonic()
        found = self._make(step) if ahead is None else ahead.result()
        waited = time.monotonic() - begun
        self.stalled += waited if ahead is not None and waited > _STALL else 0.0
        for later in range(step + 1, step + 1 + _AHEAD):
            if later not in self._coming:
                self._coming[later] = self._thread.submit(self._make, later)
        return found

    def close(self) -> None:
        """Make nothing more."""
        self._thread.shutdown(wait=True, cancel_futures=True)
