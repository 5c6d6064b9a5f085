"""The same by chance: noise is drawn and looked at. Streamed over the vocabulary, so points x V are never held."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candi.analysis.identifiability import Measure, _at_least_two, _fit, _positive, _table
from candi.errors import UserError, unknown
from candi.rng import Rng, derive

_HELD = 2**22  # numbers at once


@dataclass(frozen=True)
class Simulated:
    """Estimates and their standard errors, for each noise level (and token)."""

    corruption: Float[Tensor, "*S"]
    corruption_error: Float[Tensor, "*S"]
    rank: Float[Tensor, "*S"]
    rank_error: Float[Tensor, "*S"]


def simulate(sigma: Float[Tensor, "S"], vocab_size: int, points: int = 5000, seed: int = 0) -> Simulated:
    """rho and r of noisy one-hot vectors. All noise levels look at the same draws: token 0 is beaten by entry j where

    e_j > e_0 + 1/sigma.
    """
    _at_least_two(vocab_size)
    _some(points)
    rng = Rng.from_seed(derive(seed, "simulate"))  # never the stream that a table of the same seed was made of
    bar = rng.normal(points, dtype=torch.float64) + 1 / _positive(sigma)[:, None]  # [S, points]
    largest = torch.full((points,), -torch.inf, dtype=torch.float64)
    beaten = torch.zeros_like(bar)
    for size in _parts(vocab_size - 1, points):
        noise = rng.normal(points, size).double()
        largest = torch.maximum(largest, noise.amax(-1))
        beaten += torch.stack([(noise > level[:, None]).sum(-1) for level in bar])
    return _estimates((largest > bar).double(), beaten / (vocab_size - 1))


def simulate_table(
    table: Float[Tensor, "V D"],
    tokens: Int[Tensor, "N"],
    sigma: Float[Tensor, "S"],
    draws: int = 1000,
    measure: Measure = "dot",
    seed: int = 0,
) -> Simulated:
    """rho_omega and r_omega [S, N] of tokens with isotropic noise on their vectors."""
    if measure not in ("dot", "l2"):
        raise unknown("measure", measure, ("dot", "l2"))
    points, levels = _table(table), _positive(sigma)
    _fit(points, tokens)
    _some(draws)
    rng = Rng.from_seed(derive(seed, "simulate"))  # never the stream that a table of the same seed was made of
    offset = points.square().sum(-1) / 2 if measure == "l2" else torch.zeros(len(points), dtype=torch.float64)
    corrupted, ranks = [], []
    for token in tokens.tolist():
        noise = rng.normal(draws, points.shape[1], dtype=torch.float64)
        wrong, beaten = [], []
        for level in levels:
            seen = points[token] + level * noise
            # -|y - w|^2/2 = y.w - |w|^2/2 + a term without w
            own = seen @ points[token] - offset[token]
            count = torch.zeros(draws, dtype=torch.float64)
            start = 0
            for size in _parts(len(points), draws):
                nearer = seen @ points[start : start + size].T - offset[start : start + size] > own[:, None]
                if start <= token < start + size:
                    nearer[:, token - start] = False  # it is not nearer than itself, whatever was rounded
                count += nearer.sum(-1)
                start += size
            wrong.append((count > 0).double())
            beaten.append(count / (len(points) - 1))
        corrupted.append(torch.stack(wrong))
        ranks.append(torch.stack(beaten))
    return _estimates(torch.stack(corrupted, 1), torch.stack(ranks, 1))


def simulate_win_rate(
    own: Float[Tensor, "D"], other: Float[Tensor, "D"], sigma: float, draws: int, measure: Measure, seed: int = 0
) -> tuple[float, float]:
    """omega and its standard error."""
    table = torch.stack([own, other]).double()
    found = simulate_table(table, torch.tensor([0]), torch.tensor([sigma]), draws, measure, seed)
    return 1 - float(found.corruption), float(found.corruption_error)


def _estimates(corrupted: Float[Tensor, "*S points"], beaten: Float[Tensor, "*S points"]) -> Simulated:
    count = corrupted.shape[-1] ** 0.5
    return Simulated(
        corrupted.mean(-1), corrupted.std(-1) / count, beaten.mean(-1), beaten.std(-1) / count
    )  # fmt: skip


def _parts(total: int, points: int) -> list[int]:
    size = max(1, _HELD // points)
    return [min(size, total - start) for start in range(0, total, size)]


def _some(points: int) -> None:
    if points < 2:
        raise UserError(f"A simulation needs at least 2 points, not {points}.")
