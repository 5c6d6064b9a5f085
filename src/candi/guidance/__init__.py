"""Modifiers of a denoiser: each takes one and returns one."""

from candi.guidance.temperature import tempered

__all__ = ["tempered"]
