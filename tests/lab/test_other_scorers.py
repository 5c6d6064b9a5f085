"""What a further scorer says of the same samples."""

from dataclasses import replace

import numpy as np
import pytest
from candi_lab.report import plots
from candi_lab.runner.schema import Claim, CurveRef
from candi_lab.verdicts.other_scorers import other_scorers, ratio_table

from candi.evaluation.compare import compare
from tests.lab.made import ENTROPIES, PERPLEXITY, curve_points

BOTH = [*curve_points("a", 1, more={"other": 1.0}), *curve_points("b", 4, more={"other": 1.5})]


def _claim(first, second):
    return Claim("", "s", CurveRef(first), CurveRef(second))


def _table(points, *claims):
    comparison = compare(points, PERPLEXITY)
    return [row for scorer in other_scorers(comparison) for row in ratio_table(comparison, claims, scorer, {})]


def test_it_shows_the_ratios_by_the_other_scorer_at_the_same_diversity():
    """Costs of 1 and 4 times the same; by the other scorer 1 and 2 times, and b is worse by another 1.5."""
    (text,) = _table(BOTH, _claim("a", "b"), _claim("a", "b"), _claim("b", "a"))
    assert text.splitlines()[0] == "| perplexity by other, per token of its own | 8 steps | 16 steps |"
    assert text.splitlines()[2:] == ["| a / b | 0.333 | 0.333 |", "| b / a | 3.000 | 3.000 |"]


@pytest.mark.parametrize(
    "points",
    [
        [*curve_points("a", 1), *curve_points("b", 4)],
        [*curve_points("a", 1, more={"other": 1.0}), *curve_points("b", 4)],
        [*curve_points("a", 1, more={"other": 1.0})],
        [*curve_points("a", 1, more={"other": 1.0}), *curve_points("b", 1, more={"other": 1.0}, entropies=(7.0, 8.0))],
    ],
    ids=["by no other", "one of them by no other", "one curve", "no shared range"],
)
def test_it_says_nothing_where_there_is_nothing_to_compare(points):
    assert _table(points, _claim("a", "b")) == []


def test_points_by_other_weights_of_the_same_name_are_left_out():
    """b is scored by a scorer that was trained again: its perplexities are another measure."""
    other = [{"scorer": "other", "content": "new weights"}]
    points = [
        replace(one, provenance=replace(one.provenance, other_scorers=other)) if one.cell.run == "b" else one
        for one in [*BOTH, *curve_points("c", 2, more={"other": 1.0})]
    ]
    (text,) = _table(points, _claim("a", "b"), _claim("a", "c"))
    assert [line.split(" | ")[0] for line in text.splitlines()[2:]] == ["| a / c"]
    comparison = compare(points, PERPLEXITY)
    (scorer,) = other_scorers(comparison)
    seen = {curve.run: np.isfinite(scorer.perplexities(curve.points)).tolist() for curve in comparison.curves}
    assert seen == {"a": [True] * 4, "b": [False] * 4, "c": [True] * 4}


def test_the_same_points_are_drawn_in_the_other_perplexity():
    comparison = compare(BOTH, PERPLEXITY)
    (scorer,) = other_scorers(comparison)
    panels = plots.by_other_scorer(comparison, scorer, {"text": (4.0, 2.0)}).axes
    assert [panel.get_title() for panel in panels] == ["8 steps", "16 steps"]
    for panel, group in zip(panels, comparison.groups, strict=True):
        *lines, star = panel.get_lines()
        assert [line.get_label() for line in lines] == ["a", "b"]
        for line, curve in zip(lines, group.curves, strict=True):
            assert line.get_xdata().tolist() == list(ENTROPIES)
            assert line.get_ydata().tolist() == [point.measures["perplexity:other"] for point in curve.points]
        assert (*star.get_xdata(), *star.get_ydata()) == (4.0, 2.0)
