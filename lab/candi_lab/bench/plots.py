"""The figure of a benchmark of sampling."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from candi.views.plots.style import COLOURS, STYLE

COLD = "autoregressive, KV cache (transformers)"  # of files of 0.1: one cold call, which no line is drawn for


def speed(rows: Sequence[Mapping[str, Any]], machine: Mapping[str, Any]) -> Figure:
    """Tokens a second against denoising steps, and the pace of autoregression, which has no steps to choose."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 4.0))
        axes: Axes = figure.add_subplot()
        lines = [("candi, approximate", "CANDI", "o"), ("mdlm", "MDLM", "s")]
        for (kind, label, marker), shade in zip(lines, COLOURS, strict=False):
            points = sorted((r["steps"], r["tokens_per_second"]) for r in rows if r.get("kind") == kind)
            axes.plot(*zip(*points, strict=True), marker=marker, markersize=5, color=shade, label=label)
        kinds = [str(r.get("kind", "")) for r in rows]
        cached = [r["tokens_per_second"] for r, kind in zip(rows, kinds, strict=True)
                  if kind.startswith("autoregressive") and kind != COLD]  # fmt: skip
        if cached:
            axes.axhline(
                max(cached), color="#444444", linestyle="--", linewidth=1.4, label="autoregressive, the fastest"
            )
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
