"""How figures look: colours that colour-blind people can tell apart, files that are the same for the same figure."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

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


def colour(name: str, names: Sequence[str]) -> str:
    """Of one of several, by its place among them."""
    return COLOURS[list(names).index(name) % len(COLOURS)]


def legend(figure: Figure, panels: Iterable[Axes]) -> None:
    """Above all panels, each name once."""
    both = [panel.get_legend_handles_labels() for panel in panels]
    handles = {name: handle for some, names in both for handle, name in zip(some, names, strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4, frameon=False)


def spread(values: Iterable[float]) -> bool:
    """Whether numbers lie so far apart that only ratios can be read."""
    some = [float(value) for value in values]
    return 0 < 3 * min(some) < max(some)


def by_ratios(axis: Axis) -> None:
    """Round numbers on an axis that has been made logarithmic."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_locator(NullLocator())


def of(rows: Sequence[Mapping[str, Any]], **fixed: Any) -> list[Mapping[str, Any]]:
    return [row for row in rows if all(row.get(key) == value for key, value in fixed.items())]


def distinct(rows: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    return list(dict.fromkeys(row[key] for row in rows if key in row))


def column(rows: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    return [row[key] for row in rows]
