"""What the page of results says of a sweep, beside its frontiers."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from candi import plots
from candi.evaluation.compare import Comparison
from candi.evaluation.over_steps import over_steps
from candi.evaluation.single_temperature import winners
from candi.report.tables import matched_rows, table


def quality_over_steps(comparison: Comparison, stem: Path, title: str) -> list[str]:
    found = over_steps(comparison) if len(comparison.groups) > 1 else None
    if found is None:
        return []
    plots.save(plots.over_steps(found, comparison.labels), stem.with_name(f"{stem.name}-steps"))
    return [f"![{title}, over the number of steps](figures/{stem.name}-steps.svg)"]


def along(comparison: Comparison) -> list[str]:
    """What more steps do to diversity where the temperature stays: they too move samples along a frontier."""
    curves = [curve for curve in comparison.curves if not curve.steps_fixed]
    found = {
        (curve.label, line["card"]["temperature"], curve.steps): value
        for curve in curves
        for line, value in zip(curve.lines, curve.values[0], strict=True)
    }
    labels, steps = dict.fromkeys(curve.label for curve in curves), sorted({curve.steps for curve in curves})
    shared = [
        t for t in sorted({t for _, t, _ in found}) if all((label, t, s) in found for label in labels for s in steps)
    ]
    if len(steps) < 2 or not shared:
        return []
    middle, diversity = shared[len(shared) // 2], comparison.labels[0]
    moved = (
        f"{label} {found[label, middle, steps[0]]:.3f} to {found[label, middle, steps[-1]]:.3f}" for label in labels
    )
    return [
        f"At one temperature ({middle:g}), {steps[-1]} steps in the place of {steps[0]} change the {diversity}: "
        f"{', '.join(moved)}. That is a way along the curves; what steps gain is the distance between them."
    ]


def trap(comparison: Comparison) -> list[str]:
    """The rankings of its curves that somebody finds who chooses a temperature for each."""
    counts = [(group.steps, len(group.rankings)) for group in comparison.groups if group.rankings is not None]
    if not any(count > 1 for _, count in counts):
        return []
    told = ", ".join(f"{count} at {steps} steps" for steps, count in counts)
    return [f"The single-temperature trap: one temperature for each curve can give so many different rankings: {told}."]


def shown_trap(comparison: Comparison, labels: Sequence[str], stem: Path) -> list[str]:
    """Each of some curves as the best of them, where one temperature for each lets it be."""
    walked = {curve.label for curve in comparison.curves if not curve.steps_fixed}
    shown = [label for label in labels if label in walked]
    found = winners(comparison, shown) if len(shown) > 1 else []
    if len(found) < 2:
        return []
    plots.save(
        plots.single_temperatures(found, comparison.labels, comparison.names), stem.with_name(f"{stem.name}-trap")
    )
    told = "; ".join(
        f"{one.winner} ({', '.join(f'{label} at {t:g}' for label, t in one.temperatures.items())})" for one in found
    )
    return [
        f"![The same points at one temperature for each](figures/{stem.name}-trap.svg)",
        f"Of the same points a choice of one temperature for each makes any of these best at every number of steps: "
        f"{told}. What gives a choice away is the {comparison.labels[0]}, whose range is in the legends.",
    ]


def matched(comparison: Comparison) -> Iterator[str]:
    diversity, quality = comparison.labels
    for group in comparison.groups:
        head, rows = matched_rows(group)
        yield f"{group.steps} steps, {quality} by {diversity}"
        yield table(head, rows)
