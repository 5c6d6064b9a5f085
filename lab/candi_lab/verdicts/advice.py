"""What the points say to somebody who has to choose: which method, at how many steps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from candi.base.markdown import table
from candi.evaluation.compare import Comparison, Curve, Group
from candi.evaluation.measures import Measure
from candi.views.tables import listed
from candi_lab.runner.experiment import Experiment
from candi_lab.runner.schema import Advice, Claim, NamedCurve, find_curve
from candi_lab.verdicts.verdict import AGREES, DISAGREES, MISSING, Finding, findings

_FAR = 2.0  # times as good: from here on percent mislead


@dataclass(frozen=True)
class Decided:
    """An advice with its findings: the first method against each other one, and the best at each number of steps.

    `methods` are those of the others as the library calls them; `fixed` holds the number of steps of methods that
    decide it themselves.
    """

    advice: Advice
    others: Mapping[str, Sequence[Finding]]
    methods: Mapping[str, str]
    best: Sequence[tuple[int, tuple[str, ...]]]
    fixed: Mapping[str, int]

    @property
    def recommended(self) -> list[str]:
        """One or several names, and at how many steps."""
        at: dict[str, list[int]] = {}
        for steps, names in self.best:
            at.setdefault(" or ".join(names), []).append(steps)
        return [f"{names} at {listed(steps)} steps" for names, steps in at.items()] + [
            f"{name} if {count} network evaluations are affordable"
            for name, count in self.fixed.items()
            if name in self.others and self.others[name][-1].verdict == DISAGREES
        ]


def decide(advice: Advice, comparison: Comparison) -> Decided:
    first, *others = advice.runs
    found = {one.name: findings(_ahead(first, one), comparison) for one in others}
    found = {name: some for name, some in found.items() if any(one.verdict != MISSING for one in some)}
    curves = {one.name: curve for one in advice.runs if (curve := _find(one, comparison)) is not None}
    methods = {name: curves[name].points[0].cell.method for name in found}
    fixed = {name: curve.steps for name, curve in curves.items() if curve.steps_fixed}
    stepped = [one for one in advice.runs if one.name not in fixed and one.name in (first.name, *found)]
    best = [(group.steps, _best(stepped, group, comparison)) for group in comparison.groups]
    return Decided(advice, found, methods, [(steps, names) for steps, names in best if names], fixed)


def _find(one: NamedCurve, comparison: Comparison) -> Curve | None:
    """At any number of steps."""
    found = (find_curve(one.curve, group.curves) for group in comparison.groups)
    return next((curve for curve in found if curve is not None), None)


def _ahead(first: NamedCurve, second: NamedCurve, steps: Sequence[int] = ()) -> Claim:
    return Claim("", "", first.curve, second.curve, steps=steps)


def _best(stepped: Sequence[NamedCurve], group: Group, comparison: Comparison) -> tuple[str, ...]:
    """Those that were measured at this number of steps and that no other is surely ahead of."""
    paired = {id(curve): curve for pair in group.pairs for curve in (pair.first, pair.second)}
    here = [one for one in stepped if find_curve(one.curve, list(paired.values())) is not None]

    def beaten(one: NamedCurve) -> bool:
        claims = (_ahead(other, one, [group.steps]) for other in here if other != one)
        return any(found.verdict == AGREES for claim in claims for found in findings(claim, comparison))

    # each pair is compared on its own range: a circle is possible
    return tuple(one.name for one in [one for one in here if not beaten(one)] or here)


def decided(experiment: Experiment, found: Mapping[str, Comparison]) -> list[Decided]:
    """Every advice that there are points for."""
    every = [decide(advice, found[advice.sweep]) for advice in experiment.advice if advice.sweep in found]
    return [one for one in every if one.others]


def advice_tables(experiment: Experiment, found: Mapping[str, Comparison]) -> Iterator[str]:
    """A sentence and a table for each advice; those of the same methods and the same quality share a table."""
    alike: dict[tuple[str, ...], list[Decided]] = {}
    for one in decided(experiment, found):
        names = [named.name for named in one.advice.runs]
        alike.setdefault((experiment.quality_in(one.advice.sweep), *names), []).append(one)
    for some in alike.values():
        yield _one_place(experiment, some[0]) if len(some) == 1 else _several_places(experiment, some)


def _one_place(experiment: Experiment, one: Decided) -> str:
    steps = [count for count, _ in one.best]
    rows = table(_head(experiment, one.advice, steps), _rows(one, steps, experiment.axes.measures[1]))
    return f"**{one.advice.where}: {'; '.join(one.recommended)}** ({experiment.size}).\n\n{rows}"


def _several_places(experiment: Experiment, some: Sequence[Decided]) -> str:
    """One table: where and against which method, the change, what to take."""
    steps = sorted({count for one in some for count, _ in one.best})
    against, *counts = _head(experiment, some[0].advice, steps)
    others = [named.name for named in some[0].advice.runs[1:]]
    head = [f"{against} {others[0]}" if len(others) == 1 else against, *counts, "take"]
    rows = [
        [one.advice.where if len(others) == 1 else f"{one.advice.where}: {other}", *row, _take(one, steps)]
        for one in some
        for other, *row in _rows(one, steps, experiment.axes.measures[1])
    ]
    return f"**{experiment.title}** ({experiment.size}).\n\n{table(head, rows)}"


def _head(experiment: Experiment, advice: Advice, steps: Sequence[int]) -> list[str]:
    measure, name = experiment.axes.measures[1], advice.runs[0].name
    sense = "" if measure.additive or measure.higher_is_better else " (less is better)"
    return [f"{experiment.quality_in(advice.sweep)}{sense} of {name} against", *(f"{count} steps" for count in steps)]


def _rows(one: Decided, steps: Sequence[int], measure: Measure) -> list[list[str]]:
    """The change of quality against each other method, by the number of steps."""
    changes = {other: {found.steps: _change(found, measure) for found in some} for other, some in one.others.items()}
    return [[other, *(at.get(count, "") for count in steps)] for other, at in changes.items()]


def _take(one: Decided, steps: Sequence[int]) -> str:
    """The name alone, if it is the same at all of these steps."""
    always = [" or ".join(names) for _, names in one.best]
    if len(always) == len(steps) and len({*always}) == len(one.recommended) == 1:
        return always[0]
    return "; ".join(one.recommended)


def _change(one: Finding, measure: Measure) -> str:
    if one.verdict == MISSING:
        return ""
    if not one.measured:
        return one.word
    far = not measure.additive and not 1 / _FAR < one.value < _FAR
    percent = f"{100 * (one.value - 1):+.1f}%"
    size = f"{one.value:+.3f}" if measure.additive else f"{one.value:.2f} times" if far else percent
    return size if one.word in ("ahead", "behind") else f"{one.word} ({size})"


@dataclass(frozen=True)
class Gain:
    """By how much the first is better than another, with its 95% interval; below no difference it is worse.

    `sure` says that the interval includes no point without a difference, and that the curves do not cross.
    """

    steps: int
    value: float
    low: float
    high: float
    sure: bool = True


@dataclass(frozen=True)
class Choice:
    """One method against others, at every number of steps: what a panel of the figure shows.

    `where` is the data, `gain` the quantity, `others` are by name. Gains are differences or percent, which begin at 0,
    or where they are large `ratios`, which begin at 1.
    """

    where: str
    gain: str
    ratios: bool
    others: Mapping[str, Sequence[Gain]]


def choices(experiment: Experiment, found: Mapping[str, Comparison]) -> Iterator[Choice]:
    """By how much the first of each advice is better than the rest. What an overview shows is not shown again."""
    measure = experiment.axes.measures[1]
    for one in decided(experiment, found) if experiment.overview is None else ():
        values = [found.value for some in one.others.values() for found in some if found.measured]
        ratios = not measure.additive and any(not 1 / _FAR < value < _FAR for value in values)
        gains = {other: [gain(found, measure, ratios) for found in some if found.measured]
                 for other, some in one.others.items()}  # fmt: skip
        quality = _quantity(experiment.quality_in(one.advice.sweep), one.advice.runs[0].name, measure, ratios)
        if gains := {other: some for other, some in gains.items() if some}:
            yield Choice(f"{one.advice.where}, {experiment.size}", quality, ratios, gains)


def _quantity(quality: str, name: str, measure: Measure, ratios: bool) -> str:
    if ratios:
        return f"{quality} of {name} / theirs" if measure.higher_is_better else f"their {quality} / that of {name}"
    better = "more" if measure.additive or measure.higher_is_better else "less"
    return f"{better} {quality} by {name}{'' if measure.additive else ', %'}"


def gain(one: Finding, measure: Measure, ratios: bool = False) -> Gain:
    """In one direction, better is more: percent, a difference of what is compared by difference, or a ratio."""

    def gained(value: float) -> float:
        if ratios:
            return value if measure.higher_is_better else 1 / value
        return value if measure.additive else 100 * (value - 1 if measure.higher_is_better else 1 - value)

    low, high = sorted((gained(one.low), gained(one.high)))
    return Gain(one.steps, gained(one.value), low, high, one.word in ("ahead", "behind"))
