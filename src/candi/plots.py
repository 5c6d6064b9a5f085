"""Every figure. Colours that colour-blind people can tell apart, labels instead of legends where there is room."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from candi import identifiability
from candi.evaluation.compare import Comparison
from candi.evaluation.pareto import front

# Okabe and Ito's palette
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

_STYLE: Any = {
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "lines.linewidth": 1.8,
    "svg.fonttype": "path",
    "svg.hashsalt": "candi",  # the same figure gives the same file
    "savefig.bbox": "tight",
}


def save(figure: Figure, stem: Path) -> list[Path]:
    """stem.svg and stem.png, without a date in them."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(stem.name + ending) for ending in (".svg", ".png")]
    with matplotlib.rc_context(_STYLE):
        figure.savefig(paths[0], metadata={"Date": None})
        figure.savefig(paths[1], dpi=160)
    return paths


def speed(rows: Sequence[Mapping[str, Any]], machine: Mapping[str, Any]) -> Figure:
    """Tokens a second against denoising steps, and the pace of autoregression, which has no steps to choose."""
    with matplotlib.rc_context(_STYLE):
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
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(max(4.2, 3.3 * wide), 3.3 * high + 0.5), layout="constrained")
        panels = figure.subplots(high, wide, squeeze=False, sharex=True, sharey=True)
        for panel in panels.flat[len(comparison.groups) :]:
            panel.set_visible(False)
        for group, axes in zip(comparison.groups, panels.flat, strict=False):
            for curve in group.curves:
                colour = COLOURS[labels.index(curve.label) % len(COLOURS)]
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


def _legend(panels: Iterable[Axes]) -> tuple[list[Any], list[str]]:
    both = [panel.get_legend_handles_labels() for panel in panels]
    return [h for handles, _ in both for h in handles], [name for _, names in both for name in names]


def _several(wide: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(1, wide, squeeze=False)[0])


def _of(rows: Sequence[Mapping[str, Any]], **fixed: Any) -> list[Mapping[str, Any]]:
    return [row for row in rows if all(row.get(key) == value for key, value in fixed.items())]


