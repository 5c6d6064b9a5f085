"""What was measured: speed, frontiers, molecules."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from candi.evaluation.choice import Choice
from candi.evaluation.compare import Comparison
from candi.evaluation.over_steps import OverSteps
from candi.evaluation.over_vocabulary import OfVocabulary
from candi.evaluation.pareto import front
from candi.plots.style import COLOURS, STYLE, several


def speed(rows: Sequence[Mapping[str, Any]], machine: Mapping[str, Any]) -> Figure:
    """Tokens a second against denoising steps, and the pace of autoregression, which has no steps to choose."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 4.0))
        axes: Axes = figure.add_subplot()
        lines = [("candi, approximate", "CANDI", "o"), ("mdlm", "MDLM", "s")]
        for (kind, label, marker), colour in zip(lines, COLOURS, strict=False):
            points = sorted((r["steps"], r["tokens_per_second"]) for r in rows if r.get("kind") == kind)
            axes.plot(*zip(*points, strict=True), marker=marker, markersize=5, color=colour, label=label)
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


def frontiers(comparison: Comparison) -> Figure:
    """A panel for each number of steps: fronts with their bands, dominated points hollow."""
    quality = comparison.axes.measures[1]
    wide = min(len(comparison.groups), 4)
    high = -(-len(comparison.groups) // wide)
    labels = list(dict.fromkeys(curve.label for group in comparison.groups for curve in group.curves))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(max(4.2, 3.3 * wide), 3.3 * high + 0.5), layout="constrained")
        panels = figure.subplots(high, wide, squeeze=False, sharex=True, sharey=True)
        for panel in panels.flat[len(comparison.groups) :]:
            panel.set_visible(False)
        for group, axes in zip(comparison.groups, panels.flat, strict=False):
            for curve in group.curves:
                colour = _colour(curve.label, labels)
                band = curve.band
                axes.fill_between(band.diversity, band.low, band.high, color=colour, alpha=0.18, linewidth=0)
                x, y = curve.values
                kept = front(curve.points.diversity, curve.points.cost)
                axes.plot(band.diversity, band.quality, color=colour)
                axes.plot(x[kept], y[kept], "o", color=colour, markersize=4, label=curve.label)
                rest = [index for index in range(len(x)) if index not in kept]
                axes.plot(x[rest], y[rest], "o", markersize=4, markerfacecolor="none", color=colour)
            axes.set_title(f"{group.steps} steps", fontsize=10)
        costs = [value for group in comparison.groups for curve in group.curves for value in curve.values[1]]
        if not quality.higher_is_better and min(costs) > 0 and max(costs) > 3 * min(costs):
            panels[0][0].set_yscale("log")
            panels[0][0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panels[0][0].yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
            panels[0][0].yaxis.set_minor_locator(NullLocator())
        figure.supxlabel(comparison.labels[0], fontsize=10)
        figure.supylabel(comparison.labels[1], fontsize=10)
        handles = dict(zip(*reversed(_legend(panels.flat)), strict=True))
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4, frameon=False)
    return figure


def by_temperature(comparison: Comparison) -> Figure:
    """A row for each curve that is the best of several temperatures, a panel for each number of steps: what each
    temperature gives alone, from weight to weight of guidance, and in grey the best of them."""
    labels = list(dict.fromkeys(curve.label for group in comparison.groups for curve in group.curves))
    cards = [line["card"] for group in comparison.groups for curve in group.curves for line in curve.lines]
    tried = sorted({card["temperature"] for card in cards})
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.92, len(tried)))
    with matplotlib.rc_context(STYLE):
        size = max(4.2, 3.3 * len(comparison.groups)), 2.5 * len(labels) + 0.7
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(len(labels), len(comparison.groups), squeeze=False, sharex=True, sharey=True)
        for group, column in zip(comparison.groups, panels.T, strict=True):
            for curve in group.curves:
                axes, (x, y) = column[labels.index(curve.label)], curve.values
                axes.set_title(f"{curve.label}, {group.steps} steps", fontsize=10)
                axes.plot(curve.band.diversity, curve.band.quality, color="#c8c8c8", linewidth=4)
                for temperature, colour in zip(tried, colours, strict=True):
                    here = [i for i, line in enumerate(curve.lines) if line["card"]["temperature"] == temperature]
                    label = f"temperature {temperature:g}"
                    axes.plot(x[here], y[here], "o-", color=colour, markersize=2.5, linewidth=1, label=label)
        figure.supxlabel(comparison.labels[0], fontsize=10)
        figure.supylabel(comparison.labels[1], fontsize=10)
        handles = dict(zip(*reversed(_legend(panels.flat)), strict=True))
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4, frameon=False)
    return figure


