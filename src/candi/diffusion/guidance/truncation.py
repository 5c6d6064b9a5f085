"""Predictions without their tail."""

from collections.abc import Callable

import torch

from candi.base.errors import UserError
from candi.base.types import Rows
from candi.diffusion.prediction import Prediction
from candi.diffusion.sampler import Denoise
from candi.diffusion.state import State


def top_k(denoise: Denoise, k: int) -> Denoise:
    """Only the k likeliest tokens of each position, renormalised."""
    if k < 1:
        raise UserError(f"top_k must be at least 1, not {k}.")

    def cut(logits: Rows) -> Rows:
        if k >= logits.shape[-1]:
            return logits
        chosen = logits.topk(k, -1)
        return torch.full_like(logits, -torch.inf).scatter(-1, chosen.indices, chosen.values)

    return _mapped(denoise, cut)


def top_p(denoise: Denoise, mass: float) -> Denoise:
    """Nucleus sampling: only the fewest likeliest tokens that hold `mass` of the probability, renormalised."""
    if not 0 < mass <= 1:
        raise UserError(f"top_p must be in (0, 1], not {mass}.")

    def cut(logits: Rows) -> Rows:
        ordered, order = logits.sort(-1, descending=True)
        p = torch.softmax(ordered.double(), -1)
        before = p.cumsum(-1) - p
        kept = ordered.masked_fill(before >= mass, -torch.inf)
        return torch.empty_like(logits).scatter(-1, order, kept)

    return _mapped(denoise, cut) if mass < 1 else denoise


def _mapped(denoise: Denoise, cut: Callable[[Rows], Rows]) -> Denoise:
    def denoise_cut(state: State) -> Prediction:
        return denoise(state).map(cut)

    return denoise_cut
