"""Who is ahead, where, by how much and how surely: from the points of sweeps, checked to be comparable."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray

from candi.base.errors import UserError
from candi.evaluation.measures import Measure, measure_named
from candi.evaluation.pareto import (
    MOST_RANKED,
    Band,
    Bootstrapped,
    Dominance,
    Numbers,
    band,
    dominance,
    rankings,
    wholly_ahead,
)
from candi.evaluation.points import Point
from candi.evaluation.provenance import Cell, check_match
from candi.evaluation.scorers import rank_correlation

_MATCHED = 5  # diversities of the table
_NUMBERS = ("top_k", "top_p", "temperature", "reveal")  # options whose value alone says nothing


@dataclass(frozen=True)
class Axes:
    """The two measures that a frontier is drawn in."""

    diversity: str
    quality: str
    less: bool = False  # is a property wanted small?
    unit: float = 1.0  # of a property, so that its exponential is a number
    per: str | None = None  # the unit of perplexity, a scorer's token, if a reader knows it: byte, say

    @property
    def measures(self) -> tuple[Measure, Measure]:
        return measure_named(self.diversity, True), measure_named(self.quality, False)

    def cost(self, quality: Numbers) -> Numbers:
        """Quality as a positive number that is the better the lower."""
        measure = self.measures[1]
        if measure.additive:
            return np.exp((quality if self.less else -quality) / self.unit)
        return 1 / np.where(quality > 0, quality, np.nan) if measure.higher_is_better else quality

    def quality_of(self, cost: Numbers) -> Numbers:
        """The inverse of `cost`."""
        if self.measures[1].additive:
            return (np.log(cost) if self.less else -np.log(cost)) * self.unit
        return self.cost(cost)


@dataclass(frozen=True)
class Curve:
    """The points of one run with one number of steps and one choice of options: what temperature moves along.

    `options` are all that it was sampled with beside steps and what moves along it; `label` names those of them in
    which the curves of the run differ.
    """

    run: str
    options: Mapping[str, str]
    label: str
    steps: int
    steps_fixed: bool
    points: Sequence[Point]
    axes: Axes
    draws: int = 500

    @cached_property
    def values(self) -> tuple[Numbers, Numbers]:
        """Diversity and quality of each point, as measured."""
        found = [[point.measures[name] for point in self.points] for name in (self.axes.diversity, self.axes.quality)]
        return np.array(found[0], dtype=np.float64), np.array(found[1], dtype=np.float64)

    @cached_property
    def bootstrapped(self) -> Bootstrapped:
        """Samples are drawn with replacement once for the whole curve, whose points share their random numbers.

        What belongs to all samples together stays as it was measured.
        """
        count = self.points[0].cell.n
        chosen = np.random.default_rng(0).integers(count, size=(self.draws, count))
        counts = np.stack([np.bincount(row, minlength=count) for row in chosen]).astype(np.float64)
        (diversity, drawn_diversity, left_diversity), (quality, drawn_quality, left_quality) = (
            (value, *self._resampled(measure, value, chosen))
            for measure, value in zip(self.axes.measures, self.values, strict=True)
        )
        cost = self.axes.cost
        return Bootstrapped(
            diversity, cost(quality), drawn_diversity, cost(drawn_quality), left_diversity, cost(left_quality), counts,
            resampled=self.axes.measures[1].numerator is not None,
        )  # fmt: skip

    def _resampled(self, measure: Measure, measured: Numbers, chosen: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
        """A measure of all points in every draw, and without each sample."""
        if measure.numerator is None:
            return np.repeat(measured[None], len(chosen), 0), np.repeat(measured[None], chosen.shape[1], 0)
        draws = [measure.bootstrap(point.columns, chosen) for point in self.points]
        return np.stack(draws, -1), np.stack([measure.jackknife(point.columns) for point in self.points], -1)

    @cached_property
    def band(self) -> Band:
        found = band(self.bootstrapped)
        low, high = self.axes.quality_of(found.low), self.axes.quality_of(found.high)
        return Band(found.diversity, self.axes.quality_of(found.quality), np.minimum(low, high), np.maximum(low, high))


@dataclass(frozen=True)
class Pair:
    """One curve against another. Without a shared range of diversity one can still be ahead in everything."""

    first: Curve
    second: Curve
    result: Dominance | None
    winner: Curve | None = None


@dataclass(frozen=True)
class Group:
    """Curves that cost the same number of steps, and beside them those whose method decides its own."""

    steps: int
    curves: Sequence[Curve]
    pairs: Sequence[Pair]
    rankings: Sequence[tuple[str, ...]] | None

    def matched(self) -> tuple[Numbers, dict[str, list[tuple[float, float, float]]]]:
        """Diversities that most curves reach, and each curve's quality there with its interval."""
        ends = [(curve.band.diversity[0], curve.band.diversity[-1]) for curve in self.curves]
        low, high = max(low for low, _ in ends), min(high for _, high in ends)
        if low >= high:  # no range is shared by all: the whole range, with gaps
            low, high = min(low for low, _ in ends), max(high for _, high in ends)
        where = np.linspace(low, high, _MATCHED)
        return where, {curve.label: [quality_at(curve.band, x) for x in where] for curve in self.curves}


