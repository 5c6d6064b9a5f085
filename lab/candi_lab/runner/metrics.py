"""How a run was trained: what the ledger keeps of its metrics."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_PARTS = 40  # of a training, each a point of a figure


def summarize_metrics(metrics: Path) -> dict[str, Any]:
    """The last validation loss, and the loss in training: [last step, mean] of equal parts."""
    with metrics.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    valid = [float(row["valid_loss"]) for row in rows if row["valid_loss"]]
    losses = [(int(row["step"]), float(row["loss"])) for row in rows if row["loss"]]
    losses = [(step, loss) for step, loss in losses if math.isfinite(loss)]
    return {"valid_loss": valid[-1] if valid else None, "losses": _thinned(losses)}


def _thinned(losses: Sequence[tuple[int, float]]) -> list[list[float]]:
    ends = [len(losses) * (part + 1) // _PARTS for part in range(_PARTS)]
    parts = [losses[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    return [[some[-1][0], round(sum(loss for _, loss in some) / len(some), 4)] for some in parts if some]
