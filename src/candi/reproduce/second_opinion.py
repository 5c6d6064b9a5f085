"""What the other judges say of a claim: whoever is ahead by one alone may owe it to that one."""

from collections.abc import Sequence

import numpy as np

from candi.evaluation.compare import Comparison, Curve
from candi.evaluation.pareto import Points, dominance
from candi.report.tables import table
from candi.reproduce.declared import Claim

_OTHER = "perplexity:"  # before a further judge's name, where a point's own measures are


def other_judges(comparison: Comparison) -> list[str]:
    """The measures of judges beside the first one."""
    lines = [line for curve in comparison.curves for line in curve.lines]
    return list(dict.fromkeys(name for line in lines for name in line["measures"] if name.startswith(_OTHER)))


def second_opinion(comparison: Comparison, claims: Sequence[Claim], measure: str) -> list[str]:
    """A table of cost over cost of the curves of each claim, at the same diversity, if any can be compared.

    Of further judges no columns are kept, so there are no intervals.
    """
    pairs = dict.fromkeys((claim.first, claim.second) for claim in claims)
    rows = [[f"{first} / {second}", *_ratios(comparison, first, second, measure)] for first, second in pairs]
    rows = [row for row in rows if any(row[1:])]
    head = [f"perplexity by {measure.removeprefix(_OTHER)}, per token of its own"]
    return [table([*head, *(f"{group.steps} steps" for group in comparison.groups)], rows)] if rows else []


def _ratios(comparison: Comparison, first: str, second: str, name: str) -> list[str]:
    """At every number of steps; nothing where one of them was not judged or they share no range."""
    told = []
    for group in comparison.groups:
        points = {curve.label: _points(curve, name) for curve in group.curves if curve.label in (first, second)}
        judged = len(points) == 2 and all(len(some.cost) for some in points.values())
        found = dominance(points[first], points[second]) if judged else None
        told.append("" if found is None else f"{found.ratio:.3f}")
    return told


def _points(curve: Curve, name: str) -> Points:
    judged = [index for index, line in enumerate(curve.lines) if line["measures"].get(name) is not None]
    cost = np.array([curve.lines[index]["measures"][name] for index in judged], dtype=np.float64)
    diversity = curve.values[0][judged]
    return Points(diversity, cost, diversity[None], cost[None], judged=False)
