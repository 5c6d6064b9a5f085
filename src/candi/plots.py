"""Every figure. Colours that colour-blind people can tell apart, labels instead of legends where there is room."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
