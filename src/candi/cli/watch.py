"""Denoising as it happens, in the terminal."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from candi.model import Model
from candi.state import State

GIVEN, CLEAN, REVEALED, NOISY = "given", "clean", "revealed", "noisy"
_STYLES = {GIVEN: "bold blue", CLEAN: "default", REVEALED: "bold black on green", NOISY: "magenta"}
_PAUSE = 0.12  # seconds a frame stays at least: small models are faster than the eye


@dataclass(frozen=True)
class Frame:
    """One state of one sequence: each position's text and what it is."""

    step: int
    steps: int
    pieces: list[str]
    kinds: list[str]

    @property
    def known(self) -> float:
        return sum(kind != NOISY for kind in self.kinds) / len(self.kinds)


def frames(model: Model, options: Mapping[str, Any], number: int) -> Iterator[Frame]:
    """The walk of one sample, with the positions revealed by the latest step told apart."""
    given: list[bool] = []
    before: list[bool] = []
    for step, state in enumerate(model.walk(1, first=number, **options)):
        known: list[bool] = state.known[0].tolist()
        given = given or known
        before = before or known
        marks = zip(given, before, known, strict=True)
        kinds = [NOISY if not k else GIVEN if g else CLEAN if b else REVEALED for g, b, k in marks]
        steps = len(model.denoiser.method.times(options["steps"], len(known))) - 1
        yield Frame(step, steps, _pieces(model, state), kinds)
        before = known


def watch(model: Model, n: int, options: Mapping[str, Any], console: Console | None = None) -> None:
    """Play `n` walks one after another: live in a terminal, one plain block a step elsewhere."""
    console = console or Console(highlight=False)
    for number in range(n):
        if console.is_terminal:
            with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
                for frame in frames(model, options, number):
                    live.update(styled(frame, console.width), refresh=True)
                    time.sleep(_PAUSE)
            continue
        for frame in frames(model, options, number):
            shown = "".join(frame.pieces)
            print(f"step {frame.step}/{frame.steps}, {frame.known:.0%} clean\n{shown}\n", flush=True)


def _pieces(model: Model, state: State) -> list[str]:
    """The text of each position; a dot where a state of this method looks like nothing yet."""
    method = model.denoiser.method
    texts = model.tokenizer.pieces(method.decode(state)[0].tolist())
    return [text if known or method.shows else "·" for text, known in zip(texts, state.known[0].tolist(), strict=True)]


def styled(frame: Frame, width: int) -> Group:
    """A header and the text, each position in the colour of what it is."""
    body, column = Text(), 0
    for piece, kind in zip(frame.pieces, frame.kinds, strict=True):
        # noise has no line breaks, and lines break at the edge, not between words: the text keeps its shape
        shown = piece.replace("\n", " ") if kind == NOISY else piece
        for character in shown:
            if column + cell_len(character) > width and character != "\n":
                body.append("\n")
                column = 0
            body.append(character, _STYLES[kind])
            column = 0 if character == "\n" else column + cell_len(character)
    bar = "━" * round(frame.known * 24)
    header = Text.assemble(
        (f"step {frame.step:>3}/{frame.steps}  ", "bold"),
        (bar, "green"),
        ("━" * (24 - len(bar)), "dim"),
        f"  {frame.known:.0%} clean   ",
        ("given", _STYLES[GIVEN]),
        "  ",
        ("clean", _STYLES[CLEAN]),
        "  ",
        (" just revealed ", _STYLES[REVEALED]),
        "  ",
        ("noisy", _STYLES[NOISY]),
    )
    return Group(header, Text(), body, Text())