def choices(found: Sequence[Choice]) -> Figure:
    """A panel for each choice: by how much its first method is better than each other one, at every number of steps."""
    others = list(dict.fromkeys(other for one in found for other in one.others))
    wide = 2 if len(found) in (2, 4) else min(3, len(found))
    with matplotlib.rc_context(STYLE):
        high = -(-len(found) // wide)
        figure = Figure(figsize=(max(4.6, 3.7 * wide), 2.6 * high + 0.7), layout="constrained")
        panels = figure.subplots(high, wide, squeeze=False)
        for panel in panels.flat[len(found) :]:
            panel.set_visible(False)
        names: dict[str, Any] = {}
        for one, axes in zip(found, panels.flat, strict=False):
            counts = sorted({gain.steps for gains in one.others.values() for gain in gains})
            axes.axvline(0, color="#888888", linewidth=1)
            for place, (other, gains) in enumerate(one.others.items()):
                # beside each other, in the order of the legend
                y = [counts.index(gain.steps) + 0.6 * (place + 0.5) / len(one.others) - 0.3 for gain in gains]
                x = np.array([(gain.value, gain.value - gain.low, gain.high - gain.value) for gain in gains]).T
                dots = axes.errorbar(x[0], y, xerr=x[1:], fmt="o", markersize=4, color=_colour(other, others))
                names.setdefault(other, (dots, one.names[other]))
            axes.set_yticks(range(len(counts)), [f"{count} steps" for count in counts])
            axes.set_ylim(len(counts) - 0.5, -0.5)
            axes.set_title(textwrap.fill(one.where, 34), fontsize=9)
            axes.set_xlabel(f"{one.gain} by {one.first}{', %' if one.percent else ''}", fontsize=9)
        figure.legend(*zip(*(names[other] for other in others), strict=True), loc="outside upper center", ncols=3,
                      frameon=False, title="against")  # fmt: skip
    return figure


def _colour(name: str, names: Sequence[str]) -> str:
    return COLOURS[list(names).index(name) % len(COLOURS)]


def _legend(panels: Iterable[Axes]) -> tuple[list[Any], list[str]]:
    both = [panel.get_legend_handles_labels() for panel in panels]
    return [h for handles, _ in both for h in handles], [name for _, names in both for name in names]


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


def over_steps(summary: OverSteps, names: tuple[str, str]) -> Figure:
    """Quality at one diversity against the number of steps; who has no steps to choose is a line from side to side."""
    with matplotlib.rc_context(STYLE):
        figure, (axes,) = several(1, (6.4, 4.0))
        labels = list(dict.fromkeys(cell.label for cell in summary.cells))
        for label in labels:
            colour = _colour(label, labels)
            cells = [cell for cell in summary.cells if cell.label == label]
            if cells[0].steps is None:
                axes.axhline(cells[0].value, color=colour, linestyle="--", linewidth=1.4, label=label)
                axes.axhspan(cells[0].low, cells[0].high, color=colour, alpha=0.12, linewidth=0)
                continue
            steps, value, low, high = np.array([(c.steps, c.value, c.low, c.high) for c in cells], dtype=np.float64).T
            axes.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
            axes.plot(steps, value, "o-", color=colour, markersize=5, label=label)
        axes.set_xscale("log", base=2)
        ticks = sorted({cell.steps for cell in summary.cells if cell.steps is not None})
        axes.set_xticks(ticks, [str(count) for count in ticks])
        axes.set_xlabel("denoising steps")
        axes.set_ylabel(textwrap.fill(f"{names[1]} where {names[0]} are {summary.diversity:.2g}", 44))
        figure.legend(loc="outside upper center", ncols=4, frameon=False)
    return figure


def over_vocabulary(runs: Sequence[OfVocabulary], quality: str, against: str) -> Figure:
    """Above, quality over that of one method at each number of steps; below, what identifiability predicts."""
    steps = sorted({count for run in runs for count in (*run.ratios, *run.longer)})
    families = list(dict.fromkeys(run.family for run in runs))
    sizes = sorted({run.vocab_size for run in runs})
    wide = max(2, len(steps))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(max(7.0, 3.0 * wide), 6.2), layout="constrained")
        panels = figure.subplots(2, wide, squeeze=False, sharex=True)
        for family in families:
            colour = _colour(family, families)
            some = sorted((run for run in runs if run.family == family), key=lambda run: run.vocab_size)
            for axes, count in zip(panels[0], steps, strict=False):
                # a gap where the two share no range of diversity: no line across it
                cells = [(run.vocab_size, *run.ratios.get(count, (np.nan,) * 3)) for run in some]
                x, value, low, high = np.array(cells, dtype=np.float64).reshape(-1, 4).T
                axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
                axes.vlines(x, low, high, color=colour, linewidth=1)  # of a point between two gaps nothing else tells
                axes.plot(x, value, "o-", color=colour, markersize=4)
                for run in (run for run in some if count in run.longer):
                    middle, *ends = run.longer[count]
                    axes.vlines(run.vocab_size, *ends, color=colour, linewidth=1)
                    axes.plot(run.vocab_size, middle, "o", color=colour, markersize=5, markerfacecolor="white")
            for axes, name in zip(panels[1], ("identifiable", "rank"), strict=False):
                line = [vars(run)[name] for run in some]
                axes.plot([run.vocab_size for run in some], line, "o-", color=colour, markersize=4, label=family)
        for axes, count in zip(panels[0], steps, strict=False):
            axes.axhline(1, color="#444444", linestyle="--", linewidth=1)
            axes.set_title(f"{count} steps", fontsize=10)
        for axes in panels[0][1:]:
            axes.sharey(panels[0][0])
        panels[0][0].autoscale(axis="y")  # over all panels
        panels[0][0].set_ylabel(f"{quality} over {against}'s")
        for axes, name in zip(panels[1], ("positions that can be told", "rank that the network sees"), strict=False):
            axes.set_title(f"predicted: {name}", fontsize=10)
            axes.set_ylim(-0.02, 1.02 if axes is panels[1][0] else 0.52)
        for axes in [*panels[0][len(steps) :], *panels[1][2:]]:
            axes.set_visible(False)
        panels[0][0].set_xscale("log")
        panels[0][0].set_xticks(sizes, [f"{size / 1000:.0f}k" if size >= 1000 else str(size) for size in sizes])
        panels[0][0].xaxis.set_minor_locator(NullLocator())
        for axes in panels[0][2:]:
            axes.tick_params(labelbottom=True)
        figure.supxlabel("vocabulary", fontsize=10)
        handles, names = panels[1][0].get_legend_handles_labels()
        if any(run.longer for run in runs):
            handles.append(Line2D([], [], marker="o", linestyle="", color="#444444", markerfacecolor="white"))
            names.append("both trained longer")
        figure.legend(handles, names, loc="outside upper center", ncols=5, frameon=False)
    return figure
