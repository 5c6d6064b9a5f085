"""Frontiers: the best quality for every diversity, how sure it is, and who is ahead where.

A point is (diversity, cost): the more diverse the better, the lower the cost (a perplexity, say) the better.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from candi.base.errors import UserError

Numbers = NDArray[np.float64]
Line = tuple[Numbers, Numbers]
MOST_RANKED = 6
_SURE = 0.975


def front(diversity: Numbers, cost: Numbers) -> NDArray[np.int64]:
    """Indices of the points that no other dominates, in order of diversity."""
    order = np.lexsort((cost, -diversity))  # the most diverse first, the best of equals first
    best, kept = np.inf, []
    for index in order:
        if cost[index] < best:
            kept.append(index)
            best = cost[index]
    return np.array(kept[::-1], dtype=np.int64)


@dataclass(frozen=True)
class Bootstrapped:
    """The points of one curve [P], and what they are under other choices of its N samples.

    The bootstrap [R, P] draws samples with replacement, and `counts` [R, N] says how often each was drawn; the
    jackknife [N, P] leaves one out. `resampled` is False where the cost belongs to all samples together.
    """

    diversity: Numbers
    cost: Numbers
    diversity_bootstrap: Numbers
    cost_bootstrap: Numbers
    diversity_jackknife: Numbers
    cost_jackknife: Numbers
    counts: Numbers
    resampled: bool = True

    @classmethod
    def as_measured(cls, diversity: Numbers, cost: Numbers) -> "Bootstrapped":
        """Points whose samples are not at hand: nothing is known of their error."""
        once = diversity[None], cost[None]
        return cls(diversity, cost, *once, *once, np.ones((1, 1)), resampled=False)

    @cached_property
    def not_dominated(self) -> "Bootstrapped":
        """Without the points that another one surely dominates; chance alone removes none."""
        cost = _with_empty_worst(self.cost_bootstrap)
        more = (
            self.diversity_bootstrap[:, :, None] < self.diversity_bootstrap[:, None]
        )  # [R, P, P]: is the other more diverse
        better = cost[:, :, None] > cost[:, None]
        return self.only(~((more & better).mean(0) >= _SURE).any(-1))

    def only(self, kept: NDArray[np.bool_]) -> "Bootstrapped":
        """Some of the points; drawn again, they are the same samples."""
        return Bootstrapped(
            self.diversity[kept],
            self.cost[kept],
            self.diversity_bootstrap[:, kept],
            self.cost_bootstrap[:, kept],
            self.diversity_jackknife[:, kept],
            self.cost_jackknife[:, kept],
            self.counts,
            self.resampled,
        )

    @cached_property
    def lines(self) -> "list[Line]":
        """The curve of every draw; the weights are those of the points."""
        return self._lines(self.diversity_bootstrap, self.cost_bootstrap)

    @cached_property
    def lines_left_out(self) -> "list[Line]":
        """The curve without each of the samples."""
        return self._lines(self.diversity_jackknife, self.cost_jackknife)

    def _lines(self, diversity: Numbers, cost: Numbers) -> "list[Line]":
        return [_line(*row, self.weights) for row in zip(diversity, cost, strict=True)]

    @cached_property
    def line(self) -> "Line":
        return _line(self.diversity, self.cost, self.weights)

    @cached_property
    def weights(self) -> Numbers:
        """What each point is worth when some are pooled: 1 / Var log cost, as far as it varies more than is usual.

        A mean over few samples is worth little; a spread that is smaller than that of most others is chance. What
        cannot be drawn again is worth the same everywhere.
        """
        if not self.resampled:
            return np.ones_like(self.cost)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of a point that no draw has anything to say of
            spread = np.nanvar(np.log(self.cost_bootstrap), axis=0)
        known = spread[np.isfinite(spread)]
        usual = max(float(np.median(known)) if len(known) else 0.0, 1e-20)  # less is rounding
        return usual / np.nan_to_num(spread, nan=1e6 * usual).clip(min=usual)

    @property
    def span(self) -> tuple[float, float]:
        return float(self.diversity.min()), float(self.diversity.max())

    @property
    def reach(self) -> tuple[float, float]:
        """The part of the span that the curve surely reaches: so that few draws must be read beyond their ends."""
        low, high = self.diversity_bootstrap.min(-1), self.diversity_bootstrap.max(-1)
        return float(np.quantile(low, _SURE)), float(np.quantile(high, 1 - _SURE))


def cost_at(diversity: Numbers, cost: Numbers, where: Numbers, weights: Numbers | None = None) -> Numbers:
    """The rising curve through the points, log cost linear between them; nan outside their range.

    Where neighbours are out of order, which is noise once dominated points are gone, they are pooled to their
    geometric mean, each by its weight (isotonic regression of log cost). To take the better of them would be to take
    the luckier.
    """
    return _read(_line(diversity, cost, np.ones_like(cost) if weights is None else weights), where)


def _line(diversity: Numbers, cost: Numbers, weights: Numbers) -> Line:
    """The diversities of a curve, rising, and its log costs there."""
    real = np.isfinite(diversity) & np.isfinite(cost)
    order = np.argsort(diversity[real])
    return diversity[real][order], _rising(np.log(cost[real][order]), weights[real][order])


def _read(line: Line, where: Numbers) -> Numbers:
    x, y = line
    if not len(x):
        return np.full_like(where, np.nan)
    hair = 1e-9 * np.abs(x).max()
    inside = (where >= x[0] - hair) & (where <= x[-1] + hair)
    return np.where(inside, np.exp(np.interp(where, x, y)), np.nan)


def _rising(values: Numbers, weights: Numbers) -> Numbers:
    """The nearest sequence that does not fall: neighbours that do are pooled to their mean, again and again."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight, how many
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, count = value, 1
        while blocks and blocks[-1][0] > mean:
            before, worth, size = blocks.pop()
            mean, weight, count = (mean * weight + before * worth) / (weight + worth), weight + worth, count + size
        blocks.append((mean, weight, count))
    return np.repeat([mean for mean, *_ in blocks], [count for *_, count in blocks])


