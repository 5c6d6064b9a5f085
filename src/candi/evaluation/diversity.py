"""How varied samples are."""

import math
from collections import Counter
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candi.base.errors import UserError


def entropy(tokens: Int[Tensor, "N L"]) -> Float[Tensor, "N"]:
    """-sum_v (c_v/L) ln(c_v/L) of each sample, in nats, c_v its count of token v."""
    ordered = tokens.sort(-1).values.contiguous()
    # in a sorted row a token's count is the length of its run; L positions of it each have the weight 1/L
    counts = torch.searchsorted(ordered, ordered, right=True) - torch.searchsorted(ordered, ordered)
    return math.log(tokens.shape[1]) - counts.double().log().mean(-1)


def word_entropy(text: str) -> float:
    """-sum_w c_w/n ln(c_w/n) over the words of a text: the same for every tokenizer. nan without words."""
    words = text.split()
    return -sum(c / len(words) * math.log(c / len(words)) for c in Counter(words).values()) if words else math.nan


def distinct(samples: Sequence[Sequence[object]], n: int) -> float:
    """Distinct n-grams over all n-grams of all samples: 1 if nothing repeats."""
    if n < 1:
        raise UserError(f"An n-gram has at least 1 token, not {n}.")
    grams = [tuple(sample[i : i + n]) for sample in samples for i in range(len(sample) - n + 1)]
    return len(set(grams)) / len(grams) if grams else float("nan")
