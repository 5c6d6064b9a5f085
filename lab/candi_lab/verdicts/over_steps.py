"""A comparison in one line for each method: its quality at one diversity, over the number of steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from candi.evaluation.compare import Comparison, quality_at


@dataclass(frozen=True)
class AtSteps:
    """A curve's quality with its interval; `steps` is None for a method that decides its own."""

    label: str
    steps: int | None
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class OverSteps:
    diversity: float
    values: Sequence[AtSteps]


def over_steps(comparison: Comparison) -> OverSteps | None:
    """At the diversity that most curves reach, in the middle of its range; a curve that does not reach it is left out.

    None if no two curves share a range.
    """
    curves = {(curve.label, None if curve.steps_fixed else curve.steps): curve for curve in comparison.curves}
    ends = np.array([(curve.band.diversity[0], curve.band.diversity[-1]) for curve in curves.values()])
    edges = np.unique(ends)
    middles = (edges[1:] + edges[:-1]) / 2
    reached = ((ends[:, :1] <= middles) & (middles <= ends[:, 1:])).sum(0)
    if not len(reached) or reached.max() < 2:
        return None
    widest = max(np.flatnonzero(reached == reached.max()), key=lambda index: edges[index + 1] - edges[index])
    where = float(middles[widest])
    found = {key: quality_at(curve.band, where) for key, curve in curves.items()}
    return OverSteps(where, [AtSteps(*key, *values) for key, values in found.items() if np.isfinite(values[0])])
