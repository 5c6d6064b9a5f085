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
from candi.evaluation.pareto import Band, Dominance, Numbers, band, dominance, front, rankings
from candi.evaluation.scorers import rank_correlation
from candi.evaluation.table import Line

_GRID = 41  # diversities at which a band is computed
_MATCHED = 5  # diversities of the table
_MOST_RANKED = 6


@dataclass(frozen=True)
class Axes:
    """The two measures that a frontier is drawn in."""

    diversity: str
    quality: str

    @property
    def measures(self) -> tuple[Measure, Measure]:
        return measure_named(self.diversity, True), measure_named(self.quality, False)

    def cost(self, quality: Numbers) -> Numbers:
        """Quality as a number that is the better the lower; its own inverse."""
        return 1 / quality if self.measures[1].higher_is_better else quality


@dataclass(frozen=True)
class Curve:
    """The points of one run with one number of steps and one choice of options: what temperature moves along."""

    label: str
    steps: int
    steps_fixed: bool
    lines: Sequence[Line]
    axes: Axes

    @cached_property
    def values(self) -> tuple[Numbers, Numbers]:
        """Diversity and quality of each point, as measured."""
        found = [[line["measures"][name] for line in self.lines] for name in (self.axes.diversity, self.axes.quality)]
        return np.array(found[0], dtype=np.float64), np.array(found[1], dtype=np.float64)

    @property
    def costs(self) -> tuple[Numbers, Numbers]:
        diversity, quality = self.values
        return diversity, self.axes.cost(quality)

    @cached_property
    def _columns(self) -> list[dict[str, Numbers]]:
        return [
            {name: np.asarray(row, dtype=np.float64) for name, row in line["columns"].items()} for line in self.lines
        ]

    def again(self, random: np.random.Generator) -> tuple[Numbers, Numbers]:
        """The same points, each from samples drawn with replacement. What belongs to all samples together stays."""
        measures = self.axes.measures
        drawn = [value.copy() for value in self.values]
        for index, columns in enumerate(self._columns):
            count = len(columns["entropy"])
            chosen = random.integers(count, size=count)
            for measure, values in zip(measures, drawn, strict=True):
                if measure.above is not None:
                    values[index] = measure.of(columns, chosen)
        return drawn[0], self.axes.cost(drawn[1])

    def band(self, draws: int = 500) -> Band:
        diversity, cost = self.costs
        ends = diversity[front(diversity, cost)]
        found = band(diversity, cost, self.again, np.linspace(ends[0], ends[-1], _GRID), draws)
        low, high = self.axes.cost(found.low), self.axes.cost(found.high)
        return Band(found.diversity, self.axes.cost(found.quality), np.minimum(low, high), np.maximum(low, high))


@dataclass(frozen=True)
class Pair:
    """One curve against another; None where they share no range of diversity."""

    first: str
    second: str
    result: Dominance | None


@dataclass(frozen=True)
class Group:
    """Curves that cost the same number of steps, and beside them those whose method decides its own."""

    steps: int
    curves: Sequence[Curve]
    bands: Mapping[str, Band]
    pairs: Sequence[Pair]
    rankings: Sequence[tuple[str, ...]]

    def matched(self) -> tuple[Numbers, dict[str, list[tuple[float, float, float]]]]:
        """Diversities that most curves reach, and each curve's quality there with its interval."""
        low = max(band.diversity[0] for band in self.bands.values())
        high = min(band.diversity[-1] for band in self.bands.values())
        if low >= high:  # no range is shared by all: the whole range, with gaps
            low = min(band.diversity[0] for band in self.bands.values())
            high = max(band.diversity[-1] for band in self.bands.values())
        where = np.linspace(low, high, _MATCHED)
        return where, {
            label: [tuple(float(_at(band, row, x)) for row in (band.quality, band.low, band.high)) for x in where]  # type: ignore[misc]
            for label, band in self.bands.items()
        }


