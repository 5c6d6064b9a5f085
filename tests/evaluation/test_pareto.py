import itertools

import numpy as np
import pytest

from candi.errors import UserError
from candi.evaluation.pareto import band, dominance, front, quality_at, rankings


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


def test_quality_between_points_and_nothing_beyond():
    at = quality_at(np.array([1.0, 2.0, 1.5]), np.array([10.0, 20.0, 30.0]), np.array([0.5, 1.0, 1.5, 2.0, 2.5]))
    assert np.isnan(at[[0, 4]]).all()
    assert at[1:4].tolist() == [10.0, 15.0, 20.0]


def _noisy(diversity, quality, spread):
    return lambda random: (diversity, quality * np.exp(spread * random.standard_normal(len(quality))))


def test_bands_cover_and_dominance_knows_how_sure_it_is():
    diversity = np.linspace(4, 5, 9)
    quality = np.exp(diversity)
    found = band(diversity, quality, _noisy(diversity, quality, 0.05), np.linspace(4, 5, 11))
    assert (found.low <= found.quality * 1.0001).all()
    assert (
        found.quality <= found.high * 1.08
    ).all()  # the front takes the best of noisy points, so it sits a little low
    better = dominance(
        (diversity, 0.9 * quality), (diversity, quality),
        _noisy(diversity, 0.9 * quality, 0.01), _noisy(diversity, quality, 0.01),
    )  # fmt: skip
    assert better is not None
    assert (better.ahead, better.sure) == (1.0, 1.0)
    assert better.ratio == pytest.approx(0.9)
    assert better.ratio_low < 0.9 < better.ratio_high
    unsure = dominance(
        (diversity, 0.99 * quality), (diversity, quality),
        _noisy(diversity, 0.99 * quality, 0.1), _noisy(diversity, quality, 0.1),
    )  # fmt: skip
    assert unsure is not None
    assert unsure.ahead == 1.0
    assert unsure.sure < 0.2
    assert unsure.ratio_low < 1 < unsure.ratio_high


def test_without_a_shared_range_nobody_is_better():
    first, second = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    quality = np.array([1.0, 2.0])
    assert (
        dominance((first, quality), (second, quality), _noisy(first, quality, 0.1), _noisy(second, quality, 0.1))
        is None
    )


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
