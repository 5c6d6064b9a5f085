"""Methods beside each other: what sweeps, and the experiments made of them, come to."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from candi.evaluation.choice import Choice
from candi.evaluation.over_steps import OverSteps
from candi.evaluation.over_vocabulary import OfVocabulary
from candi.evaluation.single_temperature import Chosen
from candi.plots.style import COLOURS, STYLE, by_ratios, colour, legend, several, spread


def choices(found: Sequence[Choice]) -> Figure:
    """A panel for each choice: by how much its first method is better than each other one, at every number of steps."""
    others = list(dict.fromkeys(one.names[other] for one in found for other in one.others))
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
            for place, (other, gains) in enumerate(one.others.items()):
                # beside each other, in the order of the legend
                y = [counts.index(gain.steps) + 0.6 * (place + 0.5) / len(one.others) - 0.3 for gain in gains]
                x = np.array([(gain.value, gain.value - gain.low, gain.high - gain.value) for gain in gains]).T
                name = one.names[other]
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
    """Quality at one diversity against the number of steps; who has no steps to choose is a line from side to side."""
    with matplotlib.rc_context(STYLE):
        figure, (axes,) = several(1, (6.4, 4.0))
        labels = list(dict.fromkeys(cell.label for cell in summary.cells))
        for label in labels:
            shade = colour(label, labels)
            cells = [cell for cell in summary.cells if cell.label == label]
            if cells[0].steps is None:
                axes.axhline(cells[0].value, color=shade, linestyle="--", linewidth=1.4, label=label)
                axes.axhspan(cells[0].low, cells[0].high, color=shade, alpha=0.12, linewidth=0)
                continue
            steps, value, low, high = np.array([(c.steps, c.value, c.low, c.high) for c in cells], dtype=np.float64).T
            axes.fill_between(steps, low, high, color=shade, alpha=0.18, linewidth=0)
            axes.plot(steps, value, "o-", color=shade, markersize=5, label=label)
        if spread(cell.value for cell in summary.cells):
            axes.set_yscale("log")
            by_ratios(axes.yaxis)
        axes.set_xscale("log", base=2)
        ticks = sorted({cell.steps for cell in summary.cells if cell.steps is not None})
        axes.set_xticks(ticks, [str(count) for count in ticks])
        axes.set_xlabel("denoising steps")
        axes.set_ylabel(textwrap.fill(f"{names[1]} where {names[0]} = {summary.diversity:.2g}", 44))
        figure.legend(loc="outside upper center", ncols=4, frameon=False)
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
                told = f"{label} at {one.temperatures[label]:g} ({min(diversities):.2f} to {max(diversities):.2f})"
                axes.plot([dot.steps for dot in dots], [dot.quality for dot in dots], "o-", markersize=4, label=told,
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
    """Of runs while they were trained: [step, loss]. How they begin, which is alike, is left out."""
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
