"""Points, curves and comparisons that are made up: what the verdicts and pages of the lab are tested with."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from candi.evaluation.compare import Axes, Comparison, Curve, Group, Pair
from candi.evaluation.pareto import Dominance
from candi.evaluation.points import Point
from candi.evaluation.provenance import Cell, Guide, Provenance

PERPLEXITY, WORDS = Axes("entropy", "perplexity"), Axes("unique_words", "valid_words")
MOLECULES = Axes("unique_molecules", "property")
ENTROPIES = (3.0, 3.5, 4.0, 4.5)


def cell(run: str = "a", **changes: Any) -> Cell:
    values: dict[str, Any] = {
        "run": run, "checkpoint": run, "method": run, "tokenizer": "t", "vocab_size": 27, "length": 16, "steps": 8,
        "steps_fixed": False, "temperature": 1.0, "top_k": None, "top_p": None, "options": {}, "seed": 0, "n": 2,
        "precision": "float32",
    }  # fmt: skip
    return Cell(**values | changes)


def guide(weight: float, **changes: Any) -> Guide:
    return Guide(**{"classifier": "q", "label": "qed:top", "target": 1, "weight": weight} | changes)


def point(
    made: Cell, measures: Mapping[str, float | None], columns: Mapping[str, Sequence[float]] | None = None, **more: Any
) -> Point:
    values: dict[str, Any] = {"scorer": {"scorer": "s"}} | more
    provenance = Provenance(made, 1, True, 1, "float64", "cpu", "0", "0", "0", **values)
    two = ("entropy", "nats", "tokens", "known_words", "all_words")
    return Point(provenance, measures, columns or {name: [1.0] * made.n for name in two})


def curve_points(
    run: str, factor: float, axes: Axes = PERPLEXITY, entropies: Sequence[float] = ENTROPIES,
    steps: Sequence[int] = (8, 16), more: Mapping[str, float] | None = None, **changes: Any,
) -> Iterator[Point]:  # fmt: skip
    """Cost = factor * 10^entropy / sqrt(steps): one curve is the worse by its factor, whatever the temperature.

    `more` are factors of further scorers, whose perplexity is the square root, times so much.
    """
    for count, (index, entropy) in itertools.product(steps, enumerate(entropies)):
        cost = factor * 10**entropy / count**0.5
        measures = {axes.diversity: entropy, axes.quality: cost if axes is PERPLEXITY else 1 / cost}
        measures |= {f"perplexity:{name}": times * cost**0.5 for name, times in (more or {}).items()}
        columns = {"entropy": [entropy] * 2, "nats": [math.log(cost)] * 2, "tokens": [1] * 2, "known_words": [1] * 2,
                   "all_words": [1] * 2, "unique_words": [entropy] * 2}  # fmt: skip
        others = [{"scorer": name, "content": "weights"} for name in more or {}]
        made = cell(run, steps=count, temperature=round(0.7 + 0.1 * index, 1), **changes)
        yield point(made, measures, columns, other_scorers=others)


@dataclass(frozen=True)
class Versus:
    """A pair of curves by name, and what came of it."""

    first: str
    second: str
    result: Dominance | None = None
    winner: str | None = None


def versus(first: str, second: str, low: float, high: float) -> Versus:
    """Cost over cost is in this interval, on all of the range."""
    middle = math.sqrt(low * high)
    ahead, behind = float(high < 1), float(low > 1)
    return Versus(first, second, Dominance(0.1, 0.9, ahead, ahead, behind, middle, low, high, math.log(middle)))


def group(steps: int, *pairs: Versus, fixed: Mapping[str, int] | None = None) -> Group:
    """`fixed` are curves whose method decides its number of steps."""
    names = dict.fromkeys([*(name for pair in pairs for name in (pair.first, pair.second)), *(fixed or {})])
    curves = {
        name: Curve(
            name, {}, name, (fixed or {}).get(name, steps), name in (fixed or {}), [point(cell(name), {})], WORDS
        )
        for name in names
    }
    made = [Pair(curves[p.first], curves[p.second], p.result, curves[p.winner] if p.winner else None) for p in pairs]
    return Group(steps, list(curves.values()), made, None)


def comparison(*groups: Group, axes: Axes = WORDS) -> Comparison:
    return Comparison(axes, groups, [])
