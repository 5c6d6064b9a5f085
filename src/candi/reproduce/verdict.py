"""What the points say to a claim of the paper: agrees, disagrees, not settled."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from candi.evaluation.compare import Axes, Comparison, Group, Pair
from candi.reproduce.declared import Claim

AGREES, DISAGREES, OPEN, MISSING = "agrees", "disagrees", "not settled", "not measured"
_SOME = 0.1  # of the range: who is surely behind on more of it is not ahead, whatever the mean


@dataclass(frozen=True)
class Finding:
    """A claim at one number of steps.

    `value` is quality over quality at the same diversity, or quality minus quality of what is compared by difference,
    with its 95% interval; `ahead` and `behind` the shares of the range where the first is so for sure.
    """

    steps: int
    verdict: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    ahead: float = 0.0
    behind: float = 0.0

    @property
    def crosses(self) -> bool:
        return min(self.ahead, self.behind) > _SOME

    @property
    def word(self) -> str:
        """What a claim that the first is ahead comes to."""
        if self.crosses:
            return "crosses"
        if self.verdict == OPEN and math.isfinite(self.value):
            return "level"
        return {AGREES: "ahead", DISAGREES: "behind"}.get(self.verdict, self.verdict)

    def __str__(self) -> str:
        if not math.isfinite(self.value):
            return f"{self.steps} steps: {self.verdict}"
        told = f"{self.steps} steps: {self.value:.3f} ({self.low:.3f} to {self.high:.3f})"
        if self.crosses:
            told += f", surely ahead on {100 * self.ahead:.0f}% of the range and behind on {100 * self.behind:.0f}%"
        return told


def findings(claim: Claim, comparison: Comparison) -> list[Finding]:
    """At every number of steps of the comparison, or at those that the claim names."""
    return [
        _at(claim, group, comparison.axes)
        for group in comparison.groups
        if not claim.steps or group.steps in claim.steps
    ]


def verdict(found: Sequence[Finding]) -> str:
    """Of all numbers of steps together: one that disagrees is enough, all must agree."""
    kinds = {finding.verdict for finding in found}
    if not kinds or kinds == {MISSING}:
        return MISSING
    if DISAGREES in kinds:
        return DISAGREES
    return AGREES if kinds == {AGREES} else OPEN


def _at(claim: Claim, group: Group, axes: Axes) -> Finding:
    for pair in group.pairs:
        if {pair.first, pair.second} == {claim.first, claim.second}:
            return _judge(claim, pair, group.steps, axes)
    return Finding(group.steps, MISSING)


def _judge(claim: Claim, pair: Pair, steps: int, axes: Axes) -> Finding:
    found = pair.result
    if found is None and pair.winner is not None:  # who is ahead is sure, by how much is not
        if claim.level or (claim.margin and pair.winner == claim.second):
            return Finding(steps, OPEN)
        return Finding(steps, AGREES if pair.winner == claim.first else DISAGREES)
    if found is None or not math.isfinite(found.ratio_low):
        return Finding(steps, OPEN)
    costs = found.ratio, found.ratio_low, found.ratio_high
    where = found.sure, found.surely_behind
    if pair.first != claim.first:
        costs, where = (1 / costs[0], 1 / costs[2], 1 / costs[1]), where[::-1]
    measure = axes.measures[1]
    most = math.exp(claim.margin) if measure.additive else 1 + claim.margin
    least = 1 / most if claim.level else 0.0
    inside = least <= costs[1] and (costs[2] <= most if claim.margin else costs[2] < 1 and where[1] <= _SOME)
    outside = costs[1] > most or costs[2] < least
    told = AGREES if inside else DISAGREES if outside else OPEN
    if measure.additive:  # cost is exp(-quality)
        return Finding(steps, told, -math.log(costs[0]), -math.log(costs[2]), -math.log(costs[1]), *where)
    if measure.higher_is_better:
        costs = 1 / costs[0], 1 / costs[2], 1 / costs[1]
    return Finding(steps, told, *costs, *where)
