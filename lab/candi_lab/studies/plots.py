"""Figures of what identifiability says."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from candi.views.plots.style import COLOURS, STYLE, column, distinct, of, several


def curves(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """rho falls apart with V, r does not."""
    with matplotlib.rc_context(STYLE):
        figure, (left, right) = several(2, (8.4, 3.4))
        for size, colour in zip(distinct(rows, "vocab_size"), COLOURS, strict=False):
            some = of(rows, vocab_size=size)
            left.plot(column(some, "sigma"), column(some, "corruption"), color=colour, label=f"V = {size:,}")
        some = of(rows, vocab_size=rows[0]["vocab_size"])
        right.plot(column(some, "sigma"), column(some, "rank"), color="#000000")
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
    with matplotlib.rc_context(STYLE):
        figure, (left, right) = several(2, (8.4, 3.4))
        for size, colour in zip(distinct(rows, "vocab_size"), COLOURS, strict=False):
            some = of(rows, vocab_size=size)
            sigma = column(some, "sigma")
            for axes, key in ((left, "corruption"), (right, "rank")):
                axes.plot(sigma, column(some, key), color=colour, linewidth=1.3, label=f"V = {size:,}")
                errors = [2 * e for e in column(some, f"{key}_error")]
                axes.errorbar(
                    sigma, column(some, f"{key}_simulated"), errors, fmt="o", markersize=4, color=colour, elinewidth=1
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
    with matplotlib.rc_context(STYLE):
        figure, (axes,) = several(1, (5.0, 3.8))
        gaussian, hybrid = of(rows, kernel="gaussian"), of(rows, kernel="hybrid")
        for size, colour in zip(distinct(gaussian, "vocab_size"), COLOURS, strict=False):
            some = of(gaussian, vocab_size=size)
            label = f"Gaussian, V = {size:,}"
            axes.plot(column(some, "corruption"), column(some, "rank"), color=colour, label=label)
        axes.plot(
            column(hybrid, "corruption"),
            column(hybrid, "rank"),
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


def embeddings(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Learned vectors and random ones of the same mean and variance."""
    with matplotlib.rc_context(STYLE):
        figure, (left, right) = several(2, (8.4, 3.6))
        for size, colour in zip(distinct(rows, "vocab_size"), COLOURS, strict=False):
            for kind, line in (("learned", "-"), ("random", ":")):
                some = of(rows, vocab_size=size, kind=kind)
                sigma = distinct(some, "sigma")
                for axes, key in ((left, "corruption_simulated"), (right, "rank")):
                    means = [sum(v := column(of(some, sigma=s), key)) / len(v) for s in sigma]
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


def rates(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """How often two runs are called different, by how different they are and how many samples a point has."""
    with matplotlib.rc_context(STYLE):
        figure, panels = several(2, (8.4, 3.6))
        for difference, colour in zip(distinct(rows, "difference"), COLOURS, strict=False):
            for kind, line in zip(distinct(rows, "kind"), ("-", "--", ":"), strict=True):
                some = of(rows, difference=difference, kind=kind)
                name = f"{100 * difference:g}% apart" if difference else "equal runs"
                for axes, key in zip(panels, ("told", "somewhere"), strict=True):
                    axes.plot(column(some, "n"), column(some, key), line, color=colour, marker="o", markersize=3,
                              label=name if kind == rows[0]["kind"] else None)  # fmt: skip
        for axes, label in zip(panels, ("the interval excludes no difference", "the band does somewhere"), strict=True):
            axes.axhline(0.05, color="#999999", linewidth=0.8)
            axes.set_xscale("log", base=2)
            axes.set_xticks(distinct(rows, "n"), [f"{n:g}" for n in distinct(rows, "n")])
            axes.set_xlabel("samples a point")
            axes.set_ylabel(label)
            axes.set_ylim(-0.02, 1.02)
        panels[0].legend(frameon=False, loc="upper left")
        panels[1].annotate("\n".join(f"{mark} {kind}" for mark, kind in
                           zip(("solid:", "dashed:", "dotted:"), distinct(rows, "kind"), strict=True)),
                           (0.05, 0.78), xycoords="axes fraction", color="#444444")  # fmt: skip
    return figure
