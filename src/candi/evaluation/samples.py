"""The samples of one point, and their file."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from candi.errors import UserError
from candi.evaluation.card import Point, card
from candi.evaluation.diversity import distinct, entropy
from candi.files import write_text
from candi.guidance import Guidance
from candi.model import Model


@dataclass(frozen=True)
class Samples:
    """Texts with their card, and what only the tokens tell."""

    card: dict[str, Any]
    texts: Sequence[str]
    entropy: Sequence[float]
    distinct_2: float
    seconds: float | None = None  # that one of them took
    shared: int = 1  # commands that used the device meanwhile

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(vars(self), ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> "Samples":
        return cls(**read_record(path))


def read_record(path: Path) -> dict[str, Any]:
    """A file of a sweep."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except ValueError:
        raise UserError(f"{path} is damaged; delete it and run the same command again, which makes it anew.") from None


def make(
    model: Model, point: Point, batch: int, compile: bool = False, guide: Guidance | None = None,
    advance: Callable[[int], None] = lambda evaluations: None, shared: int = 1,
) -> Samples:  # fmt: skip
    """`advance` is told of evaluations of the network, each for one sample."""
    start, rows = time.monotonic(), []
    for first in range(0, point.n, batch):
        count = min(batch, point.n - first)
        options: dict[str, Any] = {**point.options, **_asked(point)}
        states = model.walk(
            count, length=point.length, steps=point.steps, temperature=point.temperature, top_k=point.top_k,
            nucleus=point.nucleus, seed=point.seed, first=first, precision=point.precision, compile=compile,
            guide=guide,
            **options,
        )  # fmt: skip
        state = next(states)  # the noise itself
        while (later := next(states, None)) is not None:
            state = later
            advance(count)
        rows.append(model.denoiser.method.decode(state).cpu())
    tokens = torch.cat(rows)
    listed = tokens.tolist()
    return Samples(
        card(point, model, batch),
        [model.tokenizer.decode(row) for row in listed],
        [round(value, 6) for value in entropy(tokens).tolist()],
        distinct(listed, 2),
        round((time.monotonic() - start) / point.n, 6),
        shared,
    )


def _asked(point: Point) -> dict[str, Any]:
    """What a run that knows labels is asked for."""
    if point.guidance is None or point.guidance["classifier"] is not None:
        return {}
    return {"label": point.guidance["target"], "label_weight": point.guidance["weight"]}
