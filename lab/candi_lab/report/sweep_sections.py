"""What the page of results says of a sweep, beside its frontiers."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from candi.base.markdown import table
from candi.evaluation.compare import Comparison
from candi.views.plots import save
from candi.views.tables import matched_rows
from candi_lab.report import plots
from candi_lab.runner.schema import CurveRef, find_curve
from candi_lab.verdicts.over_steps import over_steps
from candi_lab.verdicts.single_temperature import winners


def quality_over_steps(comparison: Comparison, stem: Path, title: str) -> list[str]:
    found = over_steps(comparison) if len(comparison.groups) > 1 else None
    if found is None:
        return []
    save(plots.over_steps(found, comparison.labels), stem.with_name(f"{stem.name}-steps"))
    return [f"![{title}, over the number of steps](figures/{stem.name}-steps.svg)"]


def frontiers_by_run(comparison: Comparison, stem: Path, title: str) -> list[str]:
    """What more steps buy, one run at a time."""
    if len(comparison.groups) < 2:
        return []
    save(plots.by_run(comparison), stem.with_name(f"{stem.name}-runs"))
    return [f"![{title}, each run over its numbers of steps](figures/{stem.name}-runs.svg)"]


def diversity_over_steps(comparison: Comparison) -> list[str]:
    """What more steps do to diversity at a fixed temperature: they too move samples along a frontier."""
    curves = [curve for curve in comparison.curves if not curve.steps_fixed]
    found = {
        (curve.label, point.cell.temperature, curve.steps): value
        for curve in curves
        for point, value in zip(curve.points, curve.values[0], strict=True)
    }
    labels, steps = dict.fromkeys(curve.label for curve in curves), sorted({curve.steps for curve in curves})
    shared = [
        t for t in sorted({t for _, t, _ in found}) if all((label, t, s) in found for label in labels for s in steps)
    ]
    if len(steps) < 2 or not shared:
        return []
    middle, diversity = shared[len(shared) // 2], comparison.labels[0]
    changes = (
        f"{label} {found[label, middle, steps[0]]:.3f} to {found[label, middle, steps[-1]]:.3f}" for label in labels
    )
    return [
        f"At one temperature ({middle:g}), {steps[-1]} steps instead of {steps[0]} change the {diversity}: "
        f"{', '.join(changes)}. That is a way along the curves; what steps gain is the distance between them."
    ]


def count_rankings(comparison: Comparison) -> list[str]:
    """How many rankings of its curves a choice of one temperature for each can give."""
    counts = [(group.steps, len(group.rankings)) for group in comparison.groups if group.rankings is not None]
    if not any(count > 1 for _, count in counts):
        return []
    text = ", ".join(f"{count} at {steps} steps" for steps, count in counts)
    return [f"The single-temperature trap: one temperature for each curve can give so many different rankings: {text}."]


def show_trap(comparison: Comparison, refs: Sequence[CurveRef], stem: Path) -> list[str]:
    """Each of some curves as the best of them, if a choice of one temperature for each makes it so."""
    curves = [find_curve(ref, comparison.groups[0].curves) for ref in refs]
    labels = [curve.label for curve in curves if curve is not None and not curve.steps_fixed]
    found = winners(comparison, labels) if len(labels) > 1 else []
    if len(found) < 2:
        return []
    save(plots.single_temperatures(found, comparison.labels, comparison.names), stem.with_name(f"{stem.name}-trap"))
    text = "; ".join(
        f"{one.winner} ({', '.join(f'{label} at {t:g}' for label, t in one.temperatures.items())})" for one in found
    )
    return [
        f"![The same points at one temperature for each](figures/{stem.name}-trap.svg)",
        f"Of the same points a choice of one temperature for each makes any of these best at every number of steps: "
        f"{text}. The {comparison.labels[0]}, whose range is in the legends, gives the choice away.",
    ]


def matched_tables(comparison: Comparison) -> Iterator[str]:
    diversity, quality = comparison.labels
    for group in comparison.groups:
        head, rows = matched_rows(group)
        yield f"{group.steps} steps, {quality} by {diversity}"
        yield table(head, rows)
