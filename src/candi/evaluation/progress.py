"""What a person sees of a sweep: a live bar in a terminal, a line a point in a log."""

import time
from datetime import timedelta
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class SweepProgress:
    """Counts evaluations of the network, because a point of 64 steps takes eight times one of 8."""

    def __init__(self, points: int, evaluations: int) -> None:
        self.console = Console(stderr=True, highlight=False)
        self._points, self._total, self._done = points, evaluations, 0
        self._start = time.monotonic()
        self._live = self.console.is_terminal
        self._bar = Progress(
            TextColumn("{task.fields[count]}"),
            BarColumn(bar_width=None),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self._live,
        )
        self._task = self._bar.add_task("", total=max(evaluations, 1), count="")

    def __enter__(self) -> "SweepProgress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._bar.update(self._task, description="", count=f"{self._points}/{self._points} points")
        self._bar.stop()

    def begin(self, index: int, label: str) -> None:
        count = f"{index}/{self._points} points"
        self._bar.update(self._task, description=label, count=count)
        if not self._live:
            self.console.print(f"{count}  {label}  {self._left()}", markup=False, soft_wrap=True)

    def advance(self, evaluations: int) -> None:
        self.reach(self._done + evaluations)

    def reach(self, evaluations: int) -> None:
        """So many in all, whoever made them."""
        self._done = evaluations
        self._bar.update(self._task, completed=self._done)

    def _left(self) -> str:
        if not self._done:
            return ""
        seconds = (time.monotonic() - self._start) / self._done * (self._total - self._done)
        return f"{timedelta(seconds=round(seconds))} left"
