"""Denoising as it happens, in the terminal."""

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from candi.base.terminal import visible
from candi.model.model import Model
from candi.model.trace import PositionKind
from candi.views.frames import Frame, frames, lines

_STYLES = {PositionKind.GIVEN: "bold blue", PositionKind.CLEAN: "default", PositionKind.REVEALED: "bold black on green"}
# noisy positions by how sure the network is of its first choice there: unsure, undecided, nearly sure
_NOISY = ((0.3, "dim magenta"), (0.7, "magenta"), (float("inf"), "bold magenta"))
_PAUSE = 0.12  # seconds a frame stays at least: small models are faster than the eye


def watch(model: Model, n: int, options: Mapping[str, Any], console: Console | None = None) -> None:
    """Play `n` trajectories one after another: live in a terminal, one plain block a step elsewhere."""
    console = console or Console(highlight=False)
    for number in range(n):
        if console.is_terminal:
            with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
                for frame in frames(model, options, number):
                    live.update(styled(frame, console.width), refresh=True)
                    time.sleep(_PAUSE)
            continue
        for frame in frames(model, options, number):
            shown = visible("".join(frame.pieces))
            print(f"step {frame.step}/{frame.steps}, {frame.known:.0%} clean\n{shown}\n", flush=True)


def styled(frame: Frame, width: int) -> Group:
    """How far it is, what the colours mean, and the text, each position in the colour of what it is."""
    body = Text()
    for line in lines(frame, width):
        for text, kind, sure in line:
            body.append(visible(text), _style(kind, sure))
        body.append("\n")
    bar = "━" * round(frame.known * 24)
    header = Text.assemble(
        (f"step {frame.step:>3}/{frame.steps}  ", "bold"),
        (bar, "green"),
        ("━" * (24 - len(bar)), "dim"),
        f"  {frame.known:.0%} clean",
    )
    legend = Text.assemble(
        ("given", _STYLES[PositionKind.GIVEN]),
        "  ",
        ("clean", _STYLES[PositionKind.CLEAN]),
        "  ",
        (" just revealed ", _STYLES[PositionKind.REVEALED]),
        "  noisy: ",
        ("unsure", _NOISY[0][1]),
        " ",
        ("undecided", _NOISY[1][1]),
        " ",
        ("nearly sure", _NOISY[2][1]),
    )
    return Group(header, legend, Text(), body)


def _style(kind: int, sure: float) -> str:
    if kind != PositionKind.NOISY:
        return _STYLES[PositionKind(kind)]
    return next(style for limit, style in _NOISY if sure < limit)
