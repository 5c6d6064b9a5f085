"""The page of a trace: one file that opens from disk, with a slider over the steps of one or two trajectories."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from candi.data.tokenizer import Tokenizer
from candi.model.trace import TraceStep
from candi.views.page import write_filled

_NONE = 65_535  # no token, no rank
_FULL = 65_535  # a share of 1


@dataclass(frozen=True)
class Panel:
    """One trajectory and its title."""

    title: str
    about: str
    steps: Sequence[TraceStep]
    tokenizer: Tokenizer


def write_page(path: Path, panels: Sequence[Panel]) -> None:
    write_filled(path, "trace.html", [_panel(panel) for panel in panels])


def _panel(panel: Panel) -> dict[str, Any]:
    """Columns of all steps one after another, as bytes: 256 tokens and 64 steps stay below half a megabyte."""
    steps = panel.steps
    count = max(0 if one.top is None else one.top.tokens.shape[1] for one in steps)
    shown = np.stack([one.tokens.numpy() for one in steps])
    top = np.stack([_predicted(one, "tokens", count, -1) for one in steps])
    used = sorted({int(token) for table in (shown, top) for token in np.unique(table)} - {-1})
    place = {token: index for index, token in enumerate(used)}
    size = max(2, panel.tokenizer.vocab_size)
    entropy = np.stack([_predicted(one, "entropy", None, 0.0) for one in steps]) / np.log(size)
    return {
        "title": panel.title,
        "about": panel.about,
        "length": shown.shape[1],
        "alternatives": count,
        "vocabulary": [_spelled(panel.tokenizer, token) for token in used],
        "size": size,
        "t": [round(one.t, 4) for one in steps],
        "sigma": [None if one.sigma is None else round(one.sigma, 4) for one in steps],
        "clean": [round(one.clean, 4) for one in steps],
        "kinds": _bytes(np.stack([one.kinds.numpy() for one in steps]), np.uint8),
        "shown": _bytes(_indexed(shown, place), np.uint16),
        "tokens": _bytes(_indexed(top, place), np.uint16),
        "probabilities": _bytes(
            np.stack([_predicted(o, "probabilities", count, 0.0) for o in steps]) * _FULL, np.uint16
        ),
        "entropy": _bytes(entropy.clip(0, 1) * _FULL, np.uint16),
        "rank": _bytes(np.stack([_ranks(one) for one in steps]), np.uint16),
    }


def _spelled(tokenizer: Tokenizer, token: int) -> str:
    """Text; tokens that hold a row together are no text and get a sign."""
    if not tokenizer.framed:
        return tokenizer.pieces([token])[0]
    signs = {tokenizer.begin: "⊢", tokenizer.end: "⊣", tokenizer.pad: "·"}
    return signs.get(token) or tokenizer.pieces([token])[0]


def _predicted(step: TraceStep, name: str, count: int | None, nothing: float) -> Any:
    length = len(step.tokens)
    if step.top is None:
        return np.full((length,) if count is None else (length, count), nothing)
    return vars(step.top)[name].numpy()


def _ranks(step: TraceStep) -> Any:
    if step.top is None or step.top.rank is None:
        return np.full(len(step.tokens), _NONE)
    return step.top.rank.numpy().clip(max=_NONE - 1)


def _indexed(tokens: Any, place: dict[int, int]) -> Any:
    return np.array([place.get(int(token), _NONE) for token in tokens.ravel()])


def _bytes(values: Any, dtype: type) -> str:
    return base64.b64encode(np.asarray(values).round().astype(dtype).tobytes()).decode()
