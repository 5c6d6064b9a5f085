"""Which curve wins is a matter of the temperatures that somebody chooses for them."""

import itertools

import numpy as np
import pytest

from candi import plots
from candi.evaluation.compare import Axes, compare
from candi.evaluation.single_temperature import winners

PERPLEXITY, WORDS = Axes("entropy", "perplexity"), Axes("unique_words", "valid_words")
ENTROPIES = (3.0, 3.5, 4.0, 4.5)
CARD = {
    "checkpoint": "x", "steps_fixed": False, "options": {}, "n": 2, "tokenizer": "t", "length": 16, "ema": True,
    "precision": "float32", "draws": "float64", "scorer": {"scorer": "s"}, "words": None, "mauve": None,
    "top_k": None, "nucleus": None, "seed": 0, "characters": None,
}  # fmt: skip


def _curve(run: str, factor: float, axes: Axes = PERPLEXITY, entropies=ENTROPIES, steps=(8, 16)):
    """Cost = factor * 10^entropy / sqrt(steps): one curve is the worse by its factor, whatever the temperature."""
    for count, (index, entropy) in itertools.product(steps, enumerate(entropies)):
        cost = factor * 10**entropy / count**0.5
        quality = cost if axes is PERPLEXITY else 1 / cost
        columns = {
            "entropy": [entropy] * 2,
            "nats": [1.0] * 2,
            "tokens": [1] * 2,
            "known_words": [1] * 2,
            "all_words": [1] * 2,
        }
        card = CARD | {"run": run, "steps": count, "temperature": 0.7 + 0.1 * index}
        yield {"key": f"{run}{count}{index}", "card": card, "columns": columns,
               "measures": {axes.diversity: entropy, axes.quality: quality}}  # fmt: skip


@pytest.mark.parametrize("axes", [PERPLEXITY, WORDS], ids=["perplexity", "words"])
def test_each_can_be_made_to_win_and_the_closest_choice_is_shown(axes):
    """`worse` costs twice as much, and a step of temperature is a factor of 10^(1/2) > 2: it wins one step below."""
    found = winners(compare([*_curve("better", 1, axes), *_curve("worse", 2, axes)], axes), ["better", "worse"])
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
    assert [line.get_color() for line in panels[0].get_lines()] == list(plots.COLOURS[1:3])  # as where there are all
    assert [panel.get_title() for panel in panels] == ["better is best", "worse is best"]
    told = [text.get_text() for text in panels[1].get_legend().get_texts()]
    assert told[1].startswith(f"worse at {at[1]['worse']:g} ({found[1].dots['worse'][0].diversity:.2f} to ")


def test_who_cannot_win_is_not_shown_and_neither_are_temperatures_that_were_not_tried_at_every_number_of_steps():
    hopeless = [*_curve("a", 1), *_curve("b", 1e4)]
    assert [one.winner for one in winners(compare(hopeless, PERPLEXITY), ["a", "b"])] == ["a"]
    # b would win with its lowest temperature, which it has at 8 steps alone
    lines = [line for line in [*_curve("a", 1, entropies=(4.0,)), *_curve("b", 9)] if line["key"] != "b160"]
    assert [one.winner for one in winners(compare(lines, PERPLEXITY), ["a", "b"])] == ["a"]
    lines = [*_curve("a", 1, entropies=(4.0,)), *_curve("b", 9)]
    assert [one.winner for one in winners(compare(lines, PERPLEXITY), ["a", "b"])] == ["a", "b"]


def test_nobody_wins_a_tie():
    lines = [*_curve("a", 1, entropies=(4.0,)), *_curve("b", 1, entropies=(4.0,))]
    assert winners(compare(lines, PERPLEXITY), ["a", "b"]) == []


def test_a_curve_that_wins_at_some_numbers_of_steps_alone_does_not_win():
    lines = [*_curve("a", 1, entropies=(4.0,)), *_curve("b", 0.5, entropies=(4.0,), steps=(8,))]
    lines += _curve("b", 2, entropies=(4.0,), steps=(16,))
    assert winners(compare(lines, PERPLEXITY), ["a", "b"]) == []
