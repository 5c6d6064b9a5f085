"""The numbers behind each figure, as rows that can be written down."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from candi.base.rng import fold_in
from candi.diffusion import identifiability as exact
from candi.diffusion.identifiability.simulate import simulate, simulate_table

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


def farthest(rows: Sequence[Row]) -> float:
    """The largest distance of a simulation from its formula, in standard errors."""
    return max(
        abs(row[name] - row[f"{name}_simulated"]) / max(row[f"{name}_error"], 1e-9)
        for row in rows
        for name in ("corruption", "rank")
    )


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
    generator = torch.Generator().manual_seed(fold_in(seed, "random table"))
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
