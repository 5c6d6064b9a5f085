"""Masking: a position is either clean or corrupted, and once corrupted it stays so as t grows."""

import torch
from jaxtyping import Float
from torch import Tensor

from candi.base.rng import Rng
from candi.base.types import Mask, Times
from candi.diffusion.schedules import Schedule, time_of


def keep(alpha_t: Times, shape: torch.Size, rng: Rng) -> Mask:
    """known ~ Bernoulli(alpha_t), independently at each position."""
    return rng.uniform(*shape) < alpha_t[:, None]


def reveal(known: Mask, alpha_t: Times, alpha_s: Times, rng: Rng) -> Mask:
    """Unknown positions that become known between t and s < t, each with chance (alpha_s - alpha_t)/(1 - alpha_t)."""
    chance = (alpha_s - alpha_t) / (1 - alpha_t)
    return ~known & (rng.uniform(*known.shape) < chance[:, None])


def first_hit(known: Mask, alpha: Schedule, t: Times, rng: Rng) -> tuple[Times, Mask]:
    """When the next position is revealed, and which: of n open ones each waits until (1 - alpha_s)/(1 - alpha_t) is a

    uniform number, so that of the first is U^(1/n), and any of them may be it. A row without open ones is at s = 0.
    """
    count = (~known).sum(-1)
    left = (1 - alpha(t)).double() * rng.uniform(len(t), dtype=torch.float64) ** (1 / count.clamp(min=1))
    s = time_of(alpha, 1 - left).to(t).masked_fill(count == 0, 0.0)
    chosen = rng.uniform(*known.shape, dtype=torch.float64).masked_fill(known, -1.0).argmax(-1)
    here = torch.zeros_like(known).scatter(1, chosen[:, None], True)
    return s, here & ~known


def transition(log_p: Float[Tensor, "B L V"], alpha_t: Times, alpha_s: Times) -> Float[Tensor, "B L V+1"]:
    """log p(z_s | z_t = mask): token v with (alpha_s - alpha_t)/(1 - alpha_t) p_v, last the mask with what is left."""
    chance = ((alpha_s - alpha_t) / (1 - alpha_t))[:, None, None].to(log_p)
    return torch.cat([log_p + chance.log(), (1 - chance).log().expand_as(log_p[..., :1])], -1)


def weight(alpha_t: Times, slope: Times) -> Tensor:
    """-alpha'(t)/(1 - alpha(t)), the weight of a corrupted position in the loss: 1/t for linear alpha. [B, 1]"""
    # where alpha rounds to 1 nothing is corrupted, and an infinite weight on nothing would be no number
    return (-slope / (1 - alpha_t).clamp(min=torch.finfo(alpha_t.dtype).eps / 2))[:, None]
