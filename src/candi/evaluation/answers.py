"""How likely a text goes on in one way or another: -log p(answer | context), exactly or by the bound."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from candi.base.errors import UserError
from candi.base.rng import Rng, fold_in
from candi.diffusion.state import with_given
from candi.evaluation.likelihood import bound_of, parts_of
from candi.model.model import Model


@dataclass(frozen=True)
class Continuation:
    """Tokens, the first of which are given, and the nats that the others cost, with their standard error.

    `greedy` tells whether each of them is the likeliest at its place (left to right, or with all of them hidden).
    """

    nats: float
    error: float
    greedy: bool


def continuations(
    model: Model, contexts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], *, times: int = 32,
    batch_size: int = 16, seed: int = 0,
) -> list[Continuation]:  # fmt: skip
    """-log p(answer | context) of each pair, a bound on it where the method has one.

    `times` stratified times are drawn for each pair. Answers to one context see the same times, masks and noise: their
    differences are surer than each of them. What is too long loses the beginning of its context; so does what does not
    fill the blocks of a model that writes in them.
    """
    if min(times, batch_size) < 1:
        raise UserError("A likelihood needs at least 1 time and a batch of 1.")
    length = model.config.length
    rows: dict[int, list[int]] = defaultdict(list)  # numbers of pairs, by the length of their sequences
    pairs = []
    for number, (context, answer) in enumerate(zip(contexts, answers, strict=True)):
        if not answer or len(answer) > length:
            raise UserError(f"An answer has 1 to {length} tokens, the length of the model, not {len(answer)}.")
        kept = _aligned(model, list(context)[max(0, len(context) + len(answer) - length) :], len(answer))
        pairs.append((np.array([*kept, *answer], np.int64), len(kept)))
        rows[len(pairs[-1][0])].append(number)
    found: dict[int, Continuation] = {}
    for numbers in rows.values():
        for start in range(0, len(numbers), batch_size):
            some = numbers[start : start + batch_size]
            tokens = np.stack([pairs[number][0] for number in some])
            given = np.stack([np.arange(tokens.shape[1]) < pairs[number][1] for number in some])
            seeds = [fold_in(seed, "answers", *map(int, contexts[number])) for number in some]
            found |= dict(zip(some, _batch(model, tokens, given, times, seeds), strict=True))
    return [found[number] for number in range(len(pairs))]


def _batch(
    model: Model, tokens: NDArray[np.int64], given: NDArray[np.bool_], times: int, seeds: Sequence[int]
) -> list[Continuation]:
    x0, marks = torch.from_numpy(tokens).to(model.device), torch.from_numpy(given).to(model.device)
    bound, causal = bound_of(model), model.denoiser.method.causal
    # a few strata, each of which says the same on average, tell how sure the sum is
    groups = 1 if causal else min(4, times)
    sums = []
    shares = [times // groups + (group < times % groups) for group in range(groups)]
    for group, share in enumerate(shares):
        rng, ends = (Rng.per_row((fold_in(one, name, group) for one in seeds), model.device) for name in ("t", "ends"))
        parts = parts_of(model, bound, x0, marks, 1 if causal else share, rng, ends)
        sums.append(sum(parts.values(), torch.zeros(len(x0), dtype=torch.float64, device=x0.device)).cpu())
    nats = torch.stack(sums)
    errors = nats.std(0) / math.sqrt(groups) if groups > 1 else torch.zeros(len(x0), dtype=torch.float64)
    greedy = _greedy(model, x0, marks)
    return [
        Continuation(float(mean), float(error), one)
        for mean, error, one in zip(nats.mean(0), errors, greedy, strict=True)
    ]


@torch.no_grad()
def _greedy(model: Model, x0: torch.Tensor, given: torch.Tensor) -> list[bool]:
    method = model.denoiser.method
    rng = Rng.from_seed(0, x0.device)
    parts, marks = model.denoiser.split(x0), model.denoiser.split(given)
    t = torch.ones(len(parts), device=x0.device, dtype=method.embedding.weight.dtype)
    state = with_given(method.corrupt(x0, t, rng), x0, given) if method.causal else method.prior(parts, marks, rng)
    likeliest = model.denoiser(state, context=x0).mode().view(x0.shape)
    return [bool(one) for one in ((likeliest == x0) | given).all(-1)]


def _aligned(model: Model, context: list[int], answer: int) -> list[int]:
    """A context behind which an answer of so many tokens ends where a block ends: its beginning is left out, or ends

    of texts stand before it.
    """
    block = model.config.block or 1
    if block > 1 and model.rows:
        raise UserError(
            "This model writes rows in blocks: its texts begin at the first position and end in a block of their own, "
            "so an answer by itself has no likelihood; evaluate whole rows, candi evaluate --data."
        )
    more = (len(context) + answer) % block
    if more <= len(context):
        return context[more:]
    end = model.tokenizer.end
    if end is None:
        raise UserError(
            f"A text of {len(context) + answer} tokens does not fill blocks of {block}, and this model knows no end of "
            f"texts to put before it; give a context of {more - len(context)} tokens more."
        )
    return [end] * (block - more) + context
