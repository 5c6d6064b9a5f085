"""How a run learned: what the ledger keeps of its metrics."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_SHARES = 40  # of a training, each a point of a figure


def learned(metrics: Path) -> dict[str, Any]:
    """The last validation loss, and the loss in training: [last step, mean] of equal shares."""
    with metrics.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    valid = [float(row["valid_loss"]) for row in rows if row["valid_loss"]]
    losses = [(int(row["step"]), float(row["loss"])) for row in rows if row["loss"]]
    losses = [(step, loss) for step, loss in losses if math.isfinite(loss)]
    return {"valid_loss": valid[-1] if valid else None, "losses": _thinned(losses)}


def _thinned(losses: Sequence[tuple[int, float]]) -> list[list[float]]:
    ends = [len(losses) * (share + 1) // _SHARES for share in range(_SHARES)]
    shares = [losses[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    return [[some[-1][0], round(sum(loss for _, loss in some) / len(some), 4)] for some in shares if some]
