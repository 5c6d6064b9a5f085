"""What a person sees of a long job: a live bar in a terminal, a line now and then in a log. On standard error."""

import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

Bar = TypeVar("Bar", bound="ProgressBar")


class ProgressBar:
    """`before` and `after` are columns beside the bar. A silent one does nothing: for all processes but the first."""

    def __init__(
        self, total: int, before: Sequence[ProgressColumn], after: Sequence[ProgressColumn], silent: bool = False
    ) -> None:
        self.console = Console(stderr=True, quiet=silent, highlight=False)
        self.live = self.console.is_terminal and not silent
        self.total, self.done = total, 0
        self._start, self._done_at_start = time.monotonic(), 0
        columns = (*before, BarColumn(bar_width=None), *after, TimeRemainingColumn())
        self._bar = Progress(*columns, console=self.console, disable=not self.live)
        self._task = self._bar.add_task("", total=max(total, 1), text="", count="", visible=False)

    def __enter__(self: Bar) -> Bar:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def start_at(self, done: int) -> None:
        """Begin to count, from what was done before."""
        self._start, self._done_at_start, self.done = time.monotonic(), done, done
        self._bar.reset(self._task, completed=done, visible=True)

    def update(self, done: int | None = None, **fields: str) -> None:
        """How much is done, and what stands beside the bar: `text` and `count`."""
        self.done = self.done if done is None else done
        self._bar.update(self._task, completed=self.done, **fields)  # type: ignore[arg-type]

    def say(self, text: str) -> None:
        self.console.print(text, markup=False, soft_wrap=True)

    def left(self) -> str:
        """The time that is left at this pace."""
        pace = (time.monotonic() - self._start) / max(self.done - self._done_at_start, 1)
        return f"{timedelta(seconds=round(pace * (self.total - self.done)))} left"


def say(text: str) -> None:
    """A line on what begins now and may take a while."""
    print(text, file=sys.stderr, flush=True)


def text_column(name: str, style: str = "") -> TextColumn:
    """A field of the bar."""
    return TextColumn(f"{{task.fields[{name}]}}", style=style or "none")
