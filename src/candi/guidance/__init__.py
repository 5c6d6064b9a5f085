"""Modifiers of a denoiser and of its step: each takes one and returns one."""

from candi.guidance.base import Guidance, LogProbability
from candi.guidance.choice import guide_for
from candi.guidance.classifier_free import classifier_free
from candi.guidance.discrete import DiscreteGuidance
from candi.guidance.gradient import GradientGuidance
from candi.guidance.temperature import tempered
from candi.guidance.truncation import nucleus, top_k

__all__ = [
    "DiscreteGuidance",
    "GradientGuidance",
    "Guidance",
    "LogProbability",
    "classifier_free",
    "guide_for",
    "nucleus",
    "tempered",
    "top_k",
]
