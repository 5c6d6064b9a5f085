"""What a person sees while a run is trained."""

import time

from rich.progress import MofNCompleteColumn, TextColumn

from candi.base.progress import ProgressBar, text_column

_SECONDS_BETWEEN_LINES = 15.0


class Display(ProgressBar):
    """Steps, losses and pace."""

    def __init__(self, total: int, silent: bool) -> None:
        super().__init__(total, [TextColumn("[bold]training")], [MofNCompleteColumn(), text_column("text")], silent)
        self._last_line = time.monotonic()
        self._shown: dict[str, float] = {}

    def show(self, step: int, values: dict[str, float]) -> None:
        self._shown |= values
        self.update(step, text=self._numbers())
        now = time.monotonic()
        if not self.live and (now - self._last_line > _SECONDS_BETWEEN_LINES or step == self.total):
            self._last_line = now
            self.say(f"step {step}/{self.total}  {self._numbers()}  {self.left()}")

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
