import itertools
from dataclasses import replace

import numpy as np
import pytest

from candi.base.errors import UserError
from candi.evaluation.pareto import Bootstrapped, band, cost_at, dominance, front, rankings, wholly_ahead


def test_the_front_is_what_nothing_dominates():
    """Against the definition, pair by pair, on random points with ties."""
    random = np.random.default_rng(0)
    for _ in range(50):
        diversity, quality = random.integers(0, 6, 12).astype(float), random.integers(0, 6, 12).astype(float)
        kept = set(map(tuple, np.stack([diversity, quality], 1)[front(diversity, quality)]))
        points = set(zip(diversity, quality, strict=True))
        free = {
            p for p in points if not any(q != p and q[0] >= p[0] and q[1] <= p[1] for q in points)
        }  # fmt: skip
        assert kept == free
    order = front(diversity, quality)
    assert (np.diff(diversity[order]) > 0).all()


def test_costs_between_points_and_nothing_beyond():
    """log cost is linear between points: 10 and 40 have 20 in the middle."""
    at = cost_at(np.array([1.0, 2.0]), np.array([10.0, 40.0]), np.array([0.5, 1.0, 1.5, 2.0, 2.5]))
    assert np.isnan(at[[0, 4]]).all()
    assert at[1:4].tolist() == pytest.approx([10.0, 20.0, 40.0])
    nothing = cost_at(np.array([np.nan]), np.array([1.0]), np.array([0.5]))
    assert np.isnan(nothing).all()


def test_neighbours_out_of_order_are_pooled():
    """The nearest rising sequence, by trying all ways to cut into pooled blocks."""
    random = np.random.default_rng(0)
    for _ in range(30):
        values, weights = random.standard_normal(5), random.choice([1.0, 0.1], 5)
        best, nearest = np.inf, values
        for cuts in itertools.product([0, 1], repeat=4):
            blocks = np.split(np.arange(5), [i + 1 for i, cut in enumerate(cuts) if cut])
            fitted = np.concatenate([np.full(len(b), np.average(values[b], weights=weights[b])) for b in blocks])
            error = float((weights * (fitted - values) ** 2).sum())
            if (np.diff(fitted) >= 0).all() and error < best:
                best, nearest = error, fitted
        found = np.log(cost_at(np.arange(5.0), np.exp(values), np.arange(5.0), weights))
        assert found == pytest.approx(nearest)


N = 100  # samples behind a simulated curve


def _of(diversity, cost, values, seed=0, draws=400):
    """A curve whose log cost is the mean of values [N, P], shifted to the cost that is given."""
    values = np.log(cost) + values - values.mean(0)
    counts = np.random.default_rng(seed + 1000).multinomial(N, np.full(N, 1 / N), draws).astype(float)
    left_out = (values.sum(0) - values) / (N - 1)
    places = [np.repeat(diversity[None], many, 0) for many in (draws, N)]
    return Bootstrapped(diversity, cost, places[0], np.exp(counts @ values / N), places[1], np.exp(left_out), counts)


def _noisy(diversity, cost, spread, seed=0):
    """`spread` is the standard error of log cost, of all points or of each."""
    values = np.random.default_rng(seed).standard_normal((N, len(cost)))
    return _of(diversity, cost, N**0.5 * spread * (values / values.std(0)), seed)


def _still(diversity, cost, draws=10, **changes):
    """One that is the same however its samples are drawn, but for some changes."""
    arrays = [np.repeat(some[None], draws, 0) for some in (diversity, cost, diversity, cost)]
    return replace(Bootstrapped(diversity, cost, *arrays, np.ones((draws, draws))), **changes)


def test_only_what_is_surely_dominated_goes():
    diversity = np.array([1.0, 2.0, 3.0])
    points = _noisy(diversity, np.array([1.02, 1.0, 2.0]), 0.1)
    assert points.not_dominated.cost.tolist() == [1.02, 1.0, 2.0], "1.02 may be 1 and bad luck"
    points = _noisy(diversity, np.array([3.0, 1.0, 2.0]), 0.1)
    assert points.not_dominated.cost.tolist() == [1.0, 2.0]


def test_a_mean_over_few_samples_is_worth_little_and_no_sample_nothing():
    """Weights are 1 / Var log cost, of the usual spread at most: one that is lucky to have less is worth no more."""
    diversity, cost = np.arange(4.0), np.ones(4)
    points = _noisy(diversity, cost, np.array([0.1, 0.1, 1.0, 0.001]))
    # the variance of 400 draws is known to 7%: 30% are more than four times that
    assert points.weights.tolist() == pytest.approx([1, 1, 0.01, 1], rel=0.3)
    again = np.full((10, 2), 1.0)
    again[:, 0] = [2.0] * 8 + [np.nan] * 2  # in two draws of ten there is nothing to judge
    two = _still(diversity[:2], np.array([2.0, 1.0]), cost_bootstrap=again)
    assert two.not_dominated.cost.tolist() == [1.0]
    nothing = replace(two, cost_bootstrap=np.full((10, 2), np.nan))
    assert (nothing.weights > 0).all()


