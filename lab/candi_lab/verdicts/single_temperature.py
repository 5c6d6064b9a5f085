"""The single-temperature trap, shown: at one temperature for each, nearly any curve can be made to win."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from candi.evaluation.compare import Comparison

MOST_SHOWN = 4  # curves: every choice of temperatures is tried


@dataclass(frozen=True)
class Dot:
    """A point as measured."""

    steps: int
    diversity: float
    quality: float


@dataclass(frozen=True)
class Chosen:
    """One temperature for each curve, with which `winner` is best at every number of steps."""

    winner: str
    temperatures: Mapping[str, float]
    dots: Mapping[str, Sequence[Dot]]


def winners(comparison: Comparison, labels: Sequence[str]) -> list[Chosen]:
    """For each of some curves, two or more, the choice that lets it win, if there is one.

    Of all such choices it is the one whose curves are closest in diversity, on average over the steps: the one that
    misleads most easily.
    """
    found = _measured(comparison, labels)
    best: dict[str, tuple[float, tuple[float, ...]]] = {}
    for temperatures in product(*(found[label] for label in labels)):
        rows = list(zip(*(found[label][t] for label, t in zip(labels, temperatures, strict=True)), strict=True))
        costs = comparison.axes.cost(np.array([[dot.quality for dot in row] for row in rows]))
        first, tied = costs.argmin(-1), (costs == costs.min(-1, keepdims=True)).sum(-1) > 1
        if (first == first[0]).all() and not tied.any():
            winner = labels[first[0]]
            apart = sum(max(dot.diversity for dot in row) - min(dot.diversity for dot in row) for row in rows)
            best[winner] = min(best.get(winner, (apart, temperatures)), (apart, temperatures))
    pairs = [(winner, dict(zip(labels, best[winner][1], strict=True))) for winner in labels if winner in best]
    return [Chosen(winner, at, {label: found[label][t] for label, t in at.items()}) for winner, at in pairs]


def _measured(comparison: Comparison, labels: Sequence[str]) -> dict[str, dict[float, list[Dot]]]:
    """By curve and temperature, where there is a point at every number of steps."""
    found: dict[str, dict[float, list[Dot]]] = {label: {} for label in labels}
    for group in comparison.groups:
        for curve in (curve for curve in group.curves if curve.label in found):
            for point, x, y in zip(curve.points, *curve.values, strict=True):
                dots = found[curve.label].setdefault(point.cell.temperature, [])
                dots.append(Dot(group.steps, float(x), float(y)))
    every = len(comparison.groups)
    return {label: {t: dots for t, dots in some.items() if len(dots) == every} for label, some in found.items()}
