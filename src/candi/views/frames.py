"""A trajectory as text: what stands at each position, step by step."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from candi.model.model import Model
from candi.model.trace import PositionKind, TraceStep, trace


@dataclass(frozen=True)
class Frame:
    """One state of one sequence: each position's text, what it is, and how sure the network is where it is noisy."""

    step: int
    steps: int
    pieces: list[str]
    kinds: list[int]
    confidence: list[float]
    text: str = ""  # of the last state: characters may be more than one token each

    @property
    def known(self) -> float:
        return sum(kind != PositionKind.NOISY for kind in self.kinds) / len(self.kinds)


def frames(model: Model, options: Mapping[str, Any], number: int) -> Iterator[Frame]:
    given = model.given(options)
    how = {name: options[name] for name in ("stop", "ends") if name in options}
    for step in trace(model, options, number):
        sure = [0.0] * len(step.kinds) if step.top is None else step.top.probabilities[:, 0].tolist()
        text = model.text(step.tokens.tolist(), given, **how) if step.last else ""
        yield Frame(step.step, step.steps, pieces(model, step), step.kinds.tolist(), sure, text)


def pieces(model: Model, step: TraceStep) -> list[str]:
    """The text of each position; a dot where a state of this method looks like nothing yet."""
    texts = model.tokenizer.pieces(step.tokens.tolist(), model.rows)
    return [text if token >= 0 else "·" for text, token in zip(texts, step.tokens.tolist(), strict=True)]


def lines(frame: Frame, width: int) -> Iterator[list[tuple[str, int, float]]]:
    """Characters with what they are. Noise has no line breaks, and lines break at the edge, not between words: the
    text keeps its shape while the noise around it clears."""
    line: list[tuple[str, int, float]] = []
    column = 0
    for piece, kind, sure in zip(frame.pieces, frame.kinds, frame.confidence, strict=True):
        for character in piece.replace("\n", " ") if kind == PositionKind.NOISY else piece:
            if character == "\n" or column + cell_len(character) > width:
                yield line
                line, column = [], 0
            if character == "\n":
                continue
            if not cell_len(character) and line:  # a mark belongs to the character before it
                line[-1] = (line[-1][0] + character, *line[-1][1:])
                continue
            line.append((character, kind, sure))
            column += cell_len(character)
    yield line
