"""Comparisons of simulated sweeps whose truth is known."""

import math

import numpy as np
import pytest

from candi.errors import UserError
from candi.evaluation.compare import Axes, Curve, compare
from candi.evaluation.over_steps import over_steps
from candi.report.tables import caution, latex, markdown, sentence

AXES = Axes("entropy", "perplexity")
CARD = {
    "checkpoint": "x", "steps": 8, "steps_fixed": False, "options": {}, "n": 64, "tokenizer": "t", "length": 16,
    "ema": True, "precision": "float32", "draws": "float64", "scorer": {"scorer": "s"}, "words": None, "mauve": None,
    "top_k": None, "nucleus": None, "seed": 0,
}  # fmt: skip


def _simulated(run, log_cost, random, n=64, steps=8, entropies=(3, 3.5, 4, 4.5, 5), shared=0.0, **card):
    """Temperatures with true entropies and true log-perplexities log_cost(entropy).

    `shared` is the part of a sample's luck that all temperatures have in common, as those of one seed do.
    """
    lines = []
    common = random.standard_normal((2, n))
    for index, entropy in enumerate(entropies):
        own = random.standard_normal((2, n))
        luck = math.sqrt(shared) * common + math.sqrt(1 - shared) * own
        columns = {
            "entropy": (entropy + 0.1 * luck[0]).tolist(),
            "nats": (20 * (log_cost(entropy) + 0.3 * luck[1])).tolist(),
            "tokens": [20] * n,
        }
        measures = {"entropy": AXES.measures[0].of(columns), "perplexity": AXES.measures[1].of(columns)}
        made = CARD | {"run": run, "n": n, "steps": steps, "temperature": 0.6 + 0.1 * index} | card
        lines.append({"key": f"{run}{steps}{index}", "card": made, "measures": measures, "columns": columns})
    return lines


@pytest.mark.parametrize(
    ("slope", "shared", "entropies"),
    [
        (1.0, 0.0, np.linspace(3, 5, 5)),
        (1.0, 0.8, np.linspace(3, 5, 5)),
        (1.0, 0.8, np.linspace(4, 4.4, 13)),  # closer than their noise
        (0.2, 0.0, np.linspace(4, 5, 13)),  # nearly flat
    ],
    ids=["apart", "one seed", "dense", "flat"],
)
def test_bands_cover_the_truth_at_their_stated_rate(slope, shared, entropies):
    """95% bands of 150 simulated sweeps, looked at in three places each.

    Looks at one sweep are not independent, so the standard error of the rate lies between 1% and 2%; 64 samples drawn
    with replacement are known to cover a little less than 95%, pooled neighbours a little more.
    """
    covered = []
    for seed in range(150):
        random = np.random.default_rng(seed)
        lines = _simulated("a", lambda x: slope * x, random, entropies=entropies, shared=shared)
        found = Curve("a", 8, False, lines, AXES, draws=200).band
        for part in (0.25, 0.5, 0.75):
            x = entropies[0] + part * (entropies[-1] - entropies[0])
            low, high = (np.interp(x, found.diversity, row) for row in (found.low, found.high))
            covered.append(low <= math.exp(slope * x) <= high)
    assert 0.90 <= np.mean(covered) <= 0.99


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


@pytest.mark.parametrize(("shared", "count"), [(0.0, 5), (0.9, 5), (0.5, 25)], ids=["apart", "one seed", "more points"])
def test_equal_runs_are_called_different_as_rarely_as_stated(shared, count):
    """5% of 60 comparisons are 3; more than 9 have a chance below 0.2%, even at a true rate of 7%, 2%.

    To have been swept over more temperatures must not help either.
    """
    settled = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        lines = _simulated("a_1", lambda x: x, random, shared=shared, entropies=np.linspace(4, 4.4, count))
        lines += _simulated("b", lambda x: x, random, shared=shared, entropies=np.linspace(4, 4.4, 5))
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
    for line in far:
        line["measures"]["perplexity"] /= 100
        line["columns"]["nats"] = [value - 20 * math.log(100) for value in line["columns"]["nats"]]
    pair = compare(_simulated("near", lambda x: x, random) + far, AXES).groups[0].pairs[0]
    assert sentence(pair, AXES) == "far has a point that is more diverse and better than every point of near."


def test_what_belongs_to_all_samples_together_is_never_sure():
    random = np.random.default_rng(7)
    lines = _simulated("a", lambda x: x, random) + _simulated("b", lambda x: x, random)
    for index, line in enumerate(lines):
        line["measures"]["mauve"] = 0.9 - 0.1 * (index % 5) + 0.02 * (index < 5)
    axes = Axes("entropy", "mauve")
    pair = compare(lines, axes).groups[0].pairs[0]
    told = sentence(pair, axes)
    assert "nothing is settled" in told
    assert "has no interval" in told
    assert "as measured" in caution(axes)


