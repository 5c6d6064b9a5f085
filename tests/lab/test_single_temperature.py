"""The winner is a matter of the temperatures that somebody chooses for the curves."""

import numpy as np
import pytest
from candi_lab.report import plots
from candi_lab.report.sweep_sections import show_trap
from candi_lab.runner.schema import CurveRef
from candi_lab.verdicts.single_temperature import winners

from candi.evaluation.compare import compare
from candi.views.plots import COLOURS
from tests.lab.made import ENTROPIES, PERPLEXITY, WORDS, curve_points


@pytest.mark.parametrize("axes", [PERPLEXITY, WORDS], ids=["perplexity", "words"])
def test_each_can_be_made_to_win_and_the_closest_choice_is_shown(axes):
    """`worse` costs twice as much, and a step of temperature is a factor of 10^(1/2) > 2: it wins one step below."""
    found = winners(
        compare([*curve_points("better", 1, axes), *curve_points("worse", 2, axes)], axes), ["better", "worse"]
    )
    assert [one.winner for one in found] == ["better", "worse"]
    at = [one.temperatures for one in found]
    assert at[0]["better"] == at[0]["worse"]  # nothing between their diversities
    assert at[1]["worse"] == pytest.approx(at[1]["better"] - 0.1)
    for one in found:
        for label, dots in one.dots.items():
            assert [dot.steps for dot in dots] == [8, 16]
            assert {dot.diversity for dot in dots} == {ENTROPIES[round(10 * one.temperatures[label]) - 7]}
        costs = axes.cost(np.array([[dot.quality for dot in one.dots[label]] for label in ("better", "worse")]))
        assert ((costs[0] < costs[1]) == (one.winner == "better")).all()
    panels = plots.single_temperatures(found, ("diversity", "quality"), ["other", "better", "worse"]).axes
    assert [line.get_color() for line in panels[0].get_lines()] == list(COLOURS[1:3])  # as where there are all
    assert [panel.get_title() for panel in panels] == ["better is best", "worse is best"]
    shown = [text.get_text() for text in panels[1].get_legend().get_texts()]
    assert shown[1].startswith(f"worse at {at[1]['worse']:g} ({found[1].dots['worse'][0].diversity:.2f} to ")


def test_who_cannot_win_is_not_shown_and_neither_are_temperatures_that_were_not_tried_at_every_number_of_steps():
    hopeless = [*curve_points("a", 1), *curve_points("b", 1e4)]
    assert [one.winner for one in winners(compare(hopeless, PERPLEXITY), ["a", "b"])] == ["a"]
    # b would win with its lowest temperature, which it has at 8 steps alone
    points = [*curve_points("a", 1, entropies=(4.0,)), *curve_points("b", 9)]
    points = [one for one in points if (one.cell.run, one.cell.steps, one.cell.temperature) != ("b", 16, 0.7)]
    assert [one.winner for one in winners(compare(points, PERPLEXITY), ["a", "b"])] == ["a"]
    points = [*curve_points("a", 1, entropies=(4.0,)), *curve_points("b", 9)]
    assert [one.winner for one in winners(compare(points, PERPLEXITY), ["a", "b"])] == ["a", "b"]


def test_nobody_wins_a_tie():
    points = [*curve_points("a", 1, entropies=(4.0,)), *curve_points("b", 1, entropies=(4.0,))]
    assert winners(compare(points, PERPLEXITY), ["a", "b"]) == []


def test_a_curve_that_wins_at_some_numbers_of_steps_alone_does_not_win():
    points = [*curve_points("a", 1, entropies=(4.0,)), *curve_points("b", 0.5, entropies=(4.0,), steps=(8,))]
    points += curve_points("b", 2, entropies=(4.0,), steps=(16,))
    assert winners(compare(points, PERPLEXITY), ["a", "b"]) == []


def test_the_page_shows_which_curves_can_be_made_to_win(tmp_path):
    points = [*curve_points("a", 1), *curve_points("b", 2), *curve_points("fixed", 1e-9, steps=(16,), steps_fixed=True)]
    refs = [CurveRef(name) for name in ("a", "b", "fixed", "missing")]
    picture, text = show_trap(compare(points, PERPLEXITY), refs, tmp_path / "s")
    assert (tmp_path / "s-trap.svg").exists()
    assert "s-trap.svg" in picture
    assert "steps: a (a at 0.7, b at 0.7); b (a at 0.8, b at 0.7). The" in text  # a method with its own steps is out
    assert show_trap(compare(points, PERPLEXITY), refs[:1], tmp_path / "s") == []
    assert show_trap(compare(points, PERPLEXITY), [], tmp_path / "s") == []
