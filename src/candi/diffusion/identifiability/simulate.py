"""The same by chance: noise is drawn and looked at. Streamed over the vocabulary, so points x V are never held."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candi.base.errors import UserError, unknown
from candi.base.rng import Rng, fold_in
from candi.diffusion.identifiability.closed_form import Measure, Values, _at_least_two, _fit, _positive, _table, as_seen

_HELD = 2**22  # numbers at once


@dataclass(frozen=True)
class Simulated:
    """Estimates and their standard errors, of the shape of the noise levels and tokens that were asked for."""

    corruption: Float[Tensor, "..."]
    corruption_error: Float[Tensor, "..."]
    rank: Float[Tensor, "..."]
    rank_error: Float[Tensor, "..."]


def simulate(sigma: Values, vocab_size: int, points: int = 5000, seed: int = 0) -> Simulated:
    """rho and r of noisy one-hot vectors. All noise levels look at the same draws: token 0 is beaten by entry j where

    e_j > e_0 + 1/sigma. In float64: float32 normals end at 5.8, which large vocabularies would notice.
    """
    _at_least_two(vocab_size)
    _some(points)
    levels = _positive(sigma)
    rng = _rng(seed, levels.device)
    bar = rng.normal(points, dtype=torch.float64) + 1 / levels.reshape(-1, 1)  # [S, points]
    largest = torch.full_like(bar[0], -torch.inf)
    beaten = torch.zeros_like(bar)
    for size in _parts(vocab_size - 1, points):
        noise = rng.normal(points, size, dtype=torch.float64)
        largest = torch.maximum(largest, noise.amax(-1))
        beaten += torch.stack([(noise > level[:, None]).sum(-1) for level in bar])
    return _estimates((largest > bar).double(), beaten / (vocab_size - 1), levels.shape)


def simulate_from(
    values: Float[Tensor, "V"], token: int, sigma_from: float, sigma_to: float, points: int = 5000, seed: int = 0
) -> Simulated:
    """rho and r of a state that is noisy already, after more noise: `corruption_from` by chance."""
    _at_least_two(len(values))
    _some(points)
    _fit(len(values), torch.tensor(token))
    if not 0 <= sigma_from < sigma_to:
        raise UserError("Noise can only be added: sigma_from must be at least 0 and below sigma_to.")
    added = ((sigma_to - sigma_from) * (sigma_to + sigma_from)) ** 0.5
    rng, x = _rng(seed, values.device), values.double()
    own = x[token] + added * rng.normal(points, dtype=torch.float64)
    count, start = torch.zeros_like(own), 0
    for size in _parts(len(x), points):
        part = x[start : start + size] + added * rng.normal(points, size, dtype=torch.float64)
        count += _without(part > own[:, None], token - start).sum(-1)
        start += size
    return _estimates((count > 0).double()[None], count[None] / (len(x) - 1), torch.Size(()))


def simulate_table(
    table: Float[Tensor, "V D"],
    tokens: Int[Tensor, "..."],
    sigma: Values,
    draws: int = 1000,
    measure: Measure = "dot",
    seed: int = 0,
) -> Simulated:
    """rho_omega and r_omega [*sigma, *tokens] of tokens with isotropic noise on their vectors."""
    if measure not in ("dot", "l2"):
        raise unknown("measure", measure, ("dot", "l2"))
    points, levels = _table(table), _positive(sigma)
    _fit(len(points), tokens)
    _some(draws)
    rng = _rng(seed, points.device)
    norms = points.square().sum(-1)
    offset = norms / 2 if measure == "l2" else torch.zeros_like(norms)
    corrupted, ranks = [], []
    for token in tokens.reshape(-1).tolist():
        noise = rng.normal(draws, points.shape[1], dtype=torch.float64)
        counts = []
        for level in levels.reshape(-1).tolist():
            seen = points[token] + level * noise
            # -|y - w|^2/2 = y.w - |w|^2/2 + a term without w
            own = seen @ points[token] - offset[token]
            count, start = torch.zeros_like(own), 0
            for size in _parts(len(points), draws):
                score = seen @ points[start : start + size].T - offset[start : start + size]
                count += _without(score > own[:, None], token - start).sum(-1)
                start += size
            counts.append(count)
        beaten = torch.stack(counts)
        corrupted.append((beaten > 0).double())
        ranks.append(beaten / (len(points) - 1))
    shape = torch.Size((*levels.shape, *tokens.shape))
    return _estimates(torch.stack(corrupted, 1).flatten(0, 1), torch.stack(ranks, 1).flatten(0, 1), shape)


def simulate_network(
    table: Float[Tensor, "V D"],
    tokens: Int[Tensor, "..."],
    sigma: Values,
    space: Literal["onehot", "projected", "embedding"],
    draws: int = 1000,
    seed: int = 0,
) -> Simulated:
    """What the network can tell, by the best test there is: nearest in coordinates where the noise is isotropic.

    Its rank is `network_rank` by chance.
    """
    return simulate_table(as_seen(table, space), tokens, sigma, draws, "l2", seed)


def simulate_win_rate(
    own: Float[Tensor, "D"], other: Float[Tensor, "E"], sigma: float, draws: int, measure: Measure, seed: int = 0
) -> tuple[float, float]:
    """omega and its standard error."""
    if own.shape != other.shape:
        raise UserError(f"Vectors of {len(own)} and of {len(other)} numbers cannot be compared.")
    found = simulate_table(torch.stack([own, other]), torch.tensor([0]), sigma, draws, measure, seed)
    return 1 - float(found.corruption), float(found.corruption_error)


def _without(nearer: Tensor, column: int) -> Tensor:
    """A token is not nearer than itself, whatever was rounded."""
    if 0 <= column < nearer.shape[1]:
        nearer[:, column] = False
    return nearer


def _estimates(corrupted: Tensor, beaten: Tensor, shape: torch.Size) -> Simulated:
    """From [S, points]."""
    count = corrupted.shape[-1] ** 0.5
    found = (corrupted.mean(-1), corrupted.std(-1) / count, beaten.mean(-1), beaten.std(-1) / count)
    return Simulated(*(number.reshape(shape) for number in found))


def _rng(seed: int, device: torch.device) -> Rng:
    return Rng.from_seed(fold_in(seed, "simulate"), device)  # not the stream that a table of this seed came from


def _parts(total: int, points: int) -> list[int]:
    size = max(1, _HELD // points)
    return [min(size, total - start) for start in range(0, total, size)]


def _some(points: int) -> None:
    if points < 2:
        raise UserError(f"A simulation needs at least 2 points, not {points}.")
