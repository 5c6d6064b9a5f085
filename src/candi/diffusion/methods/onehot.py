"""One-hot diffusion: CANDI's Gaussian half alone, the baseline that fails on large vocabularies."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.methods.base import MethodSettings
from candi.diffusion.methods.continuous import Continuous
from candi.diffusion.schedules import RankLinear
from candi.diffusion.spaces import SPACES


@dataclass(frozen=True)
class OneHotSettings(MethodSettings):
    """One-hot diffusion: Gaussian noise on one-hot vectors, no mask.

    Args:
        space: projected, or onehot to hold the vectors of size V explicitly: the same law.
        rank_min: Rank degradation at t = 0.
        rank_max: Rank degradation at t = 1, below 0.5.
        precondition: Scale of the inputs: exact gives them unit size, paper divides by sqrt(1 + sigma^2).
        solver: How positions move in a sampling step.
        inference: Whether they aim at the mean prediction (exact) or at one draw of it (approximate).
        grid: Whether sampling takes even steps of alpha, what the noise leaves of a token, or of time, which is
            rank degradation.
    """

    mask_vector: ClassVar[bool] = False
    space: Literal["projected", "onehot"] = "projected"
    rank_min: float = 0.05
    rank_max: float = 0.25
    precondition: Literal["exact", "paper"] = "exact"
    solver: Literal["ddim", "euler", "ancestral"] = "ddim"
    inference: Literal["exact", "approximate"] = "exact"
    grid: Literal["alpha", "time"] = "alpha"

    def __post_init__(self) -> None:
        RankLinear(self.rank_min, self.rank_max)  # validates the range

    def build(self, embedding: TokenEmbedding) -> Continuous:
        return Continuous(
            embedding,
            space=SPACES[self.space](embedding),
            sigma=RankLinear(self.rank_min, self.rank_max),
            exact_scale=self.precondition == "exact",
            solver=self.solver,
            inference=self.inference,
            grid=self.grid,
        )
