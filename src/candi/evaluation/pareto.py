"""Frontiers: the best quality for every diversity, how sure it is, and who is ahead where.

A point is (diversity, quality), quality the lower the better (a perplexity, say) and diversity the higher the better.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from candi.errors import UserError

Numbers = NDArray[np.float64]


def front(diversity: Numbers, quality: Numbers) -> NDArray[np.int64]:
    """Indices of the points that no other dominates, in order of diversity."""
    order = np.lexsort((quality, -diversity))  # the most diverse first, the best of equals first
    best, kept = np.inf, []
    for index in order:
        if quality[index] < best:
            kept.append(index)
            best = quality[index]
    return np.array(kept[::-1], dtype=np.int64)


def quality_at(diversity: Numbers, quality: Numbers, where: Numbers) -> Numbers:
    """The front between its points, linear in diversity; nan outside its range: nothing is extrapolated."""
    kept = front(diversity, quality)
    x, y = diversity[kept], quality[kept]
    inside = (where >= x[0]) & (where <= x[-1])
    return np.where(inside, np.interp(where, x, y), np.nan)


@dataclass(frozen=True)
class Band:
    """A front over a grid of diversity, with a 95% band from bootstraps over samples."""

    diversity: Numbers
    quality: Numbers
    low: Numbers
    high: Numbers


Resample = Callable[[np.random.Generator], tuple[Numbers, Numbers]]


def band(
    diversity: Numbers, quality: Numbers, resample: Resample, grid: Numbers, draws: int = 500, seed: int = 0
) -> Band:
    """`resample` gives the same points computed from samples drawn anew with replacement."""
    random = np.random.default_rng(seed)
    fronts = np.stack([quality_at(*resample(random), grid) for _ in range(draws)])
    low, high = _percentiles(fronts)
    return Band(grid, quality_at(diversity, quality, grid), low, high)


@dataclass(frozen=True)
class Dominance:
    """Of one run over another, on the diversities that both reach. Ratios below 1 are in favour of the first.

    `ahead` is the share of that range where the first is ahead; `sure` the share where the whole band says so, and
    `surely_behind` where it says the opposite; `ratio` the geometric mean of quality over quality, with its interval;
    `area` the mean difference of log quality.
    """

    low: float
    high: float
    ahead: float
    sure: float
    surely_behind: float
    ratio: float
    ratio_low: float
    ratio_high: float
    area: float


def dominance(
    first: tuple[Numbers, Numbers],
    second: tuple[Numbers, Numbers],
    resample_first: Resample,
    resample_second: Resample,
    draws: int = 500,
    count: int = 101,
    seed: int = 0,
) -> Dominance | None:
    """None where the two share no range of diversity: then neither can be called better."""
    spans = [(d[kept].min(), d[kept].max()) for d, q in (first, second) for kept in [front(d, q)]]
    low, high = max(span[0] for span in spans), min(span[1] for span in spans)
    if low >= high:
        return None
    grid = np.linspace(low, high, count)
    gap = _gap(first, second, grid)
    random = np.random.default_rng(seed)
    gaps = np.stack([_gap(resample_first(random), resample_second(random), grid) for _ in range(draws)])
    lower, upper = _percentiles(gaps)
    means = [np.nanmean(row) for row in gaps if np.isfinite(row).any()]  # a draw of which the fronts share nothing
    interval = np.percentile(means, [2.5, 97.5]) if means else np.array([np.nan, np.nan])
    return Dominance(
        low=float(low),
        high=float(high),
        ahead=float((gap < 0).mean()),
        sure=float((upper < 0).mean()),
        surely_behind=float((lower > 0).mean()),
        ratio=float(np.exp(np.nanmean(gap))),
        ratio_low=float(np.exp(interval[0])),
        ratio_high=float(np.exp(interval[1])),
        area=float(np.nanmean(gap)),
    )


def _gap(first: tuple[Numbers, Numbers], second: tuple[Numbers, Numbers], grid: Numbers) -> Numbers:
    """log quality of the first minus that of the second."""
    a, b = quality_at(*first, grid), quality_at(*second, grid)
    return np.asarray(np.log(a) - np.log(b))


def _percentiles(draws: Numbers) -> tuple[Numbers, Numbers]:
    """2.5% and 97.5% of each column; nan where half of the draws have nothing to say."""
    known = np.isfinite(draws).mean(0) > 0.5
    filled = np.where(known, draws, 0.0)
    low, high = np.nanpercentile(filled, [2.5, 97.5], axis=0)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


def rankings(points: dict[str, Sequence[float]]) -> list[tuple[str, ...]]:
    """The single-temperature trap: every order of the runs that some choice of one temperature for each gives.

    `points` holds each run's qualities over its temperatures. Best first; each order once.
    """
    if len(points) > 6:
        raise UserError(f"At most 6 runs can be put in every order, not {len(points)}.")
    return sorted(order for order in permutations(points) if _possible([points[name] for name in order]))


def _possible(qualities: Sequence[Sequence[float]]) -> bool:
    """Can one number of each be chosen so that they rise? The smallest that is still larger leaves most to the next."""
    last = -np.inf
    for some in qualities:
        larger = [quality for quality in some if quality > last]
        if not larger:
            return False
        last = min(larger)
    return True
