"""Modifiers of a denoiser and of its step: each takes one and returns one."""

from candi.guidance.base import Guidance, LogProbability
from candi.guidance.discrete import DiscreteGuidance
from candi.guidance.gradient import GradientGuidance
from candi.guidance.temperature import tempered
from candi.guidance.truncation import nucleus, top_k

__all__ = ["DiscreteGuidance", "GradientGuidance", "Guidance", "LogProbability", "nucleus", "tempered", "top_k"]