def test_what_cannot_be_drawn_again_is_worth_the_same_everywhere():
    """MAUVE, say: its draws are all alike but for rounding."""
    diversity, cost = np.arange(5.0), np.array([1.1, 1.2, 1.3, 1.7, 1.9])
    for resampled in (True, False):
        assert _still(diversity, cost, 500, resampled=resampled).weights.tolist() == [1.0] * 5


def test_band_and_dominance_pool_by_weight():
    """Two neighbours out of order, one of them ten times less sure: the curve passes near the other."""
    diversity, cost = np.array([1.0, 2.0, 3.0, 4.0]), np.exp(np.array([0.0, 0.2, 0.1, 0.5]))
    points = _noisy(diversity, cost, np.array([0.03, 0.3, 0.03, 0.03]))
    found = band(points, count=4)
    # (0.2 w + 0.1) / (1 + w), w = 1/100 known to 30%
    assert np.log(found.quality[1:3]) == pytest.approx([0.101, 0.101], abs=2e-3)
    assert np.log(found.high[2]) < 0.18  # by equal weights the other's spread would reach far beyond
    straight = _noisy(diversity, np.exp(np.array([0.0, 0.1, 0.1, 0.5])), 0.03, 1)
    against = dominance(points, straight)
    assert against is not None
    assert against.area == pytest.approx(0.0, abs=3e-3)
    assert np.log(against.ratio_high) < 0.1  # half of what equal weights would give


def test_who_has_no_sample_left_in_some_draws_is_no_obstacle():
    one, two = _noisy(np.array([3.0]), np.array([1.0]), 0.01), _noisy(np.array([1.0, 2.0]), np.array([2.0, 2.0]), 0.01)
    two.cost_bootstrap[:40, 0] = np.nan
    assert wholly_ahead(one, two)
    assert not wholly_ahead(two, one)


def test_extended_a_curve_s_best_stands_for_lower_diversities():
    """From 0 to 2 the first has log cost 0 against -1 to 0, from 2 to 3 both rise to log 4."""
    first = Bootstrapped.as_measured(np.array([2.0, 3.0]), np.array([1.0, 4.0]))
    second = Bootstrapped.as_measured(np.array([0.0, 2.0, 3.0]), np.exp([-1.0, 0.0, np.log(4.0)]))
    plain, found = dominance(first, second), dominance(first, second, count=3001, extended=True)
    assert plain is not None
    assert found is not None
    assert (plain.low, plain.area) == (2.0, 0.0)
    assert found.low == 0.0
    assert found.area == pytest.approx(1 / 3, abs=1e-3)  # a triangle of height 1 over 2 of 3


def test_dominance_knows_how_sure_it_is():
    diversity = np.linspace(4, 5, 9)
    cost = np.exp(diversity)
    better = dominance(_noisy(diversity, 0.9 * cost, 0.01), _noisy(diversity, cost, 0.01, 1))
    assert better is not None
    assert (better.ahead, better.sure, better.surely_behind) == (1.0, 1.0, 0.0)
    assert better.ratio == pytest.approx(0.9)
    assert better.ratio_low < 0.9 < better.ratio_high
    unsure = dominance(_noisy(diversity, 0.99 * cost, 0.1), _noisy(diversity, cost, 0.1, 1))
    assert unsure is not None
    assert unsure.ahead == 1.0
    assert unsure.sure < 0.2
    assert unsure.ratio_low < 1 < unsure.ratio_high


def test_without_a_shared_range_nobody_is_better_unless_in_everything():
    low, high = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    cost = np.array([1.0, 2.0])
    assert dominance(_noisy(low, cost, 0.1), _noisy(high, cost, 0.1)) is None
    assert not wholly_ahead(_noisy(high, cost, 0.1), _noisy(low, cost, 0.1))
    assert wholly_ahead(_noisy(high, cost / 4, 0.1), _noisy(low, cost, 0.1))


def test_a_single_point_has_its_own_interval_and_what_cannot_be_drawn_again_none():
    one = band(_noisy(np.array([3.0]), np.array([10.0]), 0.1))
    assert (one.low < 10).all()
    assert (one.high > 10).all()
    diversity, cost = np.array([1.0, 2.0]), np.array([1.0, 2.0])
    frozen, double = (Bootstrapped.as_measured(diversity, some) for some in (cost, 2 * cost))
    assert np.isnan(band(frozen).low).all()
    found = dominance(frozen, double)
    assert found is not None
    assert found.ratio == pytest.approx(0.5)
    assert np.isnan(found.ratio_high)
    assert found.sure == 0


def test_rankings_are_those_that_some_choice_of_temperatures_gives():
    """By trying every choice."""
    random = np.random.default_rng(1)
    for _ in range(20):
        points = {name: random.integers(0, 9, 3).astype(float).tolist() for name in "abc"}
        tried = set()
        for choice in itertools.product(*points.values()):
            if len(set(choice)) == 3:
                tried.add(tuple(name for _, name in sorted(zip(choice, points, strict=True))))
        assert rankings(points) == sorted(tried)
    assert rankings({"a": [1.0], "b": [2.0]}) == [("a", "b")]
    with pytest.raises(UserError):
        rankings({str(i): [1.0] for i in range(7)})
