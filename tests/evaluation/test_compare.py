"""Comparisons of simulated sweeps whose truth is known."""

import math

import numpy as np
import pytest

from candi.errors import UserError
from candi.evaluation.compare import Axes, Curve, compare
from candi.report.tables import latex, markdown, sentence

AXES = Axes("entropy", "perplexity")
CARD = {
    "checkpoint": "x", "steps": 8, "steps_fixed": False, "options": {}, "n": 64, "tokenizer": "t", "length": 16,
    "ema": True, "precision": "float32", "draws": "float64", "scorer": {"scorer": "s"}, "words": None, "mauve": None,
}  # fmt: skip


def _simulated(run, log_cost, random, n=64, steps=8, **card):
    """Temperatures whose true entropies are 3, 3.5, ..., 5 and true log-perplexities log_cost(entropy)."""
    lines = []
    for index, entropy in enumerate(np.linspace(3, 5, 5)):
        columns = {
            "entropy": (entropy + 0.1 * random.standard_normal(n)).tolist(),
            "nats": (20 * (log_cost(entropy) + 0.3 * random.standard_normal(n))).tolist(),
            "tokens": [20] * n,
        }
        measures = {"entropy": AXES.measures[0].of(columns), "perplexity": AXES.measures[1].of(columns)}
        made = CARD | {"run": run, "n": n, "steps": steps, "temperature": 0.6 + 0.1 * index} | card
        lines.append({"key": f"{run}{steps}{index}", "card": made, "measures": measures, "columns": columns})
    return lines


def test_bands_cover_the_truth_at_their_stated_rate():
    """95% bands of 100 simulated sweeps, looked at three diversities each.

    The truth is a line, so the front interpolates it without error. The looks of one sweep are nearly independent, so
    the standard error of the rate is about 1%; a bootstrap of 64 samples is known to cover a little less than 95%.
    """
    covered = []
    for seed in range(100):
        random = np.random.default_rng(seed)
        curve = Curve("a", 8, False, _simulated("a", lambda x: x, random), AXES)
        found = curve.band()
        for x in (3.4, 4.0, 4.6):
            low, high = (np.interp(x, found.diversity, row) for row in (found.low, found.high))
            covered.append(low <= math.exp(x) <= high)
    assert 0.90 <= np.mean(covered) <= 0.985


def test_the_better_run_is_found_with_its_ratio():
    random = np.random.default_rng(0)
    lines = _simulated("good", lambda x: x - 0.2, random) + _simulated("bad", lambda x: x, random)
    comparison = compare(lines, AXES)
    (group,) = comparison.groups
    (pair,) = group.pairs
    assert pair.result.ratio == pytest.approx(math.exp(-0.2), abs=0.06)
    assert pair.result.ratio_high < 1
    assert sentence(pair, AXES).startswith("good is ahead of bad")
    swapped = compare(lines[5:] + lines[:5], AXES).groups[0].pairs[0]
    assert sentence(swapped, AXES).startswith("good is ahead of bad")
    assert ("bad", "good") in group.rankings, "one temperature each can make the worse run win"
    where, matched = group.matched()
    assert all(matched["good"][i][0] < matched["bad"][i][0] for i in range(len(where)))
    assert "good is ahead of bad" in markdown(comparison)
    assert latex(comparison).count(r"\midrule") == 1


def test_equal_runs_are_called_different_as_rarely_as_stated():
    """5% of 60 comparisons are 3; more than 9 have a chance below 0.2%, even at a true rate of 7%, 2%."""
    settled = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        lines = _simulated("a_1", lambda x: x, random) + _simulated("b", lambda x: x, random)
        comparison = compare(lines, AXES, draws=150)
        pair = comparison.groups[0].pairs[0]
        interval = pair.result.ratio_low < 1 < pair.result.ratio_high
        assert ("nothing is settled" in sentence(pair, AXES)) == interval
        settled += not interval
    assert settled <= 9
    assert r"a\_1" in latex(comparison)


def test_runs_that_share_no_diversity_are_not_compared():
    random = np.random.default_rng(2)
    far = _simulated("far", lambda x: x, random)
    for line in far:
        line["measures"]["entropy"] += 10
        line["columns"]["entropy"] = [value + 10 for value in line["columns"]["entropy"]]
    pair = compare(_simulated("near", lambda x: x, random) + far, AXES).groups[0].pairs[0]
    assert pair.result is None
    assert "neither can be called better" in sentence(pair, AXES)


def test_a_method_that_decides_its_steps_stands_beside_every_number_of_them():
    random = np.random.default_rng(3)
    lines = _simulated("ar", lambda x: x, random, steps=16, steps_fixed=True)
    lines += _simulated("m", lambda x: x, random, steps=4) + _simulated("m", lambda x: x, random, steps=8)
    groups = compare(lines, AXES).groups
    assert [(group.steps, [curve.label for curve in group.curves]) for group in groups] == [
        (4, ["ar", "m"]),
        (8, ["ar", "m"]),
    ]


def test_points_without_a_measure_are_left_out_and_named():
    random = np.random.default_rng(4)
    lines = _simulated("a", lambda x: x, random)
    lines[1]["measures"]["perplexity"] = None
    comparison = compare(lines, AXES)
    assert comparison.left_out == ["a, 8 steps, temperature 0.7"]
    assert "Left out, because a measure is missing: a, 8 steps" in markdown(comparison)
    with pytest.raises(UserError, match="perplexity needs a --scorer"):
        compare([line | {"measures": {"entropy": 1.0}} for line in lines], AXES)


def test_a_run_with_two_checkpoints_is_refused():
    random = np.random.default_rng(5)
    lines = _simulated("a", lambda x: x, random) + _simulated("a", lambda x: x, random, steps=4, checkpoint="y")
    with pytest.raises(UserError, match="checkpoint differs"):
        compare(lines, AXES)


def test_valid_words_are_the_better_the_more():
    random = np.random.default_rng(6)
    lines = _simulated("good", lambda x: x, random) + _simulated("bad", lambda x: x, random)
    for line, share in zip(lines, [0.9, 0.8, 0.7, 0.6, 0.5, 0.8, 0.7, 0.6, 0.5, 0.4], strict=True):
        valid = random.binomial(20, share, 64)
        line["columns"] |= {"known_words": valid.tolist(), "all_words": [20] * 64}
        line["measures"]["valid_words"] = float(valid.mean() / 20)
        line["card"]["words"] = {"list": "w"}
    pair = compare(lines, Axes("entropy", "valid_words")).groups[0].pairs[0]
    told = sentence(pair, Axes("entropy", "valid_words"))
    assert told.startswith("good is ahead of bad")
    ratio = float(told.partition("valid_words is ")[2].split()[0])
    assert 1.1 < ratio < 1.2
