"""Methods beside each other: what sweeps, and the experiments made of them, come to."""

import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from candi.evaluation.compare import Comparison
from candi.views.plots.frontiers import ReferencePoints, mark_references, panels_of
from candi.views.plots.style import COLOURS, STYLE, by_ratios, colour, legend, several, spread
from candi_lab.verdicts.advice import Choice
from candi_lab.verdicts.other_scorers import OtherScorer
from candi_lab.verdicts.over_steps import OverSteps
from candi_lab.verdicts.overview import LONGER, OfVocabulary
from candi_lab.verdicts.single_temperature import Chosen


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
        handles: dict[str, Any] = {}
        for one, axes in zip(found, panels.flat, strict=False):
            counts = sorted({gain.steps for gains in one.others.values() for gain in gains})
            axes.axvline(1 if one.ratios else 0, color="#888888", linewidth=1)
            for place, (name, gains) in enumerate(one.others.items()):
                # beside each other, in the order of the legend
                y = [counts.index(gain.steps) + 0.6 * (place + 0.5) / len(one.others) - 0.3 for gain in gains]
                x = np.array([(gain.value, gain.value - gain.low, gain.high - gain.value) for gain in gains]).T
                mark = "o" if others.index(name) < len(COLOURS) else "D"  # colours begin again
                handles[name] = axes.errorbar(x[0], y, xerr=x[1:], fmt=mark, markersize=4, color=colour(name, others))
            axes.set_yticks(range(len(counts)), [f"{count} steps" for count in counts])
            axes.set_ylim(len(counts) - 0.5, -0.5)
            axes.set_title(textwrap.fill(one.where, 34), fontsize=9)
            axes.set_xlabel(one.gain, fontsize=9)
            if one.ratios:
                axes.set_xscale("log")
                by_ratios(axes.xaxis)
        figure.legend([handles[name] for name in others], others, loc="outside upper center", ncols=3, frameon=False,
                      title="to the right of the line: better than")  # fmt: skip
    return figure


def over_steps(summary: OverSteps, names: tuple[str, str]) -> Figure:
    """Quality at one diversity against the number of steps; a method that decides its own is a level line."""
    with matplotlib.rc_context(STYLE):
        figure, (axes,) = several(1, (6.4, 4.0))
        labels = list(dict.fromkeys(one.label for one in summary.values))
        for label in labels:
            shade = colour(label, labels)
            some = [one for one in summary.values if one.label == label]
            if some[0].steps is None:
                axes.axhline(some[0].value, color=shade, linestyle="--", linewidth=1.4, label=label)
                axes.axhspan(some[0].low, some[0].high, color=shade, alpha=0.12, linewidth=0)
                continue
            numbers = [(one.steps, one.value, one.low, one.high) for one in some]
            steps, value, low, high = np.array(numbers, dtype=np.float64).T
            axes.fill_between(steps, low, high, color=shade, alpha=0.18, linewidth=0)
            axes.plot(steps, value, "o-", color=shade, markersize=5, label=label)
        if spread(one.value for one in summary.values):
            axes.set_yscale("log")
            by_ratios(axes.yaxis)
        axes.set_xscale("log", base=2)
        ticks = sorted({one.steps for one in summary.values if one.steps is not None})
        axes.set_xticks(ticks, [str(count) for count in ticks])
        axes.set_xlabel("denoising steps")
        axes.set_ylabel(textwrap.fill(f"{names[1]} where {names[0]} = {summary.diversity:.2g}", 44))
        figure.legend(loc="outside upper center", ncols=4, frameon=False)
    return figure


def by_run(comparison: Comparison) -> Figure:
    """A panel for each run: its frontier at every number of steps, the darker the more."""
    names = [name for name in comparison.names if len([c for c in comparison.curves if c.label == name]) > 1]
    names = [name for name in names if not next(c for c in comparison.curves if c.label == name).steps_fixed]
    costs = [value for curve in comparison.curves for value in curve.values[1]]
    wide = not comparison.axes.measures[1].higher_is_better and spread(costs)
    shades = matplotlib.colormaps["viridis_r"](np.linspace(0.1, 1, len(comparison.groups)))
    with matplotlib.rc_context(STYLE):
        figure, panels = panels_of(range(len(names)), comparison.labels, wide)
        for name, axes in zip(names, panels, strict=True):
            axes.set_title(textwrap.fill(name, 30), fontsize=10)
            for group, shade in zip(comparison.groups, shades, strict=True):
                for curve in (curve for curve in group.curves if curve.label == name):
                    band = curve.band
                    axes.fill_between(band.diversity, band.low, band.high, color=shade, alpha=0.18, linewidth=0)
                    axes.plot(band.diversity, band.quality, color=shade, label=f"{group.steps} steps")
        legend(figure, panels)
    return figure


