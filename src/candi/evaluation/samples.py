"""The samples of one cell of a sweep, and their file."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from candi.base.errors import UserError
from candi.base.files import need_file, write_text
from candi.diffusion.guidance import Guidance
from candi.evaluation.diversity import distinct, entropy
from candi.evaluation.progress import SweepProgress
from candi.evaluation.provenance import Cell, Provenance
from candi.model.model import Model
from candi.nets.config import ModelConfig


@dataclass(frozen=True)
class Samples:
    """Texts with their provenance, and what only the tokens tell."""

    provenance: Provenance
    texts: Sequence[str]
    entropy: Sequence[float]
    distinct_2: float
    seconds: float | None = None  # that one of them took
    shared: int = 1  # commands that used the device meanwhile

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"provenance": self.provenance.to_json()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Samples":
        made = values.pop("provenance") if "provenance" in values else values.pop("card")  # as 0.1 called it
        return cls(Provenance.from_json(made), **values)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(self.to_json(), ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> "Samples":
        return cls.from_json(read_record(path))


def read_record(path: Path) -> dict[str, Any]:
    """A file of a sweep."""
    need_file(path)
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, RecursionError):
        raise UserError(f"{path} is damaged; delete it and run the same command again, which makes it anew.") from None


def make(
    model: Model, cell: Cell, batch_size: int, compile: bool = False, guide: Guidance | None = None,
    progress: SweepProgress | None = None, shared: int = 1,
) -> Samples:  # fmt: skip
    """The samples of a cell."""
    start, rows, blocks = time.monotonic(), [], -(-cell.length // (model.config.block or cell.length))
    for first in range(0, cell.n, batch_size):
        count = min(batch_size, cell.n - first)
        options: dict[str, Any] = {**cell.options, **_label(cell, model.config)}
        trajectory = model.trajectory(
            count, length=cell.length, steps=cell.steps, temperature=cell.temperature, top_k=cell.top_k,
            top_p=cell.top_p, seed=cell.seed, first=first, precision=cell.precision, compile=compile, guide=guide,
            ends=model.rows, **options,
        )  # fmt: skip
        for step, one in enumerate(trajectory):  # noqa: B007 - the last one counts
            # the first state is the noise itself; of blocks each takes all steps
            if progress is not None and step and step % blocks == 0:
                progress.advance(count)
        rows.append(model.denoiser.method.decode(one.state).cpu())
    tokens = torch.cat(rows)
    listed = tokens.tolist()
    return Samples(
        Provenance.of(cell, model, batch_size),
        [model.tokenizer.decode(row, model.rows) for row in listed],
        [round(value, 6) for value in entropy(tokens).tolist()],
        distinct(listed, 2),
        round((time.monotonic() - start) / cell.n, 6),
        shared,
    )


def _label(cell: Cell, config: ModelConfig) -> dict[str, Any]:
    """The label that a run which was trained with labels is conditioned on."""
    if cell.guidance is None or cell.guidance.classifier is not None:
        return {}
    target = cell.guidance.target
    if isinstance(target, int) and len(config.labels) == 1:  # by its name: a class may be called by another number
        target = config.labels[0].classes[target]
    return {"label": target, "label_weight": cell.guidance.weight}
