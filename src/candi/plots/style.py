"""How figures look: colours that colour-blind people can tell apart, files that are the same for the same figure."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's palette
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

STYLE: Any = {
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
    with matplotlib.rc_context(STYLE):
        figure.savefig(paths[0], metadata={"Date": None})
        figure.savefig(paths[1], dpi=160)
    return paths


def several(wide: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(1, wide, squeeze=False)[0])


def of(rows: Sequence[Mapping[str, Any]], **fixed: Any) -> list[Mapping[str, Any]]:
    return [row for row in rows if all(row.get(key) == value for key, value in fixed.items())]


def distinct(rows: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    return list(dict.fromkeys(row[key] for row in rows if key in row))


def column(rows: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    return [row[key] for row in rows]