def _at(band: Band, values: Numbers, x: float) -> float:
    # a hair of room: the ends of the grid are computed in two ways
    hair = 1e-9 * max(1.0, abs(x))
    if not band.diversity[0] - hair <= x <= band.diversity[-1] + hair:
        return float("nan")
    return float(np.interp(x, band.diversity, values))


@dataclass(frozen=True)
class Comparison:
    axes: Axes
    groups: Sequence[Group]
    left_out: Sequence[str]
    agreement: Mapping[str, float]


def compare(lines: Sequence[Line], axes: Axes, draws: int = 500) -> Comparison:
    """Refuses points whose cards disagree in what must agree, naming the field."""
    measures = axes.measures
    usable, left_out = [], []
    for line in lines:
        if all(_number(line, name) for name in (axes.diversity, axes.quality)):
            usable.append(line)
        else:
            left_out.append(_label(line["card"]))
    if not usable:
        raise UserError(
            f"No point has both {axes.diversity} and {axes.quality}; perplexity needs a --scorer, words need --words."
        )
    cards = [line["card"] for line in usable]
    must_agree(cards, dict.fromkeys(field for measure in measures for field in measure.agree))
    for run in dict.fromkeys(card["run"] for card in cards):
        must_agree([card for card in cards if card["run"] == run], ("checkpoint",))
    curves = _curves(usable, axes)
    counts = sorted({curve.steps for curve in curves if not curve.steps_fixed}) or [curves[0].steps]
    bands = {id(curve): curve.band(draws) for curve in curves}
    groups = []
    for steps in counts:
        some = [curve for curve in curves if curve.steps_fixed or curve.steps == steps]
        named = {curve.label: curve for curve in some}
        pairs = [
            Pair(a.label, b.label, dominance(a.costs, b.costs, a.again, b.again, draws))
            for i, a in enumerate(some)
            for b in some[i + 1 :]
        ]
        choices = {label: curve.costs[1].tolist() for label, curve in named.items()}
        orders = rankings(choices) if len(choices) <= _MOST_RANKED else []
        groups.append(Group(steps, some, {label: bands[id(curve)] for label, curve in named.items()}, pairs, orders))
    return Comparison(axes, groups, left_out, _agreement(usable))


def _number(line: Line, name: str) -> bool:
    value = line["measures"].get(name)
    return value is not None and value > 0


def _label(card: Mapping[str, Any]) -> str:
    return f"{card['run']}, {card['steps']} steps, temperature {card['temperature']:g}"


def _curves(lines: Sequence[Line], axes: Axes) -> list[Curve]:
    """In order of appearance. Options are named where a run was sampled with several."""
    grouped: dict[tuple[str, int, str], list[Line]] = {}
    for line in lines:
        card = line["card"]
        grouped.setdefault((card["run"], card["steps"], ", ".join(card["options"].values())), []).append(line)
    several = {run for run, _, options in grouped for other, _, else_ in grouped if run == other and options != else_}
    return [
        Curve(
            f"{run} ({options})" if run in several else run,
            steps,
            some[0]["card"]["steps_fixed"],
            sorted(some, key=lambda line: line["card"]["temperature"]),
            axes,
        )
        for (run, steps, options), some in grouped.items()
    ]


def _agreement(lines: Sequence[Line]) -> dict[str, float]:
    """Rank correlation of every further scorer's perplexities with the first one's."""
    found = {}
    for name in dict.fromkeys(name for line in lines for name in line["measures"] if name.startswith("perplexity:")):
        pairs = [(line["measures"].get("perplexity"), line["measures"].get(name)) for line in lines]
        both = torch.tensor([pair for pair in pairs if None not in pair], dtype=torch.float64).reshape(-1, 2)
        if len(both) > 1:
            found[name.partition(":")[2]] = rank_correlation(both[:, 0], both[:, 1])
    return found
