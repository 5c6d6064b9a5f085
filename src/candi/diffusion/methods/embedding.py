"""Embedding diffusion: isotropic noise on learned unit vectors, variance exploding."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.methods.base import MethodSettings
from candi.diffusion.methods.continuous import Continuous
from candi.diffusion.schedules import Geometric
from candi.diffusion.spaces import Embedding


@dataclass(frozen=True)
class EmbeddingSettings(MethodSettings):
    """Embedding diffusion: Gaussian noise on the token vectors, no mask.

    Args:
        sigma_min: Noise at t = 0.
        sigma_max: Noise at t = 1.
        solver: How positions move in a sampling step.
        inference: Whether they aim at the mean prediction (exact) or at one draw of it (approximate).
        grid: Whether sampling takes even steps of time, which is log sigma, or of alpha, what the noise leaves of a
            token.
    """

    mask_vector: ClassVar[bool] = False
    sigma_min: float = 0.01
    sigma_max: float = 2.0
    solver: Literal["ddim", "euler", "ancestral"] = "ddim"
    inference: Literal["exact", "approximate"] = "exact"
    grid: Literal["alpha", "time"] = "time"

    def __post_init__(self) -> None:
        Geometric(self.sigma_min, self.sigma_max)  # validates the range

    def build(self, embedding: TokenEmbedding) -> Continuous:
        return Continuous(
            embedding,
            space=Embedding(embedding),
            sigma=Geometric(self.sigma_min, self.sigma_max),
            solver=self.solver,
            inference=self.inference,
            grid=self.grid,
        )
