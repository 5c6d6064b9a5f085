"""The numbers behind each figure, as rows that can be written down."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candi.analysis import identifiability as exact
from candi.analysis.simulate import simulate, simulate_table
from candi.errors import UserError
from candi.methods.base import Method
from candi.rng import derive

Row = dict[str, Any]


def _levels(low: float, high: float, count: int) -> Float[Tensor, "S"]:
    return torch.logspace(math.log10(low), math.log10(high), count, dtype=torch.float64)


def curves(vocabularies: Sequence[int] = (2, 27, 500, 50_257, 1_000_000), count: int = 121) -> list[Row]:
    """rho against sigma for several V, and r, which is one curve for all."""
    sigma = _levels(0.05, 20, count)
    rank = exact.rank(sigma)
    rows = []
    for size in vocabularies:
        for s, rho, r in zip(sigma, exact.corruption(sigma, size), rank, strict=True):
            rows.append({"vocab_size": size, "sigma": float(s), "corruption": float(rho), "rank": float(r)})
    return rows


def validation(
    vocabularies: Sequence[int] = (5, 50, 500, 50_000), points: int = 5000, count: int = 11, seed: int = 0
) -> list[Row]:
    """Formulas against simulation: sigma^2 log-spaced from 0.1 to 10.

    Errors are those that the formulas predict for rho (binomial); for r those seen, but not below what independent
    entries would have: a rare event that was not seen has an error all the same.
    """
    sigma = _levels(0.1, 10, count).sqrt()
    rows = []
    for size in vocabularies:
        seen = simulate(sigma, size, points, seed)
        for index, s in enumerate(sigma):
            rho, r = float(exact.corruption(s, size)), float(exact.rank(s))
            rows.append(
                {
                    "vocab_size": size,
                    "sigma": float(s),
                    "points": points,
                    "seed": seed,
                    "corruption": rho,
                    "rank": r,
                    "corruption_simulated": float(seen.corruption[index]),
                    "corruption_error": math.sqrt(max(rho * (1 - rho), 1e-30) / points),
                    "rank_simulated": float(seen.rank[index]),
                    "rank_error": max(float(seen.rank_error[index]), math.sqrt(r * (1 - r) / (points * (size - 1)))),
                }
            )
    return rows


def kernels(
    vocabularies: Sequence[int] = (27, 500, 50_257), rank_range: tuple[float, float] = (0.05, 0.45), count: int = 81
) -> list[Row]:
    """r against rho: the Gaussian kernel ties them by sigma, the hybrid kernel sets them side by side in t."""
    low, high = rank_range
    t = torch.linspace(0, 1, count, dtype=torch.float64)
    rows = []
    for size in vocabularies:
        sigma = _levels(0.05, 1000, 4 * count)
        for s in sigma:
            point = {"corruption": float(exact.corruption(s, size)), "rank": float(exact.rank(s))}
            rows.append({"kernel": "gaussian", "vocab_size": size, "sigma": float(s), **point})
    for time in t.tolist():
        # masking alone decides the identity: a share t of the positions is corrupted, for any V
        rows.append({"kernel": "hybrid", "t": time, "corruption": time, "rank": low + (high - low) * time})
    return rows


def embeddings(
    table: Float[Tensor, "V D"],
    name: str,
    sizes: Sequence[int] = (5, 50, 500),
    subsets: int = 5,
    draws: int = 1000,
    tokens: int = 4,
    count: int = 9,
    seed: int = 0,
) -> list[Row]:
    """A learned table against a random one of the same mean and variance, on subsets and on all of it.

    Noise is in units of the mean length of a vector, and the nearest vector is the token (l2). rho is simulated; the
    product form stands beside it.
    """
    sigma = _levels(0.02, 2, count)
    generator = torch.Generator().manual_seed(derive(seed, "random table"))
    learned = table.double()
    random = learned.mean() + learned.std() * torch.randn(learned.shape, dtype=torch.float64, generator=generator)
    rows = []
    for kind, vectors in (("learned", learned), ("random", random)):
        vectors = vectors / vectors.norm(dim=-1).mean()
        for size in dict.fromkeys([*(size for size in sizes if size < len(vectors)), len(vectors)]):
            whole = size == len(vectors)
            for subset in range(1 if whole else subsets):
                chosen = vectors[torch.randperm(len(vectors), generator=generator)[:size]]
                some = torch.arange(min(tokens, size))
                drawn = draws // 4 if whole and size > 2000 else draws
                seen = simulate_table(chosen, some, sigma, drawn, "l2", seed + subset)
                product = exact.corruption_embedding(chosen, some, sigma, "product", "l2")
                more = torch.arange(min(64, size))  # exact and cheap, so over more tokens: they differ
                rank = exact.rank_embedding(chosen, more, sigma, "l2")
                for index, s in enumerate(sigma):
                    rows.append(
                        {
                            "table": name,
                            "kind": kind,
                            "vocab_size": size,
                            "subset": subset,
                            "sigma": float(s),
                            "draws": drawn,
                            "rank": float(rank[index].mean()),
                            "rank_error": float(rank[index].std() / len(more) ** 0.5),
                            "corruption_simulated": float(seen.corruption[index].mean()),
                            "corruption_error": float(seen.corruption[index].std() / len(some) ** 0.5),
                            "corruption_product": float(product[index].mean()),
                        }
                    )
    return rows


@dataclass(frozen=True)
class Verdict:
    """What a schedule does to a vocabulary, in one sentence."""

    fits: bool
    dissonant: bool
    sentence: str


_TOLD, _WORTH = 0.1, 0.02  # positions that can be told; rank degradation that is worth undoing


def schedule(
    method: Method, tokens: Int[Tensor, "N"], draws: int = 200, most: int = 64, count: int = 11, seed: int = 0
) -> tuple[list[Row], Verdict]:
    """What a method's noise does over t to the positions of a text: what its schedule says, what the network can see.

    `tokens` are those of the text, of which `most` positions are looked at. The nearest token is judged as well as
    anybody could who sees what the network sees.
    """
    rows, judge, isotropic = _over_time(method, tokens, draws, most, count, seed)
    return rows, _verdict(rows, isotropic, judge)


def prediction(
    method: Method, tokens: Int[Tensor, "N"], draws: int = 50, most: int = 16, count: int = 9, seed: int = 0
) -> dict[str, float]:
    """Averages over t: positions that can be told, and the rank degradation that the network sees at the others.

    Of masked diffusion a position is told or nothing is known of it: a rank of 1/2.
    """
    check_predictable(method)
    if not len(tokens):
        raise UserError("There is no text to predict anything for; give some.")
    if method.gaussian() is None:
        open_share = method.open_share(torch.linspace(0, 1, count, dtype=torch.float64))
        return {"identifiable": 1 - float(open_share.mean()), "rank": 0.5}
    rows, _, _ = _over_time(method, tokens, draws, most, count, seed)
    return {
        "identifiable": sum(row["identifiable"] for row in rows) / count,
        "rank": sum(row["rank_of_network"] for row in rows) / count,
    }


def check_predictable(method: Method) -> None:
    """Refuse noise that is neither Gaussian nor a mask: identifiability says nothing of it here."""
    if method.gaussian() is None and (method.shows or method.causal):
        raise UserError(f"Identifiability predicts nothing of {type(method).__name__}; leave it out of the overview.")


Judge = Callable[[float], tuple[float, float]]


def _over_time(
    method: Method, tokens: Int[Tensor, "N"], draws: int, most: int, count: int, seed: int
) -> tuple[list[Row], Judge, bool]:
    """The rows of `schedule`, who judges other noise in the same way, and whether the noise is isotropic."""
    found = method.gaussian()
    if found is None:
        raise UserError(f"{type(method).__name__} has no Gaussian noise, so there is no schedule of it to look at.")
    space, sigma_of = found
    table = space.codebook.rows().detach().cpu()
    points = table.double() if space.isotropic else exact.whitened(table)
    some = tokens[torch.randperm(len(tokens), generator=torch.Generator().manual_seed(seed))[:most]]
    kinds, times = some.unique(return_counts=True)
    weights = times.double() / times.sum()
    t = torch.linspace(0, 1, count, dtype=torch.float64)
    sigma = sigma_of(t)
    corrupted = simulate_table(points, kinds, sigma, draws, "l2", seed).corruption @ weights
    rank = exact.rank_embedding(points, kinds, sigma, "l2") @ weights
    open_share = method.open_share(t)
    rows = []
    for index, time in enumerate(t.tolist()):
        rows.append(
            {
                "t": time,
                "sigma": float(sigma[index]),
                "vocab_size": len(points),
                "width": space.codebook.width,
                "space": type(space).__name__,
                "open": float(open_share[index]),
                "rank_of_schedule": float(exact.rank(sigma[index])),
                "rank_of_network": float(rank[index]),
                "corruption_of_noise": float(corrupted[index]),
                "identifiable": 1 - float(open_share[index] * corrupted[index]),
            }
        )

    def judge(level: float) -> tuple[float, float]:
        """(rank the network sees, share of noisy positions that can be told) at some noise."""
        one = torch.tensor([level])
        told = 1 - simulate_table(points, kinds[:6], one, draws, "l2", seed).corruption.mean()
        return float(exact.rank_embedding(points, kinds[:6], one, "l2").mean()), float(told)

    return rows, judge, space.isotropic


def _verdict(rows: list[Row], isotropic: bool, judge: Judge) -> Verdict:
    first, last = rows[0], rows[-1]
    about = (
        f"Vocabulary {first['vocab_size']:,}, width {first['width']}, noise in the {first['space'].lower()} space: "
        f"the schedule says r = {first['rank_of_schedule']:.2g} to {last['rank_of_schedule']:.2g}, the network sees "
        f"{first['rank_of_network']:.2g} to {last['rank_of_network']:.2g}, and {100 * first['identifiable']:.0f}% to "
        f"{100 * last['identifiable']:.0f}% of the positions can be told"
    )
    if last["rank_of_network"] < _WORTH:
        return Verdict(False, False, f"{about}: too little noise to learn from; {_advice(rows, isotropic, judge)}.")
    # moments at which some positions can be told and yet the noise is worth undoing; noise that says nothing is not
    useful = [r for r in rows if r["identifiable"] > _TOLD and r["rank_of_network"] > _WORTH]
    if first["rank_of_network"] < 0.35 and len(useful) >= 0.25 * len(rows):
        return Verdict(True, False, f"{about}: not in temporal dissonance.")
    return Verdict(False, True, f"{about}: in temporal dissonance; {_advice(rows, isotropic, judge)}.")


def _advice(rows: list[Row], isotropic: bool, judge: Judge) -> str:
    """A range of noise that the same rule would pass, if there is one."""
    masked = rows[0]["open"] < 0.5
    low = _level(lambda s: judge(s)[0] > (0.05 if masked else 2 * _WORTH))
    # a mask keeps positions to tell; without one they must survive the noise
    high = _level(lambda s: judge(s)[0] > 0.4) if masked else _level(lambda s: judge(s)[1] < _TOLD)
    other = "" if isotropic else "; or noise in the embedding space, where r means what it says"
    if not 0 < low < 0.8 * high:
        return "no range of noise helps here without a mask: use candi or mdlm" + other
    ranks = f"rank_min {float(exact.rank(low)):.2g}, rank_max {float(exact.rank(high)):.2g}"
    return f"try sigma from {low:.2g} to {high:.2g} ({ranks})" + other


def _level(above: Callable[[float], bool]) -> float:
    """The noise from which on something holds, by bisection in log sigma."""
    low, high = math.log(1e-3), math.log(1e3)
    for _ in range(18):  # to a ten-thousandth of it
        middle = (low + high) / 2
        low, high = (low, middle) if above(math.exp(middle)) else (middle, high)
    return math.exp((low + high) / 2)
