"""The page of a sweep: one file that opens from disk, with everything in it."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from candi.evaluation.compare import Axes, Comparison, Curve, Group, moved_by
from candi.evaluation.pareto import front
from candi.evaluation.points import Point
from candi.evaluation.samples import Samples
from candi.views.page import write_filled
from candi.views.tables import caution, matched_rows, sentence, trap

_SAMPLES, _CHARACTERS = 4, 1200  # shown of a point


def write_page(path: Path, comparison: Comparison, samples: Mapping[str, Samples]) -> None:
    """`samples` by the key of their point; a point without any shows its provenance alone."""
    write_filled(path, "frontier.html", _finite(_data(comparison, samples)))


def _data(comparison: Comparison, samples: Mapping[str, Samples]) -> dict[str, Any]:
    points = {point.key: point for curve in comparison.curves for point in curve.points}
    return {
        "diversity": comparison.labels[0],
        "quality": comparison.labels[1],
        "up": comparison.axes.measures[1].higher_is_better and not comparison.axes.less,
        "groups": [_group(group, comparison.axes) for group in comparison.groups],
        "points": {key: _point(point, samples.get(key)) for key, point in points.items()},
        "notes": list(comparison.notes),
        "caution": caution(comparison.axes),
    }


def _group(group: Group, axes: Axes) -> dict[str, Any]:
    head, rows = matched_rows(group)
    return {
        "steps": group.steps,
        "curves": [_curve(curve) for curve in group.curves],
        "verdicts": [sentence(pair, axes) for pair in group.pairs],
        "trap": trap(group),
        "head": head,
        "rows": rows,
    }


def _curve(curve: Curve) -> dict[str, Any]:
    diversity, quality = curve.values
    kept = set(front(curve.bootstrapped.diversity, curve.bootstrapped.cost).tolist())
    points = [
        {"key": point.key, "x": x, "y": y, "place": moved_by(point.cell), "front": index in kept}
        for index, (point, x, y) in enumerate(zip(curve.points, diversity.tolist(), quality.tolist(), strict=True))
    ]
    return {
        "label": curve.label,
        "points": points,
        "band": {name: row.tolist() for name, row in vars(curve.band).items()},
    }


def _point(point: Point, samples: Samples | None) -> dict[str, Any]:
    shown = [] if samples is None else [_cut(text) for text in samples.texts[:_SAMPLES]]
    return {"provenance": point.provenance.to_json(), "measures": point.measures, "samples": shown}


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS else text[:_CHARACTERS] + " …"


def _finite(value: Any) -> Any:
    """JSON knows no nan."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
