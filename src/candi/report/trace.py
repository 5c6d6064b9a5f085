"""The page of a trace: one file that opens from disk, with a slider over the steps of one or two walks."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from candi.data.tokenizer import Tokenizer
from candi.report.page import write_filled
from candi.sampling.trace import Moment

_NONE = 65_535  # no token, no rank
_FULL = 65_535  # a share of 1


@dataclass(frozen=True)
class Panel:
    """One walk and what it is called."""

    title: str
    about: str
    moments: Sequence[Moment]
    tokenizer: Tokenizer


def write_page(path: Path, panels: Sequence[Panel]) -> None:
    write_filled(path, "trace.html", [_panel(panel) for panel in panels])


def _panel(panel: Panel) -> dict[str, Any]:
    """Columns of all steps one after another, as bytes: 256 tokens and 64 steps stay below half a megabyte."""
    moments = panel.moments
    count = max(0 if one.guess is None else one.guess.tokens.shape[1] for one in moments)
    shown = np.stack([one.tokens.numpy() for one in moments])
    top = np.stack([_guessed(one, "tokens", count, -1) for one in moments])
    used = sorted({int(token) for table in (shown, top) for token in np.unique(table)} - {-1})
    place = {token: index for index, token in enumerate(used)}
    size = max(2, panel.tokenizer.vocab_size)
    entropy = np.stack([_guessed(one, "entropy", None, 0.0) for one in moments]) / np.log(size)
    return {
        "title": panel.title,
        "about": panel.about,
        "length": shown.shape[1],
        "alternatives": count,
        "vocabulary": [_spelled(panel.tokenizer, token) for token in used],
        "size": size,
        "t": [round(one.t, 4) for one in moments],
        "sigma": [None if one.sigma is None else round(one.sigma, 4) for one in moments],
        "clean": [round(one.clean, 4) for one in moments],
        "kinds": _bytes(np.stack([one.kinds.numpy() for one in moments]), np.uint8),
        "shown": _bytes(_indexed(shown, place), np.uint16),
        "tokens": _bytes(_indexed(top, place), np.uint16),
        "probabilities": _bytes(
            np.stack([_guessed(o, "probabilities", count, 0.0) for o in moments]) * _FULL, np.uint16
        ),
        "entropy": _bytes(entropy.clip(0, 1) * _FULL, np.uint16),
        "rank": _bytes(np.stack([_ranks(one) for one in moments]), np.uint16),
    }


def _spelled(tokenizer: Tokenizer, token: int) -> str:
    """Text; tokens that hold a row together are no text and get a sign."""
    if tokenizer.pad is None:
        return tokenizer.pieces([token])[0]
    signs = {tokenizer.begin: "⊢", tokenizer.end: "⊣", tokenizer.pad: "·"}
    return signs.get(token) or tokenizer.pieces([token])[0]


def _guessed(moment: Moment, name: str, count: int | None, nothing: float) -> Any:
    length = len(moment.tokens)
    if moment.guess is None:
        return np.full((length,) if count is None else (length, count), nothing)
    return vars(moment.guess)[name].numpy()


def _ranks(moment: Moment) -> Any:
    if moment.guess is None or moment.guess.rank is None:
        return np.full(len(moment.tokens), _NONE)
    return moment.guess.rank.numpy().clip(max=_NONE - 1)


def _indexed(tokens: Any, place: dict[int, int]) -> Any:
    return np.array([place.get(int(token), _NONE) for token in tokens.ravel()])


def _bytes(values: Any, dtype: type) -> str:
    return base64.b64encode(np.asarray(values).round().astype(dtype).tobytes()).decode()
