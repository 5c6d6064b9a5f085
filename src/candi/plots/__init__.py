"""Every figure."""

from candi.plots.measured import by_temperature, choices, frontiers, histogram, over_steps, over_vocabulary, speed
from candi.plots.style import COLOURS, save
from candi.plots.theory import curves, dissonance, embeddings, kernels, schedule, validation

__all__ = [
    "COLOURS",
    "by_temperature",
    "choices",
    "curves",
    "dissonance",
    "embeddings",
    "frontiers",
    "histogram",
    "kernels",
    "over_steps",
    "over_vocabulary",
    "save",
    "schedule",
    "speed",
    "validation",
]
