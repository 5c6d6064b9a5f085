"""The interval decides what the points say to a claim."""

import math

import pytest
from candi_lab.runner.schema import Claim, CurveRef
from candi_lab.verdicts.verdict import AGREES, DISAGREES, MISSING, OPEN, Finding, findings, verdict

from candi.base.errors import UserError
from candi.evaluation.compare import Axes, compare
from candi.evaluation.pareto import Dominance
from tests.lab.made import MOLECULES, PERPLEXITY, WORDS, Versus, comparison, curve_points, group, versus


def _claim(first: str = "a", second: str = "b", margin: float = 0.0, level: bool = False, steps=()) -> Claim:
    return Claim("", "s", CurveRef(first), CurveRef(second), margin, level, steps)


def _found(claim: Claim, *pairs: Versus, axes: Axes = WORDS) -> list[Finding]:
    return findings(claim, comparison(group(8, *pairs), axes=axes))


@pytest.mark.parametrize(
    ("cost", "margin", "level", "outcome"),
    [
        ((0.90, 0.95), 0.0, False, AGREES),
        ((1.05, 1.10), 0.0, False, DISAGREES),
        ((0.95, 1.05), 0.0, False, OPEN),
        ((1.00, 1.00), 0.0, False, OPEN),  # the same is not ahead
        ((0.99, 1.02), 0.05, False, AGREES),
        ((0.50, 0.60), 0.05, False, AGREES),  # better than claimed
        ((0.50, 0.60), 0.05, True, DISAGREES),  # but not level
        ((0.97, 1.02), 0.05, True, AGREES),
        ((0.97, 1.20), 0.05, True, OPEN),
        ((1.06, 1.20), 0.05, False, DISAGREES),
    ],
)
def test_the_interval_decides(cost, margin, level, outcome):
    claim = _claim("a", "b", margin, level)
    (finding,) = _found(claim, versus("a", "b", *cost))
    assert finding.verdict == outcome
    assert (finding.low, finding.high) == pytest.approx((1 / cost[1], 1 / cost[0]))  # of valid words


def test_who_is_surely_behind_on_a_part_of_the_range_is_not_ahead():
    """Whatever the mean says; and curves that cross are told to do so, from either side."""
    mean = (0.85, 0.8, 0.9, math.log(0.85))
    crossing = Versus("a", "b", Dominance(0.1, 0.9, 0.7, 0.6, 0.3, *mean))
    (finding,) = _found(_claim(), crossing)
    assert (finding.verdict, finding.crosses) == (OPEN, True)
    assert str(finding).endswith("surely ahead on 60% of the range and behind on 30%")
    (back,) = _found(_claim("b", "a"), crossing)
    assert (back.verdict, back.ahead, back.behind) == (DISAGREES, 0.3, 0.6)
    (hardly,) = _found(_claim(), Versus("a", "b", Dominance(0.1, 0.9, 0.95, 0.9, 0.05, *mean)))
    assert (hardly.verdict, hardly.crosses) == (AGREES, False)
    (near,) = _found(_claim("a", "b", margin=0.05), crossing)
    assert near.verdict == AGREES  # it was not said to be ahead


def test_a_pair_is_read_from_either_side():
    claim = _claim()
    mine, theirs = _found(claim, versus("a", "b", 0.8, 0.9)), _found(claim, versus("b", "a", 1 / 0.9, 1 / 0.8))
    assert mine[0].verdict == theirs[0].verdict == AGREES
    assert mine[0].value == pytest.approx(theirs[0].value)


def test_perplexity_is_told_as_it_is():
    (finding,) = _found(_claim(), versus("a", "b", 0.8, 0.9), axes=PERPLEXITY)
    assert (finding.low, finding.high) == pytest.approx((0.8, 0.9))


def test_a_property_is_told_by_its_difference():
    """Its cost is exp(-property): half as dear is log 2 more of it."""
    axes = MOLECULES
    (finding,) = _found(_claim(), versus("a", "b", 0.4, 0.5), axes=axes)
    assert finding.verdict == AGREES
    assert (finding.low, finding.high) == pytest.approx((math.log(2), -math.log(0.4)))
    near = _claim("a", "b", margin=0.05)
    assert _found(near, versus("a", "b", 1.0, math.exp(0.04)), axes=axes)[0].verdict == AGREES
    assert _found(near, versus("a", "b", math.exp(0.06), 2.0), axes=axes)[0].verdict == DISAGREES


def test_no_shared_range_and_noversus():
    claim = _claim()
    assert _found(claim, Versus("a", "b", None, "a"))[0].verdict == AGREES
    assert _found(claim, Versus("a", "b", None, "b"))[0].verdict == DISAGREES
    near, level = _claim("a", "b", margin=0.1), _claim("a", "b", margin=0.1, level=True)
    assert _found(near, Versus("a", "b", None, "b"))[0].verdict == OPEN  # behind, but by how much?
    assert _found(near, Versus("a", "b", None, "a"))[0].verdict == AGREES
    assert _found(level, Versus("a", "b", None, "a"))[0].verdict == OPEN
    behind = versus("a", "b", 1.005, 1.008)  # wholly behind, and still within the margin
    assert _found(near, Versus("a", "b", behind.result, "b"))[0].verdict == AGREES
    assert _found(claim, Versus("a", "b", None, None))[0].verdict == OPEN
    assert _found(claim, versus("a", "c", 0.8, 0.9))[0].verdict == MISSING
    assert _found(_claim("a", "b", steps=[16]), versus("a", "b", 0.8, 0.9)) == []


def test_one_that_disagrees_is_enough_and_all_must_agree():
    def together(*kinds: str) -> str:
        return verdict([Finding(8, kind) for kind in kinds])

    assert together(AGREES, AGREES) == AGREES
    assert together(AGREES, OPEN) == OPEN
    assert together(AGREES, OPEN, DISAGREES) == DISAGREES
    assert together(AGREES, MISSING) == OPEN
    assert together() == together(MISSING) == MISSING


def test_a_claim_names_curves_by_their_options():
    points = list(curve_points("b", 4))
    for factor, order in ((1, "random"), (2, "confidence")):
        points += curve_points("a", factor, options={"order": order, "solver": "ddim"})
    found = compare(points, PERPLEXITY)
    random, confidence = (CurveRef("a", {"order": order}) for order in ("random", "confidence"))
    ratios = {
        (str(first), str(second)): [round(one.value, 6) for one in findings(Claim("", "s", first, second), found)]
        for first, second in ((random, confidence), (CurveRef("b"), random))
    }
    assert ratios == {("a (random)", "a (confidence)"): [0.5, 0.5], ("b", "a (random)"): [4.0, 4.0]}
    with pytest.raises(UserError, match=r"a names several curves \(a \(random\), a \(confidence\)\)"):
        findings(Claim("", "s", CurveRef("a"), CurveRef("b")), found)