@dataclass(frozen=True)
class Band:
    """A curve over a grid of diversity, and for each place on it the interval that holds 95% of the draws."""

    diversity: Numbers
    quality: Numbers
    low: Numbers
    high: Numbers


def band(points: Bootstrapped, count: int = 41) -> Band:
    points = points.not_dominated
    grid = np.linspace(*points.span, count)
    curve = cost_at(points.diversity, points.cost, grid, points.weights)
    if not points.resampled:
        return Band(grid, curve, np.full_like(grid, np.nan), np.full_like(grid, np.nan))
    if len(points.cost) == 1:  # drawn again it lies elsewhere; its own interval is all there is to say
        low, high = np.nanpercentile(points.cost_bootstrap, [2.5, 97.5])
        return Band(grid, curve, np.full_like(grid, low), np.full_like(grid, high))
    return Band(grid, curve, *_percentiles(_bootstrapped(points, grid)))


def _bootstrapped(points: Bootstrapped, grid: Numbers) -> Numbers:
    """The curve of every draw [R, G]."""
    return np.stack([_read(line, grid) for line in points.lines])


@dataclass(frozen=True)
class Dominance:
    """Of one run over another, on the diversities that both surely reach. Ratios below 1 are in favour of the first.

    `ahead` is the share of that range where the first is ahead; `sure` the share where a band that holds the whole
    curve with 95% says so, and `surely_behind` where it says the opposite; `ratio` the geometric mean of cost over
    cost, with its 95% interval; `area` the mean difference of log cost.
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


def dominance(first: Bootstrapped, second: Bootstrapped, count: int = 101, extended: bool = False) -> Dominance | None:
    """None where the two share no range of diversity.

    Extended, both reach down to the lowest of either: the best cost of a curve stands for all lower diversities too,
    since whoever asks for less of it is served as well.
    """
    first, second = first.not_dominated, second.not_dominated
    low = min(first.span[0], second.span[0]) if extended else max(first.reach[0], second.reach[0])
    high = min(first.reach[1], second.reach[1])
    if low >= high:
        return None
    grid = np.linspace(low, high, count)
    gap = _log_cost(first.line, grid) - _log_cost(second.line, grid)
    area = float(gap.mean())
    half, mean_half = np.full_like(gap, np.nan), np.nan
    if first.resampled and second.resampled:
        gaps, influence = _gaps(first, second, grid)
        half = half_widths(gap, gaps, influence)
        means = [part.mean(-1, keepdims=True) for part in (gaps, *influence.values)]
        mean_half = float(half_widths(gap.mean(keepdims=True), means[0], Influence(means[1:], influence.counts))[0])
    return Dominance(
        low=float(low),
        high=float(high),
        ahead=float((gap < 0).mean()),
        sure=float((gap + half < 0).mean()),
        surely_behind=float((gap - half > 0).mean()),
        ratio=float(np.exp(area)),
        ratio_low=float(np.exp(area - mean_half)),
        ratio_high=float(np.exp(area + mean_half)),
        area=area,
    )


@dataclass(frozen=True)
class Influence:
    """What each sample adds to an estimate, times N: the variance of the estimate is that of a mean of these values.

    `values` are [N, G] of each independent set of samples, `counts` [R, N] say how often a draw holds each sample.
    """

    values: Sequence[Numbers]
    counts: Sequence[Numbers]

    def variance(self) -> Numbers:
        """Of the estimate [G]."""
        return sum((some.var(0, ddof=1) / len(some) for some in self.values), np.zeros(self.values[0].shape[1]))

    def bootstrap_variance(self) -> Numbers:
        """The same as each draw would estimate it [R, G]."""
        found = np.zeros((len(self.counts[0]), self.values[0].shape[1]))
        for some, counts in zip(self.values, self.counts, strict=True):
            n = len(some)
            found += (counts @ some**2 - (counts @ some) ** 2 / n).clip(min=0) / (n * (n - 1))
        return found


def half_widths(estimate: Numbers, draws: Numbers, influence: Influence) -> Numbers:
    """Half the width of a band that holds all of an estimate [G] at once with 95%: q SE, of draws [R, G].

    q is the 95% quantile of max_g |draw_g - estimate_g| / SE_g(draw), the bootstrap of Student's t: where samples are
    few or skewed, the error that a draw would give itself varies with the draw, and plain percentiles are too narrow.
    """
    own = influence.bootstrap_variance()
    distance = np.divide(np.abs(draws - estimate), np.sqrt(own), out=np.zeros_like(draws), where=own > 0)
    worst = distance.max(-1)
    q = np.quantile(worst[np.isfinite(worst)], 0.95) if np.isfinite(worst).any() else np.nan
    return q * np.sqrt(influence.variance())


def _gaps(first: Bootstrapped, second: Bootstrapped, grid: Numbers) -> tuple[Numbers, Influence]:
    """The difference of two curves' log costs in every draw [R, G], and what each sample does to it.

    Curves of equally many samples share their draws: sample i of both was made from the same random numbers, so they
    may vary together.
    """
    pair = first, second
    drawn = [np.stack([_log_cost(line, grid) for line in one.lines]) for one in pair]
    left_out = [np.stack([_log_cost(line, grid) for line in one.lines_left_out]) for one in pair]
    # of a mean of N values, N - 1 times what leaving one out changes is that value minus the mean
    influence = [np.nan_to_num((len(some) - 1) * (np.nanmean(some, 0) - some)) for some in left_out]
    if np.array_equal(first.counts, second.counts):
        return drawn[0] - drawn[1], Influence([influence[0] - influence[1]], [first.counts])
    return drawn[0] - drawn[1], Influence([influence[0], -influence[1]], [first.counts, second.counts])


def _log_cost(line: Line, where: Numbers) -> Numbers:
    """Beyond its ends a curve goes on as it ends; nan if it has no points."""
    return np.interp(where, *line) if len(line[0]) else np.full_like(where, np.nan)


def wholly_ahead(first: Bootstrapped, second: Bootstrapped) -> bool:
    """Is some point of the first surely more diverse and better than every point of the second?"""
    more = first.diversity_bootstrap >= second.diversity_bootstrap.max(-1, keepdims=True)
    better = _with_empty_worst(first.cost_bootstrap) < _with_empty_worst(second.cost_bootstrap).min(-1, keepdims=True)
    return bool((more & better).any(-1).mean() >= _SURE)


def _with_empty_worst(cost: Numbers) -> Numbers:
    """A draw without any sample to measure is worse than anything."""
    return np.nan_to_num(cost, nan=np.inf)


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
    if len(points) > MOST_RANKED:
        raise UserError(f"At most {MOST_RANKED} runs can be put in every order, not {len(points)}.")
    return sorted(order for order in permutations(points) if _can_rise([points[name] for name in order]))


def _can_rise(qualities: Sequence[Sequence[float]]) -> bool:
    """Can one number of each be chosen so that they rise? The smallest that is still larger leaves most to the next."""
    last = -np.inf
    for some in qualities:
        larger = [quality for quality in some if quality > last]
        if not larger:
            return False
        last = min(larger)
    return True
