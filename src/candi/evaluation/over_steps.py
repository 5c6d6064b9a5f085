"""A comparison in one line for each method: its quality at one diversity, over the number of steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from candi.evaluation.compare import Comparison, quality_at


@dataclass(frozen=True)
class Cell:
    """`steps` is None for a method that decides its own."""

    label: str
    steps: int | None
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class OverSteps:
    diversity: float
    cells: Sequence[Cell]


def over_steps(comparison: Comparison) -> OverSteps:
    """At the diversity that most curves reach, the middle of its range; a curve that does not reach it has no cell."""
    curves = [curve for group in comparison.groups for curve in group.curves]
    ends = np.array([(curve.band.diversity[0], curve.band.diversity[-1]) for curve in curves])
    tried = np.unique(ends)
    between = (tried[1:] + tried[:-1]) / 2
    reached = ((ends[:, :1] <= between) & (between <= ends[:, 1:])).sum(0)
    most = tried[:-1][reached == reached.max()].min(), tried[1:][reached == reached.max()].max()
    where = float(np.mean(most))
    cells: dict[tuple[str, int | None], Cell] = {}
    for curve in curves:
        steps = None if curve.steps_fixed else curve.steps
        value, low, high = quality_at(curve.band, where)
        if np.isfinite(value):
            cells[curve.label, steps] = Cell(curve.label, steps, value, low, high)
    return OverSteps(where, list(cells.values()))
