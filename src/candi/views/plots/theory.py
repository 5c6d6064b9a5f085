"""What identifiability says, and what a run's schedule makes of it."""

import math
from collections.abc import Sequence

import matplotlib
import torch
from matplotlib.figure import Figure

from candi.diffusion import identifiability
from candi.diffusion.schedule_check import ScheduleRow
from candi.views.plots.style import COLOURS, STYLE, several


def dissonance(vocab_size: int, sigma: float) -> Figure:
    """Corruption and rank over the noise for one vocabulary, with one noise marked; and one against the other."""
    grid = torch.logspace(math.log10(0.05), math.log10(5), 80, dtype=torch.float64)
    here = identifiability.corruption(sigma, vocab_size), identifiability.rank(sigma)
    rho, r = identifiability.corruption(grid, vocab_size), identifiability.rank(grid)
    with matplotlib.rc_context(STYLE):
        figure, (left, right) = several(2, (8.4, 3.2))
        left.plot(grid, rho, color=COLOURS[0], label=r"corruption $\rho$")
        left.plot(grid, 2 * r, color=COLOURS[1], linestyle="--", label="rank $r$, times 2")
        left.axvline(sigma, color="#444444", linewidth=1)
        left.set_xscale("log")
        left.set_xlabel(r"noise $\sigma$")
        left.set_ylim(-0.02, 1.02)
        left.legend(frameon=False, loc="upper left")
        right.plot(rho, r, color=COLOURS[0], label=f"Gaussian noise, V = {vocab_size:,}")
        right.plot([0, 1], [0, 0.5], color="#000000", linestyle="--", label="in step")
        right.plot(*map(float, here), "o", color=COLOURS[1], markersize=8)
        right.set_xlabel(r"corruption $\rho$")
        right.set_ylabel("rank $r$")
        right.set_xlim(-0.02, 1.02)
        right.set_ylim(0, 0.52)
        right.legend(frameon=False, loc="upper left")
    return figure


def schedule(rows: Sequence[ScheduleRow]) -> Figure:
    """What a checkpoint's schedule does to the positions of a text."""
    with matplotlib.rc_context(STYLE):
        figure, (left, right) = several(2, (8.4, 3.4))
        t = [row.t for row in rows]
        left.plot(t, [row.identifiable for row in rows], color=COLOURS[0], label="identifiable")
        left.plot(t, [row.open for row in rows], color=COLOURS[1], linestyle="--", label="noisy")
        left.plot(
            t, [row.corruption_of_noise for row in rows], color=COLOURS[2], linestyle=":", label=r"$\rho$ where noisy"
        )
        right.plot(t, [row.rank_of_schedule for row in rows], color=COLOURS[0], label="as the schedule says")
        right.plot(
            t, [row.rank_of_network for row in rows], color=COLOURS[1], linestyle="--", label="as the network sees"
        )
        left.set_ylabel("share of positions")
        right.set_ylabel("rank degradation $r$")
        left.set_ylim(-0.02, 1.02)
        right.set_ylim(0, 0.52)
        for axes in (left, right):
            axes.set_xlabel("time $t$ (0 data, 1 noise)")
        left.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=3)
        right.legend(frameon=False, loc="upper left")
    return figure