def test_ways_of_sampling_are_curves_of_their_own_and_points_count_once():
    random = np.random.default_rng(8)
    lines = _simulated("a", lambda x: x, random)
    cut = [line | {"key": line["key"] + "n", "card": line["card"] | {"nucleus": 0.5}} for line in lines]
    curves = compare(lines + cut + lines, AXES).groups[0].curves
    assert [(curve.label, len(curve.lines)) for curve in curves] == [("a", 5), ("a (nucleus 0.5)", 5)]
    options = [
        line | {"key": line["key"] + value, "card": line["card"] | {"options": {"solver": "ddim", "order": value}}}
        for value in ("first", "last")
        for line in lines
    ]  # named only as far as they differ
    assert [curve.label for curve in compare(options, AXES).groups[0].curves] == ["a (first)", "a (last)"]
    with pytest.raises(UserError, match="seed differs"):
        compare(lines + [line | {"key": line["key"] + "s", "card": line["card"] | {"seed": 1}} for line in lines], AXES)


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
    assert comparison.notes == ["Left out: a, 8 steps, temperature 0.7 has no perplexity."]
    assert comparison.notes[0] in markdown(comparison)
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


def test_a_property_may_be_0_or_below():
    """Compared by its difference: here 0.5 everywhere."""
    random = np.random.default_rng(9)
    lines = _simulated("good", lambda x: x, random) + _simulated("bad", lambda x: x, random)
    for line, centre in zip(lines, [1.0, 0.5, 0.0, -0.5, -1.0, 0.5, 0.0, -0.5, -1.0, -1.5], strict=True):
        values = centre + 0.2 * random.standard_normal(64)
        line["columns"] |= {"property": values.tolist(), "is_molecule": [1.0] * 64}
        line["measures"]["property"] = float(values.mean())
        line["card"]["property"] = "logp"
    axes = Axes("entropy", "property")
    comparison = compare(lines, axes)
    assert not comparison.notes
    assert comparison.labels[1] == "mean logp of the valid molecules"
    told = sentence(comparison.groups[0].pairs[0], axes)
    assert told.startswith("good is ahead of bad")
    assert float(told.partition("is higher by ")[2].split()[0]) == pytest.approx(0.5, abs=0.1)
    for line in lines:  # the mirror image: now it is wanted small
        line["columns"]["property"] = [-value for value in line["columns"]["property"]]
        line["measures"]["property"] *= -1
    small = Axes("entropy", "property", less=True)
    mirrored = sentence(compare(lines, small).groups[0].pairs[0], small)
    assert mirrored == told.replace("higher", "lower")
    band = comparison.groups[0].curves[0].band
    assert band.quality[0] == pytest.approx(1.0, abs=0.1)
    assert (band.low <= band.quality).all()
    assert (band.quality <= band.high).all()


def test_quality_over_steps_at_one_diversity():
    """log cost = entropy + what the steps add: at the middle of what all reach it is read off, within its band."""
    random = np.random.default_rng(0)
    lines = [
        line
        for steps, extra in ((8, 1.0), (16, 0.5))
        for line in _simulated("a", lambda x, e=extra: 0.5 * x + e, random, n=256, steps=steps)
    ]
    lines += _simulated("b", lambda x: 0.5 * x, random, n=256, steps=16, steps_fixed=True, entropies=(3.5, 4, 5.5, 6))
    lines += _simulated("far", lambda x: 0.5 * x, random, n=256, steps=8, entropies=(7, 8))
    found = over_steps(compare(lines, AXES))
    assert found.diversity == pytest.approx(4.25, abs=0.03)  # of 3.5 to 5, which all but one reach
    assert [(cell.label, cell.steps) for cell in found.cells] == [("a", 8), ("b", None), ("a", 16)]
    assert over_steps(compare(lines[-2:], AXES)) is None  # one curve alone
    apart = _simulated("a", lambda x: x, random, entropies=(1, 2)) + _simulated(
        "b", lambda x: x, random, entropies=(5, 6)
    )
    assert over_steps(compare(apart, AXES)) is None  # no range is shared
    for cell, extra in zip(found.cells, (1.0, 0.0, 0.5), strict=True):
        assert cell.low <= cell.value <= cell.high
        assert cell.value == pytest.approx(math.exp(4.25 / 2 + extra), rel=0.05)  # 256 samples of spread 0.3: 2%
