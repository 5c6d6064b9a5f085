"""What further scorers say of a claim: a lead by one scorer alone may be owed to that scorer."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from candi.base.markdown import table
from candi.evaluation.compare import Comparison, Curve, Group
from candi.evaluation.pareto import Bootstrapped, Numbers, dominance
from candi.evaluation.points import Point
from candi.evaluation.provenance import fingerprint
from candi_lab.runner.schema import Claim, CurveRef, find_curve

_PREFIX = "perplexity:"  # before a further scorer's name, among a point's measures


@dataclass(frozen=True)
class OtherScorer:
    """A scorer beside the first: its name, and a hash of what it is."""

    name: str
    identity: str

    @property
    def measure(self) -> str:
        return _PREFIX + self.name

    def perplexities(self, points: Sequence[Point]) -> Numbers:
        """nan where a point has none, or one by another scorer of this name."""
        return np.array([self._perplexity(point) for point in points], dtype=np.float64)

    def _perplexity(self, point: Point) -> float | None:
        return point.measures.get(self.measure) if _identities(point).get(self.name) == self.identity else None


def _identities(point: Point) -> dict[str, str]:
    scorers: Sequence[Mapping[str, Any]] = point.provenance.other_scorers
    return {str(scorer["scorer"]): fingerprint(scorer) for scorer in scorers}


def other_scorers(comparison: Comparison) -> list[OtherScorer]:
    """Those beside the first. Of several with one name, the one that scored most points."""
    points = {point.key: point for curve in comparison.curves for point in curve.points}.values()
    found: dict[str, Counter[str]] = {}
    for point in points:
        for name, identity in _identities(point).items():
            if point.measures.get(_PREFIX + name) is not None:
                found.setdefault(name, Counter())[identity] += 1
    return [OtherScorer(name, counts.most_common(1)[0][0]) for name, counts in found.items()]


def ratio_table(
    comparison: Comparison, claims: Sequence[Claim], scorer: OtherScorer, names: Mapping[str, str]
) -> list[str]:
    """Cost over cost of the curves of each claim, at the same diversity, if any can be compared.

    No columns are kept of further scorers, so there are no intervals.
    """
    pairs = [(claim.first, claim.second) for claim in claims]
    pairs = [pair for index, pair in enumerate(pairs) if pair not in pairs[:index]]
    rows = [
        [f"{a.called(names)} / {b.called(names)}", *(_ratio(group, a, b, scorer) for group in comparison.groups)]
        for a, b in pairs
    ]
    rows = [row for row in rows if any(row[1:])]
    head = [f"perplexity by {scorer.name}, per token of its own"]
    return [table([*head, *(f"{group.steps} steps" for group in comparison.groups)], rows)] if rows else []


def _ratio(group: Group, first: CurveRef, second: CurveRef, scorer: OtherScorer) -> str:
    """Nothing where one of them was not scored, or they share no range."""
    curves = [find_curve(ref, group.curves) for ref in (first, second)]
    scored = [_scored(curve, scorer) for curve in curves if curve is not None]
    if len(scored) < 2 or not all(len(some.cost) for some in scored):
        return ""
    found = dominance(scored[0], scored[1])
    return "" if found is None else f"{found.ratio:.3f}"


def _scored(curve: Curve, scorer: OtherScorer) -> Bootstrapped:
    cost = scorer.perplexities(curve.points)
    kept = np.isfinite(cost)
    return Bootstrapped.as_measured(curve.values[0][kept], cost[kept])
