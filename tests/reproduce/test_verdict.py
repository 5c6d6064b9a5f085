import math

import pytest

from candi.evaluation.compare import Axes, Comparison, Group, Pair
from candi.evaluation.pareto import Dominance
from candi.reproduce.declared import Claim
from candi.reproduce.verdict import AGREES, DISAGREES, MISSING, OPEN, Finding, findings, verdict

WORDS = Axes("unique_words", "valid_words")  # cost is 1 / valid words


def _pair(first: str, second: str, low: float, high: float) -> Pair:
    middle = math.sqrt(low * high)
    ahead, behind = float(high < 1), float(low > 1)  # on all of the range, or on none of it for sure
    return Pair(first, second, Dominance(0.1, 0.9, ahead, ahead, behind, middle, low, high, math.log(middle)))


def _found(claim: Claim, *pairs: Pair, axes: Axes = WORDS):
    return findings(claim, Comparison(axes, [Group(8, [], pairs, None)], []))


@pytest.mark.parametrize(
    ("cost", "margin", "level", "told"),
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
def test_the_interval_decides(cost, margin, level, told):
    claim = Claim("", "s", "a", "b", margin, level)
    (finding,) = _found(claim, _pair("a", "b", *cost))
    assert finding.verdict == told
    assert (finding.low, finding.high) == pytest.approx((1 / cost[1], 1 / cost[0]))  # told in valid words


def test_who_is_surely_behind_on_a_part_of_the_range_is_not_ahead():
    """Whatever the mean says; and curves that cross are told to do so, from either side."""
    mean = (0.85, 0.8, 0.9, math.log(0.85))
    crossing = Pair("a", "b", Dominance(0.1, 0.9, 0.7, 0.6, 0.3, *mean))
    (finding,) = _found(Claim("", "s", "a", "b"), crossing)
    assert (finding.verdict, finding.crosses) == (OPEN, True)
    assert str(finding).endswith("surely ahead on 60% of the range and behind on 30%")
    (back,) = _found(Claim("", "s", "b", "a"), crossing)
    assert (back.verdict, back.ahead, back.behind) == (DISAGREES, 0.3, 0.6)
    (hardly,) = _found(Claim("", "s", "a", "b"), Pair("a", "b", Dominance(0.1, 0.9, 0.95, 0.9, 0.05, *mean)))
    assert (hardly.verdict, hardly.crosses) == (AGREES, False)
    (near,) = _found(Claim("", "s", "a", "b", margin=0.05), crossing)
    assert near.verdict == AGREES  # it was not said to be ahead


def test_a_pair_is_read_from_either_side():
    claim = Claim("", "s", "a", "b")
    mine, theirs = _found(claim, _pair("a", "b", 0.8, 0.9)), _found(claim, _pair("b", "a", 1 / 0.9, 1 / 0.8))
    assert mine[0].verdict == theirs[0].verdict == AGREES
    assert mine[0].value == pytest.approx(theirs[0].value)


def test_perplexity_is_told_as_it_is():
    (finding,) = _found(Claim("", "s", "a", "b"), _pair("a", "b", 0.8, 0.9), axes=Axes("entropy", "perplexity"))
    assert (finding.low, finding.high) == pytest.approx((0.8, 0.9))


def test_a_property_is_told_by_its_difference():
    """Its cost is exp(-property): half as dear is log 2 more of it."""
    axes = Axes("unique_molecules", "property")
    (finding,) = _found(Claim("", "s", "a", "b"), _pair("a", "b", 0.4, 0.5), axes=axes)
    assert finding.verdict == AGREES
    assert (finding.low, finding.high) == pytest.approx((math.log(2), -math.log(0.4)))
    near = Claim("", "s", "a", "b", margin=0.05)
    assert _found(near, _pair("a", "b", 1.0, math.exp(0.04)), axes=axes)[0].verdict == AGREES
    assert _found(near, _pair("a", "b", math.exp(0.06), 2.0), axes=axes)[0].verdict == DISAGREES


def test_no_shared_range_and_no_pair():
    claim = Claim("", "s", "a", "b")
    assert _found(claim, Pair("a", "b", None, "a"))[0].verdict == AGREES
    assert _found(claim, Pair("a", "b", None, "b"))[0].verdict == DISAGREES
    near, level = Claim("", "s", "a", "b", margin=0.1), Claim("", "s", "a", "b", margin=0.1, level=True)
    assert _found(near, Pair("a", "b", None, "b"))[0].verdict == OPEN  # behind, but by how much?
    assert _found(near, Pair("a", "b", None, "a"))[0].verdict == AGREES
    assert _found(level, Pair("a", "b", None, "a"))[0].verdict == OPEN
    behind = _pair("a", "b", 1.005, 1.008)  # wholly behind, and still within the margin
    assert _found(near, Pair("a", "b", behind.result, "b"))[0].verdict == AGREES
    assert _found(claim, Pair("a", "b", None, None))[0].verdict == OPEN
    assert _found(claim, _pair("a", "c", 0.8, 0.9))[0].verdict == MISSING
    assert _found(Claim("", "s", "a", "b", steps=[16]), _pair("a", "b", 0.8, 0.9)) == []


def test_one_that_disagrees_is_enough_and_all_must_agree():
    def of(*kinds: str) -> str:
        return verdict([Finding(8, kind) for kind in kinds])

    assert of(AGREES, AGREES) == AGREES
    assert of(AGREES, OPEN) == OPEN
    assert of(AGREES, OPEN, DISAGREES) == DISAGREES
    assert of(AGREES, MISSING) == OPEN
    assert of() == of(MISSING) == MISSING