def quality_at(band: Band, x: float) -> tuple[float, float, float]:
    """Quality at a diversity with its interval; nan where the curve does not reach it."""
    return _at(band, band.quality, x), _at(band, band.low, x), _at(band, band.high, x)


def _at(band: Band, values: Numbers, x: float) -> float:
    hair = 1e-9 * max(1.0, abs(x))  # the ends of the grid are computed in two ways
    if not band.diversity[0] - hair <= x <= band.diversity[-1] + hair:
        return float("nan")
    return float(np.interp(x, band.diversity, values))


@dataclass(frozen=True)
class Comparison:
    axes: Axes
    groups: Sequence[Group]
    notes: Sequence[str]

    @property
    def curves(self) -> list[Curve]:
        """Of all numbers of steps; one that decides its own is in every group."""
        return [curve for group in self.groups for curve in group.curves]

    @property
    def names(self) -> list[str]:
        """What the curves are called, each name once."""
        return list(dict.fromkeys(curve.label for curve in self.curves))

    @property
    def labels(self) -> tuple[str, str]:
        """What the two measures are called; a property by its own name."""
        made = self.groups[0].curves[0].points[0].provenance
        sequences = "valid molecules" if made.kind is None else "sequences"
        diversity, quality = (measure.label for measure in self.axes.measures)
        quality += f" per {self.axes.per}" if self.axes.per else ""
        return diversity, f"mean {made.property} of the {sequences}" if self.axes.quality == "property" else quality


def compare(
    points: Sequence[Point], axes: Axes, draws: int = 500, pooled: bool = False,
    names: Mapping[str, str] = MappingProxyType({}),
) -> Comparison:  # fmt: skip
    """Refuses points whose provenance differs in what must match, naming the field.

    Guided points of several temperatures are a curve for each temperature and form of discrete guidance, or pooled
    into one of the best of all. `names` are what readers call the runs.
    """
    notes, usable = [], []
    for point in {point.key: point for point in points}.values():
        missing = [name for name in (axes.diversity, axes.quality) if point.measures.get(name) is None]
        quality = point.measures.get(axes.quality)
        if missing:
            notes.append(f"Left out: {_title(point.cell)} has no {missing[0]}.")
        elif quality is not None and quality <= 0 and not axes.measures[1].additive:
            notes.append(f"Left out: {_title(point.cell)} has a {axes.quality} of 0.")
        else:
            usable.append(point)
    if not usable:
        raise UserError(
            f"No point has both {axes.diversity} and {axes.quality} above 0; perplexity needs --scorers, words need "
            "--words, properties --property, and samples must not be empty."
        )
    made = [point.provenance for point in usable]
    check_match(made, dict.fromkeys(field for measure in axes.measures for field in measure.must_match))
    for run in dict.fromkeys(one.cell.run for one in made):
        check_match([one for one in made if one.cell.run == run], ("checkpoint", "seed"))
    curves = _curves(usable, axes, draws, pooled, names)
    counts = sorted({curve.steps for curve in curves if not curve.steps_fixed}) or [curves[0].steps]
    some = [[curve for curve in curves if curve.steps_fixed or curve.steps == steps] for steps in counts]
    groups = [Group(steps, group, _pairs(group), _rankings(group)) for steps, group in zip(counts, some, strict=True)]
    return Comparison(axes, groups, [*notes, *_agreement(usable)])


