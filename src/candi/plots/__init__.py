"""Every figure."""

from candi.plots.compared import choices, losses, over_steps, over_vocabulary, single_temperatures
from candi.plots.measured import by_another_judge, by_temperature, frontiers, histogram, speed
from candi.plots.style import COLOURS, save
from candi.plots.theory import curves, dissonance, embeddings, kernels, schedule, validation

__all__ = [
    "COLOURS",
    "by_another_judge",
    "by_temperature",
    "choices",
    "curves",
    "dissonance",
    "embeddings",
    "frontiers",
    "histogram",
    "kernels",
    "losses",
    "over_steps",
    "over_vocabulary",
    "save",
    "schedule",
    "single_temperatures",
    "speed",
    "validation",
]
