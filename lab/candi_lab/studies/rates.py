"""How often equal runs are called different, and how often a real difference is found: by simulation."""

from collections.abc import Sequence

import numpy as np

from candi.base.markdown import table
from candi.evaluation.pareto import Bootstrapped, Numbers, dominance
from candi_lab.studies.studies import Row

# what the samples of lab/results/large-small are like: nats a token and entropy vary so much between samples of a
# point, and a sample's numbers have about half of their variance in common over the temperatures
_NATS, _ENTROPY, _SHARED = 0.35, 0.1, 0.5
_TEMPERATURES = np.linspace(4.2, 4.7, 11)  # their entropies; nats grow as entropy does
KINDS = ("normal", "heavy tails", "skewed")


def rates(
    samples: tuple[int, ...] = (32, 128, 512), differences: tuple[float, ...] = (0.0, 0.05, 0.1), trials: int = 1000
) -> list[Row]:
    """Of two runs whose log perplexities differ by log(1 + difference) everywhere, in so many simulated sweeps:

    `told` is the share in which the 95% interval of their ratio excludes 1, `somewhere` that in which the band says
    anywhere on the range that one is ahead. Without a difference both should be 5%.
    """
    rows: list[Row] = []
    for n in samples:
        for kind in KINDS:
            for difference in differences:
                told = somewhere = 0
                for trial in range(trials):
                    random = np.random.default_rng([trial, n, KINDS.index(kind)])
                    found = dominance(_run(random, kind, n), _run(random, kind, n, np.log1p(difference)))
                    assert found is not None
                    told += not found.ratio_low < 1 < found.ratio_high
                    somewhere += found.sure > 0 or found.surely_behind > 0
                shares = {"told": told / trials, "somewhere": somewhere / trials}
                rows.append({"n": n, "kind": kind, "difference": difference, "trials": trials, **shares})
    return rows


def _run(random: np.random.Generator, kind: str, n: int, worse: float = 0.0, draws: int = 300) -> Bootstrapped:
    """The points of a simulated sweep."""
    shape = 2, n, len(_TEMPERATURES)
    own, common = _drawn(random, kind, shape), _drawn(random, kind, (2, n, 1))
    entropy, nats = _SHARED**0.5 * common + (1 - _SHARED) ** 0.5 * own
    counts = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), draws).astype(np.float64)
    columns = _TEMPERATURES + _ENTROPY * entropy, _TEMPERATURES + worse + _NATS * nats
    diversity, log_cost = ((some.mean(0), counts @ some / n, (some.sum(0) - some) / (n - 1)) for some in columns)
    cost = [np.exp(part) for part in log_cost]
    return Bootstrapped(diversity[0], cost[0], diversity[1], cost[1], diversity[2], cost[2], counts)


def _drawn(random: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Numbers:
    """Of mean 0 and variance 1."""
    if kind == "heavy tails":
        return random.standard_t(4, shape) / 2**0.5
    return random.standard_normal(shape) if kind == "normal" else random.standard_exponential(shape) - 1


def rate_table(rows: Sequence[Row]) -> str:
    """Over the kinds of samples, the least and the greatest share, by difference and number of samples."""
    sizes = list(dict.fromkeys(row["n"] for row in rows))
    body = []
    for difference in dict.fromkeys(row["difference"] for row in rows):
        for key, what in (("told", "the interval excludes no difference"), ("somewhere", "the band does somewhere")):
            cells = []
            for n in sizes:
                shares = [100 * row[key] for row in rows if (row["n"], row["difference"]) == (n, difference)]
                cells.append(f"{min(shares):.0f} to {max(shares):.0f}%")
            name = f"{100 * difference:g}% apart" if difference else "equal"
            body.append([f"{name}: {what}", *cells])
    return table(["two runs", *(f"{n} samples a point" for n in sizes)], body)
