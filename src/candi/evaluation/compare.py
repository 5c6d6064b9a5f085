"""Who is ahead, where, by how much and how surely: from the points of a sweep, with their cards checked first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from candi.errors import UserError
from candi.evaluation.card import must_agree
from candi.evaluation.measures import Measure, measure_named
from candi.evaluation.pareto import (
    MOST_RANKED,
    Band,
    Dominance,
    Numbers,
    Points,
    band,
    dominance,
    rankings,
    wholly_ahead,
)
from candi.evaluation.scorers import rank_correlation
from candi.evaluation.table import Line

_MATCHED = 5  # diversities of the table


@dataclass(frozen=True)
class Axes:
    """The two measures that a frontier is drawn in."""

    diversity: str
    quality: str
    less: bool = False  # is a property wanted small?
    per: str | None = None  # what a judge's tokens are, if they are something that a reader knows

    @property
    def measures(self) -> tuple[Measure, Measure]:
        return measure_named(self.diversity, True), measure_named(self.quality, False)

    def cost(self, quality: Numbers) -> Numbers:
        """Quality as a positive number that is the better the lower."""
        measure = self.measures[1]
        if measure.additive:
            return np.exp(quality if self.less else -quality)
        return 1 / np.where(quality > 0, quality, np.nan) if measure.higher_is_better else quality

    def quality_of(self, cost: Numbers) -> Numbers:
        """The inverse of `cost`."""
        if self.measures[1].additive:
            return np.log(cost) if self.less else -np.log(cost)
        return self.cost(cost)


@dataclass(frozen=True)
class Curve:
    """The points of one run with one number of steps and one choice of options: what temperature moves along."""

    label: str
    steps: int
    steps_fixed: bool
    lines: Sequence[Line]
    axes: Axes
    draws: int = 500

    @cached_property
    def values(self) -> tuple[Numbers, Numbers]:
        """Diversity and quality of each point, as measured."""
        found = [[line["measures"][name] for line in self.lines] for name in (self.axes.diversity, self.axes.quality)]
        return np.array(found[0], dtype=np.float64), np.array(found[1], dtype=np.float64)

    @cached_property
    def points(self) -> Points:
        """Drawn again sample by sample: one choice for the whole curve, whose points share their random numbers.

        What belongs to all samples together stays as it was measured.
        """
        count = self.lines[0]["card"]["n"]
        chosen = np.random.default_rng(0).integers(count, size=(self.draws, count))
        diversity, quality = (
            self._again(measure, value, chosen) for measure, value in zip(self.axes.measures, self.values, strict=True)
        )
        judged = self.axes.measures[1].above is not None
        return Points(self.values[0], self.axes.cost(self.values[1]), diversity, self.axes.cost(quality), judged)

    def _again(self, measure: Measure, measured: Numbers, chosen: Any) -> Numbers:
        if measure.above is None:
            return np.repeat(measured[None], len(chosen), 0)
        return np.stack([measure.again(line["columns"], chosen) for line in self.lines], -1)

    @cached_property
    def band(self) -> Band:
        found = band(self.points)
        low, high = self.axes.quality_of(found.low), self.axes.quality_of(found.high)
        return Band(found.diversity, self.axes.quality_of(found.quality), np.minimum(low, high), np.maximum(low, high))


@dataclass(frozen=True)
class Pair:
    """One curve against another. Without a shared range of diversity one can still be ahead in everything."""

    first: str
    second: str
    result: Dominance | None
    winner: str | None = None


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
        name = self.groups[0].curves[0].lines[0]["card"].get("property")
        diversity, quality = (measure.label for measure in self.axes.measures)
        quality += f" per {self.axes.per}" if self.axes.per else ""
        return diversity, f"mean {name} of the valid molecules" if self.axes.quality == "property" else quality


def compare(lines: Sequence[Line], axes: Axes, draws: int = 500, pooled: bool = False) -> Comparison:
    """Refuses points whose cards disagree in what must agree, naming the field.

    Guided points of several temperatures are a curve for each temperature, or pooled into one of the best of all.
    """
    lines = list({line["key"]: line for line in lines}.values())
    notes, usable = [], []
    for line in lines:
        missing = [name for name in (axes.diversity, axes.quality) if line["measures"].get(name) is None]
        if missing:
            notes.append(f"Left out: {_told(line['card'])} has no {missing[0]}.")
        elif line["measures"][axes.quality] <= 0 and not axes.measures[1].additive:
            notes.append(f"Left out: {_told(line['card'])} has a {axes.quality} of 0.")
        else:
            usable.append(line)
    if not usable:
        raise UserError(
            f"No point has both {axes.diversity} and {axes.quality} above 0; perplexity needs a --scorer, words need "
            "--words, properties --molecules, and samples must not be empty."
        )
    cards = [line["card"] for line in usable]
    must_agree(cards, dict.fromkeys(field for measure in axes.measures for field in measure.agree))
    for run in dict.fromkeys(card["run"] for card in cards):
        must_agree([card for card in cards if card["run"] == run], ("checkpoint", "seed"))
    curves = _curves(usable, axes, draws, pooled)
    counts = sorted({curve.steps for curve in curves if not curve.steps_fixed}) or [curves[0].steps]
    some = [[curve for curve in curves if curve.steps_fixed or curve.steps == steps] for steps in counts]
    groups = [Group(steps, group, _pairs(group), _rankings(group)) for steps, group in zip(counts, some, strict=True)]
    return Comparison(axes, groups, [*notes, *_agreement(usable)])


def _pairs(curves: Sequence[Curve]) -> list[Pair]:
    pairs = []
    for index, a in enumerate(curves):
        for b in curves[index + 1 :]:
            winner = a if wholly_ahead(a.points, b.points) else b if wholly_ahead(b.points, a.points) else None
            pairs.append(Pair(a.label, b.label, dominance(a.points, b.points), winner.label if winner else None))
    return pairs


def _rankings(curves: Sequence[Curve]) -> list[tuple[str, ...]] | None:
    """None if there are too many curves to try every order of."""
    if len(curves) > MOST_RANKED:
        return None
    return rankings({curve.label: curve.points.cost.tolist() for curve in curves})


def _told(card: Mapping[str, Any]) -> str:
    return f"{card['run']}, {card['steps']} steps, {moved_by(card)}"


def moved_by(card: Mapping[str, Any]) -> str:
    """What moves a point along its curve: the temperature, or the weight of guidance if there is some."""
    return f"weight {_place(card):g}" if card.get("guidance") else f"temperature {_place(card):g}"


def _curves(lines: Sequence[Line], axes: Axes, draws: int, pooled: bool) -> list[Curve]:
    """In order of appearance. What a run was sampled with is named as far as its curves differ in it."""
    grouped: dict[tuple[str, int, _Way], list[Line]] = {}
    for line in lines:
        card = line["card"]
        grouped.setdefault((card["run"], card["steps"], _way(card, pooled)), []).append(line)
    return [
        Curve(
            _label(run, way, [other for one, _, other in grouped if one == run]),
            steps,
            some[0]["card"]["steps_fixed"],
            sorted(some, key=lambda line: _place(line["card"])),
            axes,
            draws,
        )
        for (run, steps, way), some in grouped.items()
    ]


_Way = tuple[tuple[str, str], ...]  # what a curve was sampled with: names, and how they are told


def _way(card: Mapping[str, Any], pooled: bool) -> _Way:
    """All but steps and what moves along the curve: the temperature, or the weight of guidance if there is some."""
    cuts = {name: card[name] for name in ("top_k", "nucleus") if card[name] is not None}
    guidance = card.get("guidance")
    by = {}
    if guidance:
        cuts |= {} if pooled else {"temperature": card["temperature"]}
        cuts |= {"reveal": guidance["reveal"]} if guidance["reveal"] else {}
        by = {"by": f"{guidance['classifier'] or 'label'} {guidance['target']}"}
    return tuple({**card["options"], **by, **{name: f"{name} {value:g}" for name, value in cuts.items()}}.items())


def _label(run: str, way: _Way, ways: Sequence[_Way]) -> str:
    """The run, and in brackets what not all of its curves share."""
    told = ", ".join(text for name, text in way if any((name, text) not in other for other in ways))
    return f"{run} ({told})" if told else run


def _place(card: Mapping[str, Any]) -> float:
    return float(card["guidance"]["weight"] if card.get("guidance") else card["temperature"])


def _agreement(lines: Sequence[Line]) -> list[str]:
    """Rank correlation of every further scorer's perplexities with the first one's."""
    told = []
    for name in dict.fromkeys(name for line in lines for name in line["measures"] if name.startswith("perplexity:")):
        pairs = [(line["measures"].get("perplexity"), line["measures"].get(name)) for line in lines]
        both = torch.tensor([pair for pair in pairs if None not in pair], dtype=torch.float64).reshape(-1, 2)
        if len(both) > 1:
            first = lines[0]["card"]["scorer"]["scorer"]
            value = rank_correlation(both[:, 0], both[:, 1])
            told.append(f"Rank correlation of {first} and {name.partition(':')[2]} over the points: {value:.3f}.")
    return told
