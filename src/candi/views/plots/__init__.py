"""Figures."""

from candi.views.plots.frontiers import frontiers, histogram
from candi.views.plots.style import COLOURS, save
from candi.views.plots.theory import dissonance, schedule

__all__ = ["COLOURS", "dissonance", "frontiers", "histogram", "save", "schedule"]
