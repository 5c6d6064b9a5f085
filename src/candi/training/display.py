"""What a person sees while a run goes on: a live bar in a terminal, a line now and then in a log."""

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LINES = 15.0


class Display:
    """Progress on standard error. A silent one does nothing: for all processes but the first."""

    def __init__(self, total: int, silent: bool) -> None:
        self.console = Console(stderr=True, quiet=silent, highlight=False)
        self._live = self.console.is_terminal and not silent
        self._total, self._last_line = total, time.monotonic()
        self._start, self._done_at_start = time.monotonic(), 0
        self._shown: dict[str, float] = {}
        self._bar = Progress(
            TextColumn("[bold]training"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self._live,
        )
        self._task = self._bar.add_task("training", total=total, numbers="", visible=False)

    def __enter__(self) -> "Display":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, done: int) -> None:
        self._start, self._done_at_start = time.monotonic(), done
        self._bar.reset(self._task, completed=done, visible=True)

    def say(self, text: str) -> None:
        self.console.print(text, markup=False, soft_wrap=True)

    def advance(self, step: int) -> None:
        self._bar.update(self._task, completed=step)

    def show(self, step: int, values: dict[str, float]) -> None:
        self._shown |= values
        self._bar.update(self._task, completed=step, numbers=self._numbers())
        now = time.monotonic()
        if not self._live and (now - self._last_line > _SECONDS_BETWEEN_LINES or step == self._total):
            self._last_line = now
            pace = (now - self._start) / max(step - self._done_at_start, 1)
            left = time.strftime("%H:%M:%S", time.gmtime(pace * (self._total - step)))
            self.say(f"step {step}/{self._total}  {self._numbers()}  {left} left")

    def _numbers(self) -> str:
        parts = []
        if "loss" in self._shown:
            parts.append(f"loss {self._shown['loss']:.3f}")
        if "valid_loss" in self._shown:
            parts.append(f"valid {self._shown['valid_loss']:.3f}")
        if "tokens_per_second" in self._shown:
            parts.append(f"{_short(self._shown['tokens_per_second'])} tokens/s")
        return "  ".join(parts)


def _short(number: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return f"{number:.0f}"
