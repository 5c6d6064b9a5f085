"""The numbers behind each figure, as rows that can be written down."""

import math
from collections.abc import Sequence
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
from candi.schedules import Schedule
from candi.spaces import Embedding, Space

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
    """A learned table against random ones of the same mean and variance, on subsets and on all of it.

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
                rank = exact.rank_embedding(chosen, some, sigma, "l2")
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
                            "corruption_simulated": float(seen.corruption[index].mean()),
                            "corruption_product": float(product[index].mean()),
                        }
                    )
    return rows


@dataclass(frozen=True)
class Verdict:
    """What a schedule does to a vocabulary, in one sentence."""

    dissonant: bool
    sentence: str


def schedule(
    method: Method, tokens: Int[Tensor, "N"], draws: int = 200, most: int = 64, count: int = 11, seed: int = 0
) -> tuple[list[Row], Verdict]:
    """What a method's noise does over t to the positions of a text: what its schedule says, what the network can see.

    `tokens` are those of the text. The nearest token is judged as well as anybody could who sees what the network sees.
    """
    found = method.gaussian()
    if found is None:
        raise UserError(f"{type(method).__name__} has no Gaussian noise, so there is no schedule of it to look at.")
    space, sigma_of = found
    points = _seen(space)
    generator = torch.Generator().manual_seed(seed)
    some = tokens[torch.randperm(len(tokens), generator=generator)[:most]]
    t = torch.linspace(0, 1, count, dtype=torch.float64)
    sigma = sigma_of(t)
    seen = simulate_table(points, some, sigma, draws, "l2", seed)
    rank = exact.rank_embedding(points, some.unique(), sigma, "l2").mean(-1)
    open_share = method.open_share(t)
    rows = []
    for index, time in enumerate(t.tolist()):
        corrupted = float(seen.corruption[index].mean())
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
                "corruption_of_noise": corrupted,
                "identifiable": 1 - float(open_share[index]) * corrupted,
            }
        )
    return rows, _verdict(rows, space, sigma_of, points, some.unique())


def _seen(space: Space) -> Float[Tensor, "V K"]:
    """Token vectors in coordinates in which the noise that the network sees is isotropic."""
    table = space.codebook.rows().detach().double().cpu()
    if isinstance(space, Embedding):
        return table
    values, vectors = torch.linalg.eigh(table.T @ table)
    kept = values > 1e-10 * values.max()
    return (table @ vectors[:, kept]) * values[kept].rsqrt()


def _verdict(rows: list[Row], space: Space, sigma_of: Schedule, points: Tensor, tokens: Tensor) -> Verdict:
    first, last = rows[0], rows[-1]
    # moments at which most positions can be told and yet the noise is worth undoing
    useful = [row for row in rows if row["identifiable"] > 0.1 and row["rank_of_network"] > 0.02]
    blind = first["rank_of_network"] > 0.35  # noise that says nothing from the start
    share = len(useful) / len(rows)
    dissonant = share < 0.25 or blind
    about = (
        f"Vocabulary {first['vocab_size']:,}, width {first['width']}, noise in the {first['space'].lower()} space: "
        f"the schedule says r = {first['rank_of_schedule']:.2g} to {last['rank_of_schedule']:.2g}, the network sees "
        f"{first['rank_of_network']:.2g} to {last['rank_of_network']:.2g}, and {100 * first['identifiable']:.0f}% to "
        f"{100 * last['identifiable']:.0f}% of the positions can be told"
    )
    if not dissonant:
        return Verdict(False, f"{about}: not in temporal dissonance.")
    low, high = (float(exact.rank(_sigma_for(points, tokens, rank))) for rank in (0.05, 0.4))
    better = [] if isinstance(space, Embedding) else ["noise in the embedding space, where r means what it says"]
    if low > 1e-9:  # below, a range of ranks cannot say how little noise it should be
        better = [f"rank_min {low:.2g} and rank_max {high:.2g}, of which the network sees 0.05 to 0.4", *better]
    return Verdict(True, f"{about}: in temporal dissonance; try {', or '.join(better)}.")


def _sigma_for(points: Tensor, tokens: Tensor, rank: float) -> float:
    """The noise at which the network sees a rank degradation, by bisection in log sigma."""
    low, high = math.log(1e-4), math.log(1e4)
    for _ in range(40):
        middle = (low + high) / 2
        seen = exact.rank_embedding(points, tokens[:16], torch.tensor([math.exp(middle)]), "l2").mean()
        low, high = (low, middle) if float(seen) > rank else (middle, high)
    return math.exp((low + high) / 2)
