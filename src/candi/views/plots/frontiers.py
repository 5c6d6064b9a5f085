"""Frontiers, and histograms of molecules."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from candi.evaluation.compare import Comparison
from candi.evaluation.pareto import front
from candi.views.plots.style import COLOURS, STYLE, by_ratios, colour, legend, several, spread

# diversity and quality of what is no run: the text itself, say
ReferencePoints = Mapping[str, tuple[float, float]]


def frontiers(comparison: Comparison, references: ReferencePoints = MappingProxyType({})) -> Figure:
    """A panel for each number of steps: fronts with their bands, dominated points hollow; black, what is no run."""
    costs = [value for curve in comparison.curves for value in curve.values[1]]
    wide = not comparison.axes.measures[1].higher_is_better and spread(costs)
    with matplotlib.rc_context(STYLE):
        figure, panels = panels_of([group.steps for group in comparison.groups], comparison.labels, wide)
        for group, axes in zip(comparison.groups, panels, strict=True):
            for curve in group.curves:
                shade, band = colour(curve.label, comparison.names), curve.band
                axes.fill_between(band.diversity, band.low, band.high, color=shade, alpha=0.18, linewidth=0)
                x, y = curve.values
                kept = front(curve.bootstrapped.diversity, curve.bootstrapped.cost)
                axes.plot(band.diversity, band.quality, color=shade)
                axes.plot(x[kept], y[kept], "o", color=shade, markersize=4, label=curve.label)
                rest = [index for index in range(len(x)) if index not in kept]
                axes.plot(x[rest], y[rest], "o", markersize=4, markerfacecolor="none", color=shade)
            mark_references(axes, references)
        legend(figure, panels)
    return figure


def panels_of(steps: Sequence[int], names: tuple[str, str], wide: bool) -> tuple[Figure, list[Axes]]:
    """One for each number of steps, up to four beside each other; costs that lie far apart by their ratios."""
    high = -(-len(steps) // 4)
    across = -(-len(steps) // high)
    figure = Figure(figsize=(max(4.2, 3.3 * across), 3.3 * high + 0.5), layout="constrained")
    panels = list(figure.subplots(high, across, squeeze=False, sharex=True, sharey=True).flat)
    for panel in panels[len(steps) :]:
        panel.set_visible(False)
    for panel in panels[len(steps) - across : len(steps)]:  # what lies below is empty
        panel.tick_params(labelbottom=True)
    if wide:
        panels[0].set_yscale("log")
        by_ratios(panels[0].yaxis)
    for count, panel in zip(steps, panels, strict=False):
        panel.set_title(f"{count} steps", fontsize=10)
    figure.supxlabel(names[0], fontsize=10)
    figure.supylabel(names[1], fontsize=10)
    return figure, panels[: len(steps)]


def mark_references(axes: Axes, references: ReferencePoints) -> None:
    for (name, place), mark in zip(references.items(), ("*", "x"), strict=False):
        axes.plot(*place, mark, color="#000000", markersize=7, label=name)


def histogram(values: Sequence[float], label: str, least: float) -> Figure:
    """Of a property; what lies below `least` is pale."""
    with matplotlib.rc_context(STYLE):
        figure, (axes,) = several(1, (6.0, 2.2))
        counts, edges = np.histogram(values, bins=min(20, max(4, len(values) // 2)))
        shades = [COLOURS[0] if edge >= least - 1e-9 else "#b9cfe0" for edge in edges[:-1]]
        axes.bar(edges[:-1], counts, np.diff(edges), align="edge", color=shades, edgecolor="white")
        axes.set_xlabel(label)
        axes.set_ylabel("molecules")
    return figure
