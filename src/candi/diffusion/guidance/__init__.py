"""Modifiers of a denoiser and of its step: each takes one and returns one."""

from candi.diffusion.guidance.base import BlockGuidance, Guidance, LogProbability
from candi.diffusion.guidance.choice import guide_for
from candi.diffusion.guidance.classifier_free import classifier_free
from candi.diffusion.guidance.discrete import DCBG, DiscreteGuidance
from candi.diffusion.guidance.gradient import GradientGuidance
from candi.diffusion.guidance.temperature import tempered
from candi.diffusion.guidance.truncation import top_k, top_p

__all__ = [
    "DCBG",
    "BlockGuidance",
    "DiscreteGuidance",
    "GradientGuidance",
    "Guidance",
    "LogProbability",
    "classifier_free",
    "guide_for",
    "tempered",
    "top_k",
    "top_p",
]
