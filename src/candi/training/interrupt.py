"""SIGTERM and Ctrl-C as a request to finish the step, save and leave."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether somebody asked to stop."""

    asked = False


@contextmanager
def graceful() -> Iterator[Interrupt]:
    """Inside the block the two signals only set `asked`."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def ask(number: int, frame: FrameType | None) -> None:
        interrupt.asked = True

    earlier = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupt
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
