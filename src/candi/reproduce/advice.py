"""What the points say to somebody who has to choose: which method, at how many steps. The README's own paragraph, and
what its figure shows."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from candi.errors import UserError
from candi.evaluation.choice import Choice, Gain
from candi.evaluation.compare import Comparison, Group
from candi.evaluation.measures import Measure
from candi.files import write_text
from candi.report.tables import listed, table
from candi.reproduce.declared import Advice, Claim
from candi.reproduce.experiment import Experiment
from candi.reproduce.verdict import AGREES, DISAGREES, MISSING, Finding, findings

BEGIN, END = "<!-- written by make results -->", "<!-- end of what make results writes -->"
_FAR = 2.0  # times as good: from here on percent mislead


@dataclass(frozen=True)
class _Judged:
    """An advice with what is known of it: the first against each of the rest, and the best at each number of steps."""

    advice: Advice
    others: Mapping[str, Sequence[Finding]]
    best: Sequence[tuple[int, tuple[str, ...]]]
    fixed: Mapping[str, int]  # those that decide their own steps, and how many

    @property
    def chosen(self) -> list[str]:
        """By name: one or several of them, and at how many steps."""
        at: dict[str, list[int]] = {}
        for steps, names in self.best:
            at.setdefault(" or ".join(names), []).append(steps)
        return [f"{names} at {listed(steps)} steps" for names, steps in at.items()] + [
            f"{self.advice.runs[other]} where {count} steps are no matter"
            for other, count in self.fixed.items()
            if other in self.others and self.others[other][-1].verdict == DISAGREES
        ]

    def rows(self, steps: Sequence[int], additive: bool) -> Iterator[list[str]]:
        """What is held against the first, and what came of it."""
        for other, some in self.others.items():
            at = {one.steps: _change(one, additive) for one in some}
            yield [self.advice.runs[other], *(at.get(count, "") for count in steps)]


def advised(experiment: Experiment, found: Mapping[str, Comparison]) -> Iterator[str]:
    """A sentence and a table for each advice that there are points for; those of the same methods share a table."""
    for alike in _alike(experiment):
        some = [_judged(advice, found[advice.sweep]) for advice in alike if advice.sweep in found]
        some = [one for one in some if one.others]
        if some:
            yield _told(experiment, some[0]) if len(alike) == 1 else _together(experiment, some)


def choices(experiment: Experiment, found: Mapping[str, Comparison]) -> Iterator[Choice]:
    """The same for a figure: by how much the first of each advice is better than the rest. What an overview shows is
    not shown again."""
    measure = experiment.axes.measures[1]
    shown = experiment.advice if experiment.overview is None else ()
    for advice in (advice for advice in shown if advice.sweep in found):
        judged = _judged(advice, found[advice.sweep]).others
        known = {other: [one for one in some if math.isfinite(one.value)] for other, some in judged.items()}
        ratios = not measure.additive and any(
            not 1 / _FAR < one.value < _FAR for some in known.values() for one in some
        )
        gains = {other: [_gain(one, measure, ratios) for one in some] for other, some in known.items() if some}
        gain = _gained(experiment.quality_in(advice.sweep), next(iter(advice.runs.values())), measure, ratios)
        if gains:
            yield Choice(f"{advice.where}, {experiment.scale} scale", gain, ratios, gains, advice.runs)


def _gained(quality: str, name: str, measure: Measure, ratios: bool) -> str:
    if ratios:
        return f"{quality} of {name} / theirs" if measure.higher_is_better else f"their {quality} / that of {name}"
    better = "more" if measure.additive or measure.higher_is_better else "less"
    return f"{better} {quality} by {name}{'' if measure.additive else ', %'}"


def _gain(one: Finding, measure: Measure, ratios: bool) -> Gain:
    def gained(value: float) -> float:
        if ratios:
            return value if measure.higher_is_better else 1 / value
        return value if measure.additive else 100 * (value - 1 if measure.higher_is_better else 1 - value)

    low, high = sorted((gained(one.low), gained(one.high)))
    return Gain(one.steps, gained(one.value), low, high)


def into(readme: Path, advice: Sequence[str]) -> None:
    """The advice between two marks of a page; the rest stays as it is."""
    before, begin, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"{readme} has no place for advice; put {BEGIN} and {END} where it belongs.")
    write_text(readme, before + "\n\n".join([BEGIN, *advice, END]) + after)


def _alike(experiment: Experiment) -> list[list[Advice]]:
    """Those of the same methods and the same quality together."""
    alike: dict[tuple[str, ...], list[Advice]] = {}
    for advice in (advice for advice in experiment.advice if advice.sweep in experiment.grids):
        alike.setdefault((experiment.quality_in(advice.sweep), *advice.runs.values()), []).append(advice)
    return list(alike.values())


def _judged(advice: Advice, comparison: Comparison) -> _Judged:
    first, *others = advice.runs
    judged = {other: findings(Claim("", advice.sweep, first, other), comparison) for other in others}
    judged = {other: some for other, some in judged.items() if any(one.verdict != MISSING for one in some)}
    fixed = {curve.label: curve.steps for curve in comparison.curves if curve.steps_fixed}
    walks = [run for run in (first, *judged) if run not in fixed]
    best_at = [
        (group.steps, tuple(advice.runs[run] for run in best))
        for group in comparison.groups
        if (best := _best(walks, group, comparison))
    ]
    return _Judged(advice, judged, best_at, fixed)


def _told(experiment: Experiment, one: _Judged) -> str:
    steps = [count for count, _ in one.best]
    told = table(_head(experiment, one.advice, steps), list(one.rows(steps, experiment.axes.measures[1].additive)))
    return f"**{one.advice.where}: {'; '.join(one.chosen)}** ({experiment.scale} scale).\n\n{told}"


def _together(experiment: Experiment, some: Sequence[_Judged]) -> str:
    """One table: where and against whom, what came of it, whom to take."""
    steps = sorted({count for one in some for count, _ in one.best})
    against, *counts = _head(experiment, some[0].advice, steps)
    _, *others = some[0].advice.runs.values()
    head = [f"{against} {others[0]}" if len(others) == 1 else against, *counts, "take"]
    rows = [
        [one.advice.where if len(others) == 1 else f"{one.advice.where}: {other}", *row, _whom(one, steps)]
        for one in some
        for other, *row in one.rows(steps, experiment.axes.measures[1].additive)
    ]
    return f"**{experiment.title}** ({experiment.scale} scale).\n\n{table(head, rows)}"


def _head(experiment: Experiment, advice: Advice, steps: Sequence[int]) -> list[str]:
    name, *_ = advice.runs.values()
    measure = experiment.axes.measures[1]
    sense = "" if measure.additive or measure.higher_is_better else " (less is better)"
    return [f"{experiment.quality_in(advice.sweep)}{sense} of {name} against", *(f"{count} steps" for count in steps)]


def _whom(one: _Judged, steps: Sequence[int]) -> str:
    """By name alone, if it is the same at all of these steps."""
    always = [" or ".join(names) for _, names in one.best]
    if len(always) == len(steps) and len({*always}) == len(one.chosen) == 1:
        return always[0]
    return "; ".join(one.chosen)


def _best(walks: Sequence[str], group: Group, comparison: Comparison) -> list[str]:
    """Those that were measured at this number of steps and that no other is surely ahead of."""
    measured = {run for pair in group.pairs for run in (pair.first, pair.second)}
    here = [run for run in walks if run in measured]

    def beaten(run: str) -> bool:
        claims = (Claim("", "", other, run, steps=[group.steps]) for other in here if other != run)
        return any(found.verdict == AGREES for claim in claims for found in findings(claim, comparison))

    # pairs are compared where both are, each pair elsewhere: they may go round in a circle
    return [run for run in here if not beaten(run)] or here


def _change(one: Finding, additive: bool) -> str:
    if one.verdict == MISSING:
        return ""
    if not math.isfinite(one.value):
        return one.word
    far = not additive and not 1 / _FAR < one.value < _FAR
    size = f"{one.value:+.3f}" if additive else f"{one.value:.2f} times" if far else f"{100 * (one.value - 1):+.1f}%"
    return size if one.word in ("ahead", "behind") else f"{one.word} ({size})"
