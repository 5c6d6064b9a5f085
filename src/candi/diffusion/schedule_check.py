"""Does a method's noise suit its vocabulary? What its schedule does to the positions of a text."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from candi.base.errors import UserError
from candi.diffusion.identifiability import closed_form as exact
from candi.diffusion.identifiability.simulate import simulate_table
from candi.diffusion.methods.base import Method


@dataclass(frozen=True)
class ScheduleRow:
    """What a method's noise does at one time t. `open` is the fraction of noisy positions, `identifiable` that of
    positions whose token can be identified; ranks are those that the schedule says and that the network can see."""

    t: float
    sigma: float
    vocab_size: int
    width: int
    space: str
    open: float
    rank_of_schedule: float
    rank_of_network: float
    corruption_of_noise: float
    identifiable: float


@dataclass(frozen=True)
class Verdict:
    """What a schedule does to a vocabulary, in one sentence."""

    fits: bool
    dissonant: bool
    sentence: str


# fraction of positions that can be identified; rank degradation that is worth undoing
_IDENTIFIED, _WORTH = 0.1, 0.02


def check_schedule(
    method: Method, tokens: Int[Tensor, "N"], draws: int = 200, most: int = 64, count: int = 11, seed: int = 0
) -> tuple[list[ScheduleRow], Verdict]:
    """What a method's noise does over t to the positions of a text: what its schedule says, what the network can see.

    `tokens` are those of the text, of which `most` positions are looked at. The nearest token is found by the best
    test there is for what the network sees.
    """
    rows, probe, isotropic = _over_time(method, tokens, draws, most, count, seed)
    return rows, _verdict(rows, isotropic, probe)


def prediction(
    method: Method, tokens: Int[Tensor, "N"], draws: int = 50, most: int = 16, count: int = 9, seed: int = 0
) -> dict[str, float]:
    """Averages over t: positions that can be identified, and the rank degradation that the network sees at the others.

    Of masked diffusion a position is identified or nothing is known of it: a rank of 1/2.
    """
    check_predictable(method)
    if not len(tokens):
        raise UserError("There is no text to predict anything for; give some.")
    if method.gaussian() is None:
        corrupted_fraction = method.corrupted_fraction(torch.linspace(0, 1, count, dtype=torch.float64))
        return {"identifiable": 1 - float(corrupted_fraction.mean()), "rank": 0.5}
    rows, _, _ = _over_time(method, tokens, draws, most, count, seed)
    return {
        "identifiable": sum(row.identifiable for row in rows) / count,
        "rank": sum(row.rank_of_network for row in rows) / count,
    }


def check_predictable(method: Method) -> None:
    """Refuse noise that is neither Gaussian nor a mask: identifiability says nothing of it here."""
    if method.gaussian() is None and (method.noise_is_visible or method.causal):
        raise UserError(f"Identifiability predicts nothing of {type(method).__name__}; leave it out of the overview.")


Probe = Callable[[float], tuple[float, float]]


def _over_time(
    method: Method, tokens: Int[Tensor, "N"], draws: int, most: int, count: int, seed: int
) -> tuple[list[ScheduleRow], Probe, bool]:
    """The rows of `check_schedule`, a probe of other noise in the same way, and whether the noise is isotropic."""
    found = method.gaussian()
    if found is None:
        raise UserError(f"{type(method).__name__} has no Gaussian noise, so there is no schedule of it to look at.")
    space, sigma_of = found
    table = space.embedding.directions().detach().cpu()
    points = table.double() if space.isotropic else exact.whitened(table)
    some = tokens[torch.randperm(len(tokens), generator=torch.Generator().manual_seed(seed))[:most]]
    kinds, times = some.unique(return_counts=True)
    weights = times.double() / times.sum()
    t = torch.linspace(0, 1, count, dtype=torch.float64)
    sigma = sigma_of(t)
    corrupted = simulate_table(points, kinds, sigma, draws, "l2", seed).corruption @ weights
    rank = exact.rank_embedding(points, kinds, sigma, "l2") @ weights
    corrupted_fraction = method.corrupted_fraction(t)
    rows = []
    for index, time in enumerate(t.tolist()):
        rows.append(
            ScheduleRow(
                t=time,
                sigma=float(sigma[index]),
                vocab_size=len(points),
                width=space.embedding.width,
                space=type(space).__name__,
                open=float(corrupted_fraction[index]),
                rank_of_schedule=float(exact.rank(sigma[index])),
                rank_of_network=float(rank[index]),
                corruption_of_noise=float(corrupted[index]),
                identifiable=1 - float(corrupted_fraction[index] * corrupted[index]),
            )
        )

    def probe(level: float) -> tuple[float, float]:
        """(rank the network sees, share of noisy positions that can be identified) at some noise."""
        one = torch.tensor([level])
        identified = 1 - simulate_table(points, kinds[:6], one, draws, "l2", seed).corruption.mean()
        return float(exact.rank_embedding(points, kinds[:6], one, "l2").mean()), float(identified)

    return rows, probe, space.isotropic


def _verdict(rows: list[ScheduleRow], isotropic: bool, probe: Probe) -> Verdict:
    first, last = rows[0], rows[-1]
    about = (
        f"Vocabulary {first.vocab_size:,}, width {first.width}, noise in the {first.space.lower()} space: "
        f"the schedule says r = {first.rank_of_schedule:.2g} to {last.rank_of_schedule:.2g}, the network sees "
        f"{first.rank_of_network:.2g} to {last.rank_of_network:.2g}, and {100 * first.identifiable:.0f}% to "
        f"{100 * last.identifiable:.0f}% of the positions can be identified"
    )
    if last.rank_of_network < _WORTH:
        return Verdict(False, False, f"{about}: too little noise to learn from; {_advice(rows, isotropic, probe)}.")
    # times at which some positions can be identified and yet the noise is worth undoing; noise that says nothing is not
    useful = [r for r in rows if r.identifiable > _IDENTIFIED and r.rank_of_network > _WORTH]
    if first.rank_of_network < 0.35 and len(useful) >= 0.25 * len(rows):
        return Verdict(True, False, f"{about}: not in temporal dissonance.")
    return Verdict(False, True, f"{about}: in temporal dissonance; {_advice(rows, isotropic, probe)}.")


def _advice(rows: list[ScheduleRow], isotropic: bool, probe: Probe) -> str:
    """A range of noise that the same rule would pass, if there is one."""
    masked = rows[0].open < 0.5
    low = _level(lambda s: probe(s)[0] > (0.05 if masked else 2 * _WORTH))
    # a mask keeps positions identifiable; without one they must survive the noise
    high = _level(lambda s: probe(s)[0] > 0.4) if masked else _level(lambda s: probe(s)[1] < _IDENTIFIED)
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
