"""What the page says of a guided sweep: the points of its frontiers, what an end of the grid adds, the time it took."""

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from candi.base.markdown import table
from candi.diffusion.guidance import DCBG
from candi.evaluation.compare import Comparison, Curve
from candi.evaluation.pareto import dominance, front
from candi.evaluation.provenance import Cell
from candi.views.plots import save
from candi_lab.report import plots
from candi_lab.report.times import milliseconds
from candi_lab.runner.ledger import Ledger
from candi_lab.runner.timing import read_times

_LEGEND = (
    "\\* an end of the values that were tried: beyond it there may be more. What an end temperature adds: by how much "
    "the frontier falls without its points, on average over all diversities up to the largest that is reached without "
    "them (below 0 they only blur it); near temperature 0 drawing is choosing the likeliest token, and beyond that "
    "there is nothing. Times are medians over points; what a classifier adds to them: [performance](performance.md)."
)


def frontier_table(comparison: Comparison, sweep: str, ledger: Ledger) -> list[str]:
    """Which temperatures and weights make the frontiers, and what a molecule took."""
    rows = []
    for group in comparison.groups:
        for curve in group.curves:
            cells = [point.cell for point in curve.points]
            best = [cells[index] for index in front(curve.bootstrapped.diversity, curve.bootstrapped.cost)]
            tried, kept = [cell.temperature for cell in cells], [cell.temperature for cell in best]
            ends = sorted({min(tried), max(tried)} & set(kept))
            adds = "; ".join(f"{end:g}: {_added(curve, end)}" for end in ends)
            by = cells[0].guidance.classifier if cells[0].guidance else None
            natural = {0.0} if by else set()  # nothing lies beyond no guidance at all
            weights = _starred([_weight(cell) for cell in cells], [_weight(cell) for cell in best], natural)
            times = read_times(ledger.find(f"sweep {sweep}", curve.run))
            each = next((milliseconds(one) for one in times if (one.steps, one.by) == (curve.steps, by)), "")
            rows.append([curve.label, str(group.steps), _starred(tried, kept), adds, weights, _forms(best), each])
    head = ["", "steps", "temperatures on its frontier", "what an end of them adds", "weights on it", "guidance on it"]
    return [table([*head, "milliseconds a molecule"], rows), _LEGEND]


def by_temperature(comparison: Comparison, stem: Path) -> list[str]:
    """Each temperature alone, for a sweep that compares runs and not ways to sample one."""
    if len({curve.run for curve in comparison.curves}) < len(comparison.names):
        return []
    save(plots.by_temperature(comparison), stem.with_name(f"{stem.name}-temperatures"))
    text = "Each temperature alone, from weight to weight of guidance; in grey the best of all."
    return [text, f"![each temperature alone](figures/{stem.name}-temperatures.svg)"]


def _added(curve: Curve, temperature: float) -> str:
    """By how much the frontier of all points is ahead of that without the points of one temperature.

    The best of a frontier also stands for all lower diversities, so that what only the end reaches there is counted.
    """
    others = np.array([point.cell.temperature != temperature for point in curve.points])
    every = curve.bootstrapped
    found = dominance(every, every.only(others), extended=True) if others.any() else None
    if found is None:
        return "all there is"
    gains = curve.axes.quality_of(np.array([found.ratio, found.ratio_high, found.ratio_low]))
    mean, low, high = (f"{gain:.3f}" for gain in gains.round(3) + 0.0)  # no -0.000
    return f"{mean} ({low} to {high})"


def _forms(cells: Sequence[Cell]) -> str:
    """How the points of a frontier are guided, and how many of them."""
    forms = Counter(_form(cell) for cell in cells)
    return ", ".join(f"{form} ({count})" for form, count in forms.most_common())


def _form(cell: Cell) -> str:
    if cell.guidance is None:
        return "none"
    if cell.guidance.classifier is None:
        return "by label"
    return "gradient" if cell.guidance.noise is None else cell.guidance.dcbg or DCBG[0]


def _weight(cell: Cell) -> float:
    return cell.guidance.weight if cell.guidance else 0.0


def _starred(tried: Sequence[float], best: Sequence[float], natural: Collection[float] = ()) -> str:
    """`natural` are ends that nothing lies beyond."""
    ends = {min(tried), max(tried)} - set(natural)
    return ", ".join(f"{value:g}{'*' if value in ends else ''}" for value in sorted(set(best)))