def single_temperatures(found: Sequence[Chosen], names: tuple[str, str], labels: Sequence[str]) -> Figure:
    """A panel for each winner: quality over steps at one temperature for each curve; its legend has the diversities.

    Colours are those of the curves among all `labels`.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.7 * len(found), 3.9), layout="constrained")
        panels = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
        steps = sorted({dot.steps for one in found for dots in one.dots.values() for dot in dots})
        for one, axes in zip(found, panels, strict=True):
            for label, dots in one.dots.items():
                diversities = [dot.diversity for dot in dots]
                text = f"{label} at {one.temperatures[label]:g} ({min(diversities):.2f} to {max(diversities):.2f})"
                axes.plot([dot.steps for dot in dots], [dot.quality for dot in dots], "o-", markersize=4, label=text,
                          color=colour(label, labels))  # fmt: skip
            axes.set_xscale("log", base=2)
            axes.set_xticks(steps, [str(count) for count in steps])
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_title(f"{one.winner} is best", fontsize=10)
            axes.legend(fontsize=8, title=f"temperature ({names[0]})", title_fontsize=8, frameon=False)
        if spread(dot.quality for one in found for dots in one.dots.values() for dot in dots):
            panels[0].set_yscale("log")
            by_ratios(panels[0].yaxis)
        figure.supxlabel("denoising steps", fontsize=10)
        figure.supylabel(names[1], fontsize=10)
    return figure


def losses(found: Mapping[str, Sequence[Sequence[float]]]) -> Figure:
    """Losses of runs while they were trained: [step, loss]. The beginning, which is alike, is left out."""
    with matplotlib.rc_context(STYLE):
        figure, (axes,) = several(1, (7.4, 4.0))
        begun = 0.1 * max(points[-1][0] for points in found.values())
        for place, (run, points) in enumerate(found.items()):
            style = "-" if place < len(COLOURS) else "--"  # colours begin again
            shown = [point for point in points if point[0] >= begun] or points
            axes.plot(*zip(*shown, strict=True), style, color=colour(run, list(found)), label=run)
        axes.set_xlabel("steps of training")
        axes.set_ylabel("loss, nats a token")
        legend(figure, [axes])
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
            shade = colour(family, families)
            some = sorted((run for run in runs if run.family == family), key=lambda run: run.vocab_size)
            for axes, count in zip(panels[0], steps, strict=False):
                # a gap where the two share no range of diversity: no line across it
                cells = [(run.vocab_size, *run.ratios.get(count, (np.nan,) * 3)) for run in some]
                x, value, low, high = np.array(cells, dtype=np.float64).reshape(-1, 4).T
                axes.fill_between(x, low, high, color=shade, alpha=0.18, linewidth=0)
                axes.vlines(x, low, high, color=shade, linewidth=1)  # of a point between two gaps nothing else tells
                axes.plot(x, value, "o-", color=shade, markersize=4)
                for run in (run for run in some if count in run.longer):
                    middle, *ends = run.longer[count]
                    axes.vlines(run.vocab_size, *ends, color=shade, linewidth=1)
                    axes.plot(run.vocab_size, middle, "o", color=shade, markersize=5, markerfacecolor="white")
            for axes, name in zip(panels[1], ("identifiable", "rank"), strict=False):
                line = [vars(run)[name] for run in some]
                axes.plot([run.vocab_size for run in some], line, "o-", color=shade, markersize=4, label=family)
        for axes, count in zip(panels[0], steps, strict=False):
            axes.axhline(1, color="#444444", linestyle="--", linewidth=1)
            axes.set_title(f"{count} steps", fontsize=10)
        for axes in panels[0][1:]:
            axes.sharey(panels[0][0])
        panels[0][0].autoscale(axis="y")  # over all panels
        panels[0][0].set_ylabel(f"{quality} over {against}'s")
        for axes, name in zip(panels[1], ("identifiable positions", "rank that the network sees"), strict=False):
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
            names.append(LONGER)
        figure.legend(handles, names, loc="outside upper center", ncols=5, frameon=False)
    return figure


def by_other_scorer(
    comparison: Comparison, scorer: OtherScorer, references: ReferencePoints = MappingProxyType({})
) -> Figure:
    """The same points in a further scorer's perplexity, of which there are no bands."""
    labels = comparison.names
    found = [
        (group.steps, curve.label, curve.values[0], scorer.perplexities(curve.points))
        for group in comparison.groups
        for curve in group.curves
    ]
    wide = spread(y for *_, some in found for y in some[np.isfinite(some)])
    with matplotlib.rc_context(STYLE):
        steps = [group.steps for group in comparison.groups]
        figure, panels = panels_of(steps, (comparison.labels[0], f"perplexity by {scorer.name}"), wide)
        for count, label, x, y in found:
            order = np.argsort(x)
            axes = panels[steps.index(count)]
            axes.plot(x[order], y[order], "o-", color=colour(label, labels), markersize=4, label=label)
        for axes in panels:
            mark_references(axes, references)
        legend(figure, panels)
    return figure


def by_temperature(comparison: Comparison) -> Figure:
    """A row for each curve that is the best of several temperatures, a panel for each number of steps: what each
    temperature gives alone, from weight to weight of guidance, and in grey the best of them."""
    labels = comparison.names
    tried = sorted({point.cell.temperature for curve in comparison.curves for point in curve.points})
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
                    here = [i for i, point in enumerate(curve.points) if point.cell.temperature == temperature]
                    label = f"temperature {temperature:g}"
                    axes.plot(x[here], y[here], "o-", color=shade, markersize=2.5, linewidth=1, label=label)
        figure.supxlabel(comparison.labels[0], fontsize=10)
        figure.supylabel(comparison.labels[1], fontsize=10)
        legend(figure, panels.flat)
    return figure
