"""Bits per token, byte and character: exact where the method's loss is a likelihood, else a bound."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from candi.base.errors import UserError
from candi.base.rng import Rng, fold_in
from candi.base.types import Mask, Tokens
from candi.diffusion.bound import Bound, NoisePath, Parts
from candi.diffusion.prediction import Prediction
from candi.diffusion.state import State, with_given
from candi.model.model import Model

_T_MIN = 1e-6  # the slice of the integral that is left out


@dataclass(frozen=True)
class Likelihood:
    """Mean over sequences of -log2 p(x) / length, or of its bound, with a 95% interval.

    Each sequence has its own times, so the spread over sequences contains that over t. `parts` are what it is the sum
    of; `tokens`, `bytes` and `characters` how much text it is of, the marks of ends being none.
    """

    bits_per_token: float
    low: float
    high: float
    exact: bool
    sequences: int
    times: int
    parts: dict[str, float]
    tokens: int
    characters: int
    bytes: int
    per_byte: tuple[float, float, float]
    per_character: tuple[float, float, float]

    def per(self, unit: Literal["byte", "character"]) -> tuple[float, float, float]:
        """All bits over all bytes or characters that they spell, with the interval of that ratio."""
        return self.per_byte if unit == "byte" else self.per_character


@torch.no_grad()
def likelihood(
    model: Model, sequences: NDArray[np.int64], *, given: NDArray[np.bool_] | None = None, times: int = 8,
    batch_size: int = 16, seed: int = 0, path: str | NoisePath | None = None, prior: str | None = None,
) -> Likelihood:  # fmt: skip
    """E_t of the bound's integrand + what stands at its ends, with `times` stratified draws of t for each sequence.

    `given` marks tokens [N, L] that the others are predicted from: -log2 p(others | given) / others. `path` and `prior`
    are those of the process whose bound it is, of methods that have some.
    """
    method = model.denoiser.method
    bound = bound_of(model, path, prior)
    if min(times, batch_size, len(sequences)) < 1:
        raise UserError("A likelihood needs at least 1 sequence, 1 time and a batch of 1.")
    times = 1 if method.causal else times
    marks = np.zeros(sequences.shape, bool) if given is None else given
    marks = marks[~marks.all(-1)] if marks.any() else marks  # of a sequence that is all given there is nothing to say
    if not len(marks):
        raise UserError("Every token is given; there is nothing to predict.")
    sequences = sequences if given is None else sequences[~given.all(-1)]
    batches = list(nats_of(model, bound, sequences, marks, times, batch_size, seed))
    parts = {name: np.concatenate([one[name] for one in batches]) for name in batches[0]}
    nats = sum(parts.values(), np.zeros(len(sequences)))
    if not np.isfinite(nats).all():
        raise UserError(
            f"The loss of {model.config.method} is not finite for all times; its weights or model are broken."
        )
    bits = nats / math.log(2) / (~marks).sum(-1)
    mean = float(bits.mean())
    margin = 1.96 * float(bits.std(ddof=1)) / math.sqrt(len(bits)) if len(bits) > 1 else float("inf")
    scale = math.log(2) * (~marks).sum(-1)
    shares = {name: float((some / scale).mean()) for name, some in parts.items()}
    characters, sizes = _spelled(model, sequences, marks)
    total = nats / math.log(2)
    return Likelihood(
        mean, mean - margin, mean + margin, method.causal, len(bits), times, shares, int((~marks).sum()),
        int(characters.sum()), int(sizes.sum()), _ratio(total, sizes), _ratio(total, characters),
    )  # fmt: skip


def bound_of(model: Model, path: str | NoisePath | None = None, prior: str | None = None) -> Bound:
    """The bound of the process that is asked for, else of the one that the model recommends."""
    complete = model.with_defaults(path=path, prior=prior)
    return model.denoiser.method.likelihood_bound(path=complete["path"], prior=complete["prior"])


def _ratio(bits: NDArray[np.float64], sizes: NDArray[np.float64]) -> tuple[float, float, float]:
    """sum bits / sum sizes, with a 95% interval over the sequences."""
    if not sizes.sum():
        return math.inf, math.inf, math.inf
    ratio, count = float(bits.sum() / sizes.sum()), len(bits)
    spread = float((bits - ratio * sizes).std(ddof=1)) if count > 1 else math.inf
    margin = 1.96 * spread / math.sqrt(count) / float(sizes.mean())
    return ratio, ratio - margin, ratio + margin


def _spelled(
    model: Model, sequences: NDArray[np.int64], marks: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Characters and bytes that the tokens of each sequence that are not given spell."""
    found = [model.tokenizer.size(row[~mark]) for row, mark in zip(sequences, marks, strict=True)]
    characters, sizes = zip(*found, strict=True)
    return np.array(characters, np.float64), np.array(sizes, np.float64)


def nats_of(
    model: Model, bound: Bound, sequences: NDArray[np.int64], marks: NDArray[np.bool_], times: int, batch_size: int,
    seed: int,
) -> Iterator[dict[str, NDArray[np.float64]]]:  # fmt: skip
    """The parts of -log p(x) or its bound for each sequence, a batch at a time; with no times its ends alone."""
    for start in range(0, len(sequences), batch_size):
        x0 = torch.from_numpy(sequences[start : start + batch_size]).to(model.device)
        given = torch.from_numpy(marks[start : start + batch_size]).to(model.device)
        # streams of their own, so that what one draws moves nothing of the other
        rngs = [
            Rng.per_row((fold_in(seed, name, start + row) for row in range(len(x0))), model.device)
            for name in ("likelihood", "likelihood ends")
        ]
        yield {name: nats.cpu().numpy() for name, nats in parts_of(model, bound, x0, given, times, *rngs).items()}


@torch.no_grad()
def parts_of(
    model: Model, bound: Bound, x0: Tokens, given: Mask, times: int, rng: Rng, of_ends: Rng
) -> dict[str, Tensor]:
    """Nats of each sequence at `times` stratified times, and at the ends."""
    denoiser = model.denoiser
    share = 1.0 if denoiser.method.causal else 1 - _T_MIN  # left to right there is no time to integrate over
    parts, marks = denoiser.split(x0), denoiser.split(given)  # each block has a time of its own

    def per_row(parts: Parts) -> dict[str, Tensor]:
        shaped = {name: nats.double().reshape(x0.shape) for name, nats in parts.items()}
        return {name: nats.masked_fill(given, 0).sum(-1) for name, nats in shaped.items()}

    def denoise(state: State) -> Prediction:
        return denoiser(with_given(state, parts, marks), context=x0)

    total = per_row(bound.ends(denoise, parts, of_ends))
    for stratum in range(times):
        t = _T_MIN + (1 - _T_MIN) * (stratum + rng.uniform(len(parts), dtype=torch.float64)) / times
        state = with_given(bound.corrupt(parts, t, rng), parts, marks)
        for name, nats in per_row(bound.integrand(denoise(state), state, parts)).items():
            total[name] = total.get(name, torch.zeros_like(nats)) + nats * share / times
    return total
