"""What the page tells of a guided sweep: what its frontiers are made of, what an end of the grid adds, what it took."""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from candi import plots
from candi.evaluation.card import Card
from candi.evaluation.compare import Comparison, Curve
from candi.evaluation.pareto import dominance, front
from candi.report.tables import table
from candi.reproduce.ledger import Ledger
from candi.reproduce.times import milliseconds

_BEYOND = (
    "\\* an end of those that were tried: beyond it there may be more. What an end temperature adds: by how much the "
    "frontier falls without its points, on average over all diversities up to the largest that is reached without them "
    "(below 0 they only blur it); near temperature 0 drawing is choosing the likeliest token, and beyond that there is "
    "nothing. Times are medians over points; what a classifier adds to them: [performance](performance.md)."
)


def frontiers(comparison: Comparison, sweep: str, ledger: Ledger) -> list[str]:
    """Of curves that are the best of several temperatures: which ones, and what a molecule cost."""
    rows = []
    for group in comparison.groups:
        for curve in group.curves:
            cards = [line["card"] for line in curve.lines]
            best = [cards[index] for index in front(curve.points.diversity, curve.points.cost)]
            ways = [card["temperature"] for card in cards], [card["temperature"] for card in best]
            weights = [_weight(card) for card in cards], [_weight(card) for card in best]
            guidance, entry = cards[0].get("guidance") or {}, ledger.find(f"sweep {sweep}", cards[0]["run"])
            wanted = {"steps": curve.steps, "by": guidance.get("classifier")}
            times = [one for one in (entry or {}).get("each", []) if wanted.items() <= one.items()]
            each = milliseconds(times[0], entry or {}) if times else ""
            none = {0.0} if guidance.get("classifier") else set()  # beyond no guidance at all there is nothing
            ends = sorted({min(ways[0]), max(ways[0])} & set(ways[1]))
            adds = "; ".join(f"{end:g}: {_added(curve, end)}" for end in ends)
            rows.append([curve.label, str(group.steps), _starred(*ways), adds, _starred(*weights, none), each])
    head = ["", "steps", "temperatures on its frontier", "what an end of them adds", "weights on it"]
    return [table([*head, "milliseconds a molecule"], rows), _BEYOND]


def by_temperature(comparison: Comparison, stem: Path) -> list[str]:
    """Each temperature of a sweep that compares runs, and not ways to sample one."""
    curves = comparison.curves
    if {curve.label for curve in curves} != {curve.lines[0]["card"]["run"] for curve in curves}:
        return []
    plots.save(plots.by_temperature(comparison), stem.with_name(f"{stem.name}-temperatures"))
    told = "Each temperature alone, from weight to weight of guidance; in grey the best of all."
    return [told, f"![each temperature alone](figures/{stem.name}-temperatures.svg)"]


def _added(curve: Curve, temperature: float) -> str:
    """By how much the frontier of all points is ahead of that without the points of one temperature: its best also
    stands for all lower diversities, so that what only the end reaches there is counted."""
    others = np.array([line["card"]["temperature"] != temperature for line in curve.lines])
    found = dominance(curve.points, curve.points.only(others), extended=True) if others.any() else None
    if found is None:
        return "all there is"
    gains = curve.axes.quality_of(np.array([found.ratio, found.ratio_high, found.ratio_low]))
    mean, low, high = (f"{gain:.3f}" for gain in gains.round(3) + 0.0)  # no -0.000
    return f"{mean} ({low} to {high})"


def _weight(card: Card) -> float:
    return float(card["guidance"]["weight"]) if card.get("guidance") else 0.0


def _starred(tried: Sequence[float], best: Sequence[float], natural: Collection[float] = ()) -> str:
    """`natural` are ends that nothing lies beyond."""
    ends = {min(tried), max(tried)} - set(natural)
    return ", ".join(f"{value:g}{'*' if value in ends else ''}" for value in sorted(set(best)))
