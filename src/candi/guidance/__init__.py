"""Modifiers of a denoiser: each takes one and returns one."""

from candi.guidance.temperature import tempered
from candi.guidance.truncation import nucleus, top_k

__all__ = ["nucleus", "tempered", "top_k"]
