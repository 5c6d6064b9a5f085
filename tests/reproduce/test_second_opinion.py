"""What a further judge says of the same samples."""

import pytest

from candi import plots
from candi.evaluation.compare import Axes, compare
from candi.reproduce.declared import Claim
from candi.reproduce.of_sweeps import shown_trap
from candi.reproduce.second_opinion import other_judges, second_opinion
from tests.evaluation.test_single_temperature import ENTROPIES, _curve

AXES = Axes("entropy", "perplexity")
CLAIM, OTHER = Claim("", "s", "a", "b"), "perplexity:other"


def _judged(run, factor, other=None, **curve):
    """As `other` judges: its perplexity is the square root, times so much."""
    for line in _curve(run, factor, **curve):
        if other is not None:
            line["measures"]["perplexity:other"] = other * line["measures"]["perplexity"] ** 0.5
        yield line


def test_it_tells_the_ratios_by_the_other_judge_at_the_same_diversity():
    """Costs of 1 and 4 times the same; by the other judge 1 and 2 times, and b is worse by another 1.5."""
    comparison = compare([*_judged("a", 1, 1.0), *_judged("b", 4, 1.5)], AXES)
    assert other_judges(comparison) == [OTHER]
    (told,) = second_opinion(comparison, [CLAIM, Claim("again", "s", "a", "b"), Claim("", "s", "b", "a")], OTHER)
    assert told.splitlines()[0] == "| perplexity by other, per token of its own | 8 steps | 16 steps |"
    assert told.splitlines()[2:] == ["| a / b | 0.333 | 0.333 |", "| b / a | 3.000 | 3.000 |"]


@pytest.mark.parametrize(
    "lines",
    [
        [*_judged("a", 1), *_judged("b", 4)],  # by nobody else
        [*_judged("a", 1, 1.0), *_judged("b", 4)],  # one of them by nobody else
        [*_judged("a", 1, 1.0)],
        [*_judged("a", 1, 1.0), *_judged("b", 1, 1.0, entropies=(7.0, 8.0))],  # no range is shared
    ],
)
def test_it_says_nothing_where_there_is_nothing_to_compare(lines):
    assert second_opinion(compare(lines, AXES), [CLAIM], OTHER) == []


def test_the_same_points_are_drawn_as_the_other_judge_sees_them():
    comparison = compare([*_judged("a", 1, 1.0), *_judged("b", 4, 1.5)], AXES)
    panels = plots.by_another_judge(comparison, OTHER, {"text": (4.0, 2.0)}).axes
    assert [panel.get_title() for panel in panels] == ["8 steps", "16 steps"]
    for panel, group in zip(panels, comparison.groups, strict=True):
        *lines, star = panel.get_lines()
        assert [line.get_label() for line in lines] == ["a", "b"]
        for line, curve in zip(lines, group.curves, strict=True):
            assert line.get_xdata().tolist() == list(ENTROPIES)
            seen = [some["measures"][OTHER] for some in curve.lines]
            assert line.get_ydata().tolist() == seen
        assert (*star.get_xdata(), *star.get_ydata()) == (4.0, 2.0)


def test_the_page_shows_who_can_be_made_to_win(tmp_path):
    lines = [*_curve("a", 1), *_curve("b", 2), *_curve("fixed", 1e-9)]
    for line in lines:
        line["card"]["steps_fixed"] = line["card"]["run"] == "fixed"
    lines = [line for line in lines if not (line["card"]["steps_fixed"] and line["card"]["steps"] == 8)]
    picture, told = shown_trap(compare(lines, AXES), ["a", "b", "fixed", "missing"], tmp_path / "s")
    assert (tmp_path / "s-trap.svg").exists()
    assert "s-trap.svg" in picture
    assert "steps: a (a at 0.7, b at 0.7); b (a at 0.8, b at 0.7). What gives" in told  # who takes its own steps is out
    assert shown_trap(compare(lines, AXES), ["a"], tmp_path / "s") == []
    assert shown_trap(compare(lines, AXES), [], tmp_path / "s") == []
