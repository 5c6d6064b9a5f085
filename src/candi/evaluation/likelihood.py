"""Bits per token: exact where the method's loss is a likelihood, a bound where it is a bound, refused elsewhere."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from candi.base.errors import UserError
from candi.base.rng import Rng, fold_in
from candi.base.types import Mask, Tokens
from candi.diffusion.prediction import Prediction
from candi.diffusion.state import State, with_given
from candi.model.model import Model

_T_MIN = 1e-6  # the slice of the integral that is left out


@dataclass(frozen=True)
class Likelihood:
    """Mean over sequences of -log2 p(x) / length, or of its bound, with a 95% interval.

    Each sequence has its own times, so the spread over sequences contains that over t.
    """

    bits_per_token: float
    low: float
    high: float
    exact: bool
    sequences: int
    times: int


@torch.no_grad()
def likelihood(
    model: Model, sequences: NDArray[np.int64], *, given: NDArray[np.bool_] | None = None, times: int = 8,
    batch_size: int = 16, seed: int = 0,
) -> Likelihood:  # fmt: skip
    """E_t[loss] + endpoint terms, with `times` stratified draws of t for each sequence.

    `given` marks tokens [N, L] that the others are predicted from: -log2 p(others | given) / others.
    """
    method = model.denoiser.method
    if not method.bound:
        raise UserError(
            f"{model.config.method} has no likelihood bound: {method.why_no_bound}. Compare it by its samples instead."
        )
    if min(times, batch_size, len(sequences)) < 1:
        raise UserError("A likelihood needs at least 1 sequence, 1 time and a batch of 1.")
    times = 1 if method.causal else times
    marks = np.zeros(sequences.shape, bool) if given is None else given
    marks = marks[~marks.all(-1)] if marks.any() else marks  # of a sequence that is all given there is nothing to say
    if not len(marks):
        raise UserError("Every token is given; there is nothing to predict.")
    sequences = sequences if given is None else sequences[~given.all(-1)]
    nats = np.concatenate(list(_nats(model, sequences, marks, times, batch_size, seed)))
    if not np.isfinite(nats).all():
        raise UserError(
            f"The loss of {model.config.method} is not finite for all times; its weights or model are broken."
        )
    bits = nats / math.log(2) / (~marks).sum(-1)
    mean = float(bits.mean())
    margin = 1.96 * float(bits.std(ddof=1)) / math.sqrt(len(bits)) if len(bits) > 1 else float("inf")
    return Likelihood(mean, mean - margin, mean + margin, method.causal, len(bits), times)


def _nats(
    model: Model, sequences: NDArray[np.int64], marks: NDArray[np.bool_], times: int, batch_size: int, seed: int
) -> Iterator[NDArray[np.float64]]:
    """-log p(x) or its bound for each sequence, a batch of them at a time."""
    method = model.denoiser.method
    share = 1.0 if method.causal else 1 - _T_MIN  # left to right there is no time to integrate over
    for start in range(0, len(sequences), batch_size):
        x0 = torch.from_numpy(sequences[start : start + batch_size]).to(model.device)
        given = torch.from_numpy(marks[start : start + batch_size]).to(model.device)
        rows = range(start, start + len(x0))
        rng = Rng.per_row((fold_in(seed, "likelihood", row) for row in rows), model.device)

        def denoise(state: State, x0: Tokens = x0, given: Mask = given) -> Prediction:
            return model.denoiser(with_given(state, x0, given))

        total = method.endpoint_terms(denoise, x0, rng).double().masked_fill(given, 0).sum(-1)
        for stratum in range(times):
            t = _T_MIN + (1 - _T_MIN) * (stratum + rng.uniform(len(x0), dtype=torch.float64)) / times
            state = with_given(method.corrupt(x0, t, rng), x0, given)
            loss = method.loss(model.denoiser(state), state, x0).double().masked_fill(given, 0)
            total += loss.sum(-1) * share / times
        yield total.cpu().numpy()