def _distinct(rows: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    return list(dict.fromkeys(row[key] for row in rows if key in row))


def _column(rows: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    return [row[key] for row in rows]


def curves(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """rho falls apart with V, r does not."""
    with matplotlib.rc_context(_STYLE):
        figure, (left, right) = _several(2, (8.4, 3.4))
        for size, colour in zip(_distinct(rows, "vocab_size"), COLOURS, strict=False):
            some = _of(rows, vocab_size=size)
            left.plot(_column(some, "sigma"), _column(some, "corruption"), color=colour, label=f"V = {size:,}")
        some = _of(rows, vocab_size=rows[0]["vocab_size"])
        right.plot(_column(some, "sigma"), _column(some, "rank"), color="#000000")
        right.annotate("the same for every V", (0.05, 0.9), xycoords="axes fraction", color="#444444")
        for axes, label in ((left, r"identity corruption $\rho$"), (right, "rank degradation $r$")):
            axes.set_xscale("log")
            axes.set_xlabel(r"noise $\sigma$")
            axes.set_ylabel(label)
            axes.set_ylim(-0.02, 1.02 if axes is left else 0.52)
        left.legend(frameon=False, loc="center right", bbox_to_anchor=(1.0, 0.68))
    return figure


def validation(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Lines are formulas, points are simulations with two standard errors."""
    with matplotlib.rc_context(_STYLE):
        figure, (left, right) = _several(2, (8.4, 3.4))
        for size, colour in zip(_distinct(rows, "vocab_size"), COLOURS, strict=False):
            some = _of(rows, vocab_size=size)
            sigma = _column(some, "sigma")
            for axes, key in ((left, "corruption"), (right, "rank")):
                axes.plot(sigma, _column(some, key), color=colour, linewidth=1.3, label=f"V = {size:,}")
                errors = [2 * e for e in _column(some, f"{key}_error")]
                axes.errorbar(
                    sigma, _column(some, f"{key}_simulated"), errors, fmt="o", markersize=4, color=colour, elinewidth=1
                )
        for axes, label in ((left, r"identity corruption $\rho$"), (right, "rank degradation $r$")):
            axes.set_xscale("log")
            axes.set_xticks((0.3, 0.5, 1, 2, 3), ("0.3", "0.5", "1", "2", "3"))
            axes.set_xticks((), minor=True)
            axes.set_xlabel(r"noise $\sigma$")
            axes.set_ylabel(label)
        left.legend(frameon=False, loc="lower right")
        right.annotate("lines: formula\npoints: simulation", (0.05, 0.85), xycoords="axes fraction", color="#444444")
    return figure


def kernels(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """The Gaussian kernel leaves the diagonal as V grows; the hybrid kernel is a straight line for every V."""
    with matplotlib.rc_context(_STYLE):
        figure, (axes,) = _several(1, (5.0, 3.8))
        gaussian, hybrid = _of(rows, kernel="gaussian"), _of(rows, kernel="hybrid")
        for size, colour in zip(_distinct(gaussian, "vocab_size"), COLOURS, strict=False):
            some = _of(gaussian, vocab_size=size)
            label = f"Gaussian, V = {size:,}"
            axes.plot(_column(some, "corruption"), _column(some, "rank"), color=colour, label=label)
        axes.plot(
            _column(hybrid, "corruption"),
            _column(hybrid, "rank"),
            color="#000000",
            linestyle="--",
            label="hybrid, every V (masked share)",
        )
        axes.set_xlabel(r"identity corruption $\rho$")
        axes.set_ylabel("rank degradation $r$")
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(0, 0.52)
        axes.legend(frameon=False)
    return figure


def dissonance(vocab_size: int, sigma: float) -> Figure:
    """Corruption and rank over the noise for one vocabulary, with one noise marked; and one against the other."""
    grid = torch.logspace(math.log10(0.05), math.log10(5), 80, dtype=torch.float64)
    here = identifiability.corruption(sigma, vocab_size), identifiability.rank(sigma)
    rho, r = identifiability.corruption(grid, vocab_size), identifiability.rank(grid)
    with matplotlib.rc_context(_STYLE):
        figure, (left, right) = _several(2, (8.4, 3.2))
        left.plot(grid, rho, color=COLOURS[0], label=r"corruption $\rho$")
        left.plot(grid, 2 * r, color=COLOURS[1], linestyle="--", label="rank $r$, times 2")
        left.axvline(sigma, color="#444444", linewidth=1)
        left.set_xscale("log")
        left.set_xlabel(r"noise $\sigma$")
        left.set_ylim(-0.02, 1.02)
        left.legend(frameon=False, loc="upper left")
        right.plot(rho, r, color=COLOURS[0], label=f"Gaussian noise, V = {vocab_size:,}")
        right.plot([0, 1], [0, 0.5], color="#000000", linestyle="--", label="in step")
        right.plot(*map(float, here), "o", color=COLOURS[1], markersize=8)
        right.set_xlabel(r"corruption $\rho$")
        right.set_ylabel("rank $r$")
        right.set_xlim(-0.02, 1.02)
        right.set_ylim(0, 0.52)
        right.legend(frameon=False, loc="upper left")
    return figure


def histogram(values: Sequence[float], label: str, least: float) -> Figure:
    """Of a property; what lies below `least` is pale."""
    with matplotlib.rc_context(_STYLE):
        figure, (axes,) = _several(1, (6.0, 2.2))
        counts, edges = np.histogram(values, bins=min(20, max(4, len(values) // 2)))
        shades = [COLOURS[0] if edge >= least - 1e-9 else "#b9cfe0" for edge in edges[:-1]]
        axes.bar(edges[:-1], counts, np.diff(edges), align="edge", color=shades, edgecolor="white")
        axes.set_xlabel(label)
        axes.set_ylabel("molecules")
    return figure


def embeddings(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Learned vectors and random ones of the same mean and variance."""
    with matplotlib.rc_context(_STYLE):
        figure, (left, right) = _several(2, (8.4, 3.6))
        for size, colour in zip(_distinct(rows, "vocab_size"), COLOURS, strict=False):
            for kind, line in (("learned", "-"), ("random", ":")):
                some = _of(rows, vocab_size=size, kind=kind)
                sigma = _distinct(some, "sigma")
                for axes, key in ((left, "corruption_simulated"), (right, "rank")):
                    means = [sum(v := _column(_of(some, sigma=s), key)) / len(v) for s in sigma]
                    label = f"V = {size:,}" if kind == "learned" else None
                    axes.plot(sigma, means, color=colour, linestyle=line, label=label)
        for axes, label in ((left, r"identity corruption $\rho$ (simulated)"), (right, "rank degradation $r$")):
            axes.set_xscale("log")
            axes.set_xlabel(r"noise $\sigma$ / mean length of a vector")
            axes.set_ylabel(label)
        left.legend(frameon=False, loc="upper left")
        right.annotate(
            f"{rows[0]['table']}\nsolid: learned\ndotted: random",
            (0.05, 0.75),
            xycoords="axes fraction",
            color="#444444",
        )
    return figure


def schedule(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """What a checkpoint's schedule does to the positions of a text."""
    with matplotlib.rc_context(_STYLE):
        figure, (left, right) = _several(2, (8.4, 3.4))
        t = _column(rows, "t")
        left.plot(t, _column(rows, "identifiable"), color=COLOURS[0], label="identifiable")
        left.plot(t, _column(rows, "open"), color=COLOURS[1], linestyle="--", label="noisy")
        left.plot(t, _column(rows, "corruption_of_noise"), color=COLOURS[2], linestyle=":", label=r"$\rho$ where noisy")
        right.plot(t, _column(rows, "rank_of_schedule"), color=COLOURS[0], label="as the schedule says")
        right.plot(t, _column(rows, "rank_of_network"), color=COLOURS[1], linestyle="--", label="as the network sees")
        left.set_ylabel("share of positions")
        right.set_ylabel("rank degradation $r$")
        left.set_ylim(-0.02, 1.02)
        right.set_ylim(0, 0.52)
        for axes in (left, right):
            axes.set_xlabel("time $t$ (0 data, 1 noise)")
        left.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=3)
        right.legend(frameon=False, loc="upper left")
    return figure
