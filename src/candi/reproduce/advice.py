"""What the points say to somebody who has to choose: which method, at how many steps. The README's own paragraph, and
what its figure shows."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from candi.errors import UserError
from candi.evaluation.choice import Choice, Gain
from candi.evaluation.compare import Comparison, Group
from candi.evaluation.measures import Measure
from candi.files import write_text
from candi.report.tables import table
from candi.reproduce.declared import Advice, Claim
from candi.reproduce.experiment import Experiment
from candi.reproduce.verdict import AGREES, DISAGREES, MISSING, Finding, findings

BEGIN, END = "<!-- written by make results -->", "<!-- end of what make results writes -->"


def advised(experiment: Experiment, found: Mapping[str, Comparison]) -> Iterator[str]:
    """A sentence and a table for each advice of the experiment that there are points for."""
    for advice in experiment.advice:
        if advice.sweep in found and (told := _told(experiment, advice, found[advice.sweep])):
            yield told


def choices(experiment: Experiment, found: Mapping[str, Comparison]) -> Iterator[Choice]:
    """The same for a figure: by how much the first of each advice is better than the rest."""
    measure = experiment.axes.measures[1]
    for advice in (advice for advice in experiment.advice if advice.sweep in found):
        (first, name), *others = advice.runs.items()
        judged = {other: findings(Claim("", "", first, other), found[advice.sweep]) for other, _ in others}
        gains = {
            other: [_gain(one, measure) for one in some if math.isfinite(one.value)] for other, some in judged.items()
        }
        gains = {other: some for other, some in gains.items() if some}
        better = "more" if measure.additive or measure.higher_is_better else "less"
        gain, where = f"{better} {experiment.quality_in(advice.sweep)}", f"{advice.where}, {experiment.scale} scale"
        if gains:
            yield Choice(where, name, gain, not measure.additive, gains, advice.runs)


def _gain(one: Finding, measure: Measure) -> Gain:
    def gained(value: float) -> float:
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


def _told(experiment: Experiment, advice: Advice, comparison: Comparison) -> str:
    (first, name), *others = advice.runs.items()
    judged = {other: findings(Claim("", advice.sweep, first, other), comparison) for other, _ in others}
    judged = {other: some for other, some in judged.items() if any(one.verdict != MISSING for one in some)}
    if not judged:
        return ""
    fixed = {curve.label: curve.steps for group in comparison.groups for curve in group.curves if curve.steps_fixed}
    walks = [run for run in (first, *judged) if run not in fixed]
    best_at = [
        (group.steps, tuple(advice.runs[run] for run in best))
        for group in comparison.groups
        if (best := _best(walks, group, comparison))
    ]
    chosen = [
        f"{' or '.join(best)} at {_listed([steps for steps, _ in group])} steps"
        for best, group in groupby(best_at, key=lambda one: one[1])
    ]
    chosen += [
        f"{advice.runs[other]} where {count} steps are no matter"
        for other, count in fixed.items()
        if other in judged and judged[other][-1].verdict == DISAGREES
    ]
    additive = experiment.axes.measures[1].additive
    told = {steps for steps, _ in best_at}
    head = [f"{experiment.quality_in(advice.sweep)} of {name} against", *(f"{steps} steps" for steps, _ in best_at)]
    rows = [
        [advice.runs[other], *(_change(one, additive) for one in some if one.steps in told)]
        for other, some in judged.items()
    ]
    return f"**{advice.where}: {'; '.join(chosen)}** ({experiment.scale} scale).\n\n{table(head, rows)}"


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
        return {AGREES: "ahead", DISAGREES: "behind"}.get(one.verdict, "not settled")
    size = f"{one.value:+.3f}" if additive else f"{100 * (one.value - 1):+.1f}%"
    if one.crosses:
        return f"crosses ({size})"
    return size if one.verdict in (AGREES, DISAGREES) else f"level ({size})"


def _listed(steps: Sequence[int]) -> str:
    *most, last = map(str, steps)
    return f"{', '.join(most)} and {last}" if most else last
