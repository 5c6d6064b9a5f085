"""What the points say to a claim of the paper: agrees, disagrees, not settled."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from candi.evaluation.compare import Axes, Comparison, Group, Pair
from candi_lab.runner.schema import Claim, find_curve

AGREES, DISAGREES, OPEN, MISSING = "agrees", "disagrees", "not settled", "not measured"
TOY = "no verdict at toy scale"
_SOME = 0.1  # of the range: a curve that is surely behind on more of it is not ahead, whatever the mean


@dataclass(frozen=True)
class Finding:
    """A claim at one number of steps.

    `value` is quality over quality at the same diversity, or quality minus quality of measures that are compared by
    difference, with its 95% interval; `ahead` and `behind` are the fractions of the range where the first surely is.
    """

    steps: int
    verdict: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    ahead: float = 0.0
    behind: float = 0.0

    @property
    def measured(self) -> bool:
        return math.isfinite(self.value)

    @property
    def crosses(self) -> bool:
        return min(self.ahead, self.behind) > _SOME

    @property
    def word(self) -> str:
        """The verdict on a claim that the first is ahead, in a word."""
        if self.crosses:
            return "crosses"
        if self.verdict == OPEN and self.measured:
            return "level"
        return {AGREES: "ahead", DISAGREES: "behind"}.get(self.verdict, self.verdict)

    def __str__(self) -> str:
        if not self.measured:
            return f"{self.steps} steps: {self.verdict}"
        text = f"{self.steps} steps: {self.value:.3f} ({self.low:.3f} to {self.high:.3f})"
        if self.crosses:
            text += f", surely ahead on {100 * self.ahead:.0f}% of the range and behind on {100 * self.behind:.0f}%"
        return text


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
    first, second = (find_curve(ref, group.curves) for ref in (claim.first, claim.second))
    for pair in group.pairs:
        if pair.first is first and pair.second is second:
            return _decide(claim, pair, group.steps, axes)
        if pair.first is second and pair.second is first:
            return _decide(claim, pair, group.steps, axes, reverse=True)
    return Finding(group.steps, MISSING)


def _decide(claim: Claim, pair: Pair, steps: int, axes: Axes, reverse: bool = False) -> Finding:
    """A pair that is compared the other way round is read in reverse."""
    found = pair.result
    if found is None and pair.winner is not None:  # the order is sure, the distance is not
        first_wins = (pair.winner is pair.first) != reverse
        if claim.level or (claim.margin and not first_wins):
            return Finding(steps, OPEN)
        return Finding(steps, AGREES if first_wins else DISAGREES)
    if found is None or not math.isfinite(found.ratio_low):
        return Finding(steps, OPEN)
    costs = found.ratio, found.ratio_low, found.ratio_high
    where = found.sure, found.surely_behind
    if reverse:
        costs, where = (1 / costs[0], 1 / costs[2], 1 / costs[1]), where[::-1]
    measure = axes.measures[1]
    most = math.exp(claim.margin) if measure.additive else 1 + claim.margin
    least = 1 / most if claim.level else 0.0
    inside = least <= costs[1] and (costs[2] <= most if claim.margin else costs[2] < 1 and where[1] <= _SOME)
    outside = costs[1] > most or costs[2] < least
    outcome = AGREES if inside else DISAGREES if outside else OPEN
    if measure.additive:  # cost is exp(-quality)
        return Finding(steps, outcome, -math.log(costs[0]), -math.log(costs[2]), -math.log(costs[1]), *where)
    if measure.higher_is_better:
        costs = 1 / costs[0], 1 / costs[2], 1 / costs[1]
    return Finding(steps, outcome, *costs, *where)