def _pairs(curves: Sequence[Curve]) -> list[Pair]:
    pairs = []
    for index, a in enumerate(curves):
        for b in curves[index + 1 :]:
            one, other = a.bootstrapped, b.bootstrapped
            winner = a if wholly_ahead(one, other) else b if wholly_ahead(other, one) else None
            pairs.append(Pair(a, b, dominance(one, other), winner))
    return pairs


def _rankings(curves: Sequence[Curve]) -> list[tuple[str, ...]] | None:
    """None if there are too many curves to try every order of."""
    if len(curves) > MOST_RANKED:
        return None
    return rankings({curve.label: curve.bootstrapped.cost.tolist() for curve in curves})


def _title(cell: Cell) -> str:
    return f"{cell.run}, {cell.steps} steps, {moved_by(cell)}"


def moved_by(cell: Cell) -> str:
    """What moves a point along its curve: the temperature, or the weight of guidance if there is some."""
    return f"weight {_place(cell):g}" if cell.guidance else f"temperature {_place(cell):g}"


def _curves(points: Sequence[Point], axes: Axes, draws: int, pooled: bool, names: Mapping[str, str]) -> list[Curve]:
    """In order of appearance."""
    grouped: dict[tuple[str, int, tuple[tuple[str, str], ...]], list[Point]] = {}
    for point in points:
        cell = point.cell
        grouped.setdefault((cell.run, cell.steps, tuple(options_of(cell, pooled).items())), []).append(point)
    return [
        Curve(
            run,
            dict(options),
            _label(names.get(run, run), options, [other for one, _, other in grouped if one == run]),
            steps,
            some[0].cell.steps_fixed,
            sorted(some, key=lambda point: _place(point.cell)),
            axes,
            draws,
        )
        for (run, steps, options), some in grouped.items()
    ]


def options_of(cell: Cell, pooled: bool = False) -> dict[str, str]:
    """What a cell is sampled with, but for steps and what moves along its curve.

    Pooled, temperatures and the forms of discrete guidance move too.
    """
    options = dict(cell.options)
    cuts = {"top_k": cell.top_k, "top_p": cell.top_p}
    if cell.guidance is not None:
        options["classifier"] = cell.guidance.classifier or "label"
        cuts |= {} if pooled else {"temperature": cell.temperature}
        cuts |= {"reveal": cell.guidance.reveal or None}
        options |= {} if pooled or cell.guidance.dcbg is None else {"dcbg": cell.guidance.dcbg}
    return options | {name: f"{value:g}" for name, value in cuts.items() if value is not None}


def _label(run: str, options: Sequence[tuple[str, str]], others: Sequence[Sequence[tuple[str, str]]]) -> str:
    """The run, and in brackets the options that not all of its curves share; numbers with their names."""
    own = [one for one in options if any(one not in other for other in others)]
    named = [f"{name} {value}" if name in _NUMBERS else value for name, value in own]
    return f"{run} ({', '.join(named)})" if named else run


def _place(cell: Cell) -> float:
    return float(cell.guidance.weight if cell.guidance else cell.temperature)


def _agreement(points: Sequence[Point]) -> list[str]:
    """Rank correlation of every further scorer's perplexities with the first one's."""
    notes = []
    for name in dict.fromkeys(name for point in points for name in point.measures if name.startswith("perplexity:")):
        pairs = [(point.measures.get("perplexity"), point.measures.get(name)) for point in points]
        both = torch.tensor([pair for pair in pairs if None not in pair], dtype=torch.float64).reshape(-1, 2)
        first = points[0].provenance.scorer
        if len(both) > 1 and first is not None:
            value = rank_correlation(both[:, 0], both[:, 1])
            other = name.partition(":")[2]
            notes.append(f"Rank correlation of {first['scorer']} and {other} over the points: {value:.3f}.")
    return notes
