"""What was measured: speed, frontiers, molecules."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from candi.evaluation.compare import Comparison
from candi.evaluation.pareto import front
from candi.plots.style import COLOURS, STYLE, by_ratios, colour, legend, several, spread

Landmarks = Mapping[str, tuple[float, float]]  # diversity and quality of what is no run


def speed(rows: Sequence[Mapping[str, Any]], machine: Mapping[str, Any]) -> Figure:
    """Tokens a second against denoising steps, and the pace of autoregression, which has no steps to choose."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 4.0))
        axes: Axes = figure.add_subplot()
        lines = [("candi, approximate", "CANDI", "o"), ("mdlm", "MDLM", "s")]
        for (kind, label, marker), shade in zip(lines, COLOURS, strict=False):
            points = sorted((r["steps"], r["tokens_per_second"]) for r in rows if r.get("kind") == kind)
            axes.plot(*zip(*points, strict=True), marker=marker, markersize=5, color=shade, label=label)
        cached = [r["tokens_per_second"] for r in rows if str(r.get("kind", "")).startswith("autoregressive")]
        if cached:
            axes.axhline(cached[0], color="#444444", linestyle="--", linewidth=1.4, label="autoregressive, KV cache")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        steps = sorted({r["steps"] for r in rows if r.get("kind") == "candi, approximate"})
        axes.set_xticks(steps, [str(s) for s in steps])
        axes.set_xlabel("denoising steps")
        axes.set_ylabel("tokens a second")
        sizes = next(r for r in rows if r.get("kind") == "candi, approximate")
        about = f"V = {sizes['vocab_size']:,}, length {sizes['length']:,}, batch {sizes['batch']}"
        axes.set_title(f"{machine['device']}: {about}", fontsize=9, loc="left", color="#444444")
        axes.legend(frameon=False)
    return figure


def frontiers(comparison: Comparison, landmarks: Landmarks = MappingProxyType({})) -> Figure:
    """A panel for each number of steps: fronts with their bands, dominated points hollow; black, what is no run."""
    costs = [value for curve in comparison.curves for value in curve.values[1]]
    wide = not comparison.axes.measures[1].higher_is_better and spread(costs)
    with matplotlib.rc_context(STYLE):
        figure, panels = _panels([group.steps for group in comparison.groups], comparison.labels, wide)
        for group, axes in zip(comparison.groups, panels, strict=True):
            for curve in group.curves:
                shade, band = colour(curve.label, comparison.names), curve.band
                axes.fill_between(band.diversity, band.low, band.high, color=shade, alpha=0.18, linewidth=0)
                x, y = curve.values
                kept = front(curve.points.diversity, curve.points.cost)
                axes.plot(band.diversity, band.quality, color=shade)
                axes.plot(x[kept], y[kept], "o", color=shade, markersize=4, label=curve.label)
                rest = [index for index in range(len(x)) if index not in kept]
                axes.plot(x[rest], y[rest], "o", markersize=4, markerfacecolor="none", color=shade)
            _mark(axes, landmarks)
        legend(figure, panels)
    return figure


def by_another_judge(comparison: Comparison, measure: str, landmarks: Landmarks = MappingProxyType({})) -> Figure:
    """The same points in a further judge's perplexity; of such ones there are no bands."""
    judge, labels = measure.partition(":")[2], comparison.names
    found = [
        (group.steps, curve.label, curve.values[0], _numbers(line["measures"].get(measure) for line in curve.lines))
        for group in comparison.groups
        for curve in group.curves
    ]
    wide = spread(y for *_, some in found for y in some[np.isfinite(some)])
    with matplotlib.rc_context(STYLE):
        steps = [group.steps for group in comparison.groups]
        figure, panels = _panels(steps, (comparison.labels[0], f"perplexity by {judge}"), wide)
        for count, label, x, y in found:
            order = np.argsort(x)
            axes = panels[steps.index(count)]
            axes.plot(x[order], y[order], "o-", color=colour(label, labels), markersize=4, label=label)
        for axes in panels:
            _mark(axes, landmarks)
        legend(figure, panels)
    return figure


def _numbers(values: Iterable[float | None]) -> NDArray[np.float64]:
    """nan where there is none."""
    return np.array(list(values), dtype=np.float64)


def _panels(steps: Sequence[int], names: tuple[str, str], wide: bool) -> tuple[Figure, list[Axes]]:
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


def _mark(axes: Axes, landmarks: Landmarks) -> None:
    for (name, place), mark in zip(landmarks.items(), ("*", "x"), strict=False):
        axes.plot(*place, mark, color="#000000", markersize=7, label=name)


def by_temperature(comparison: Comparison) -> Figure:
    """A row for each curve that is the best of several temperatures, a panel for each number of steps: what each
    temperature gives alone, from weight to weight of guidance, and in grey the best of them."""
    labels = comparison.names
    cards = [line["card"] for curve in comparison.curves for line in curve.lines]
    tried = sorted({card["temperature"] for card in cards})
    shades = matplotlib.colormaps["viridis"](np.linspace(0, 0.92, len(tried)))
    with matplotlib.rc_context(STYLE):
        size = max(4.2, 3.3 * len(comparison.groups)), 2.5 * len(labels) + 0.7
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(len(labels), len(comparison.groups), squeeze=False, sharex=True, sharey=True)
        for group, column in zip(comparison.groups, panels.T, strict=True):
            for curve in group.curves:
                axes, (x, y) = column[labels.index(curve.label)], curve.values
                axes.set_title(f"{curve.label}, {group.steps} steps", fontsize=10)
                axes.plot(curve.band.diversity, curve.band.quality, color="#c8c8c8", linewidth=4)
                for temperature, shade in zip(tried, shades, strict=True):
                    here = [i for i, line in enumerate(curve.lines) if line["card"]["temperature"] == temperature]
                    label = f"temperature {temperature:g}"
                    axes.plot(x[here], y[here], "o-", color=shade, markersize=2.5, linewidth=1, label=label)
        figure.supxlabel(comparison.labels[0], fontsize=10)
        figure.supylabel(comparison.labels[1], fontsize=10)
        legend(figure, panels.flat)
    return figure


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
