"""CANDI: masking decides which positions stay clean, Gaussian noise corrupts the rest."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from candi.codebook import Codebook
from candi.errors import UserError
from candi.kernels import gaussian, masked
from candi.methods.base import Method, Predict
from candi.nets.places import Places
from candi.nets.prediction import Prediction
from candi.rng import Rng
from candi.sampling.solvers import SOLVERS
from candi.sampling.steps import certain, moved
from candi.schedules import LinearAlpha, PowerAlpha, RankLinear, Schedule
from candi.spaces import SPACES, Space
from candi.state import State
from candi.types import Hidden, LogProbs, Mask, PerToken, Times, Tokens


class CANDI(Method):
    """q(known) = Bernoulli(alpha(t)); x~ = point(x0) + sigma(t) noise where not known."""

    bound = False
    unbounded = "its Gaussian noise tells something of every token, so the loss can lie below -log p(x0)"
    options: ClassVar = {"solver": tuple(SOLVERS), "inference": ("exact", "approximate")}

    def __init__(
        self,
        codebook: Codebook,
        *,
        space: Space,
        sigma: Schedule,
        alpha: Schedule | None = None,
        bias_weight: float = 0.5,
        exact_scale: bool = True,
        solver: str = "ddim",
        inference: str = "exact",
    ) -> None:
        super().__init__(codebook)
        self.space, self.sigma, self.alpha = space, sigma, alpha or LinearAlpha()
        self.bias_weight = bias_weight
        # paper: c_in = 1/sqrt(1 + sigma^2), whatever the size of the noise the network sees
        self.noise_power = space.power if exact_scale else 1.0
        self.solver, self.inference = solver, inference

    def corrupt(self, x0: Tokens, t: Times, rng: Rng) -> State:
        known = masked.keep(self.alpha(t), x0.shape, rng)
        noise = self.space.noise(x0.shape, rng)
        return State(t, known, x0, gaussian.corrupt(self.space.point(x0), self.sigma(t), noise))

    def open_share(self, t: Times) -> Times:
        return 1 - self.alpha(t)

    def prior(self, x0: Tokens, known: Mask, rng: Rng) -> State:
        t = torch.ones(len(x0), device=x0.device, dtype=self.codebook.weight.dtype)
        noise = self.space.noise(x0.shape, rng)
        return State(t, known, x0, gaussian.corrupt(torch.zeros_like(noise), self.sigma(t), noise))

    def embed(self, state: State) -> Hidden:
        """w_x where known, lambda b + (1 - lambda) c_in y elsewhere."""
        scale = gaussian.precondition(self.sigma(state.t), self.noise_power)
        noisy = torch.lerp(scale * self.space.hidden(state.noisy), self.codebook.blank(), self.bias_weight)
        return torch.where(state.known[..., None], self.codebook.lookup(state.tokens), noisy)

    def clock(self, state: State) -> Times:
        return -self.alpha(state.t).log()

    def loss(self, prediction: Prediction, state: State, x0: Tokens) -> PerToken:
        """-alpha'/(1 - alpha) * -log p(x0_i | z_t) where not known: 1/t for linear alpha, k/t for rho = t^k."""
        return masked.weight(self.alpha(state.t), self.alpha.derivative(state.t)) * prediction.nll(x0)

    def step(
        self,
        state: State,
        predict: Predict,
        s: Times,
        rng: Rng,
        solver: str | None = None,
        inference: str | None = None,
    ) -> State:
        """Reveal some positions by drawing their token; move the others along the Gaussian process.

        Exact inference aims at E[x0 | z_t], approximate inference at one draw of it: the one that is revealed.
        """
        revealed = masked.reveal(state.known, self.alpha(state.t), self.alpha(s), rng)
        known = state.known | revealed
        if (inference or self.inference) == "exact":
            chosen, others = Places(revealed).counted(), Places(~known).counted()
            prediction = predict()
            drawn = prediction.at(chosen).draw(rng)
            target = self.space.expect(prediction.at(others))
        else:
            everywhere = Places(~state.known).counted()
            prediction = predict()
            drawn = prediction.at(everywhere).draw(rng)
            target = self.space.point(drawn)
        values = moved(state, prediction, target, s, self.space, self.sigma, solver or self.solver, rng)
        return State(s, known, torch.where(revealed, drawn, state.tokens), values)

    def gaussian(self) -> tuple[Space, Schedule]:
        return self.space, self.sigma

    def weights_changed(self) -> None:
        self.space.weights_changed()

    def log_likelihood(self, state: State) -> LogProbs:
        noisy = self.space.log_density(state.noisy, self.sigma(state.t))
        return certain(state, noisy)

    def decode(self, state: State) -> Tokens:
        return torch.where(state.known, state.tokens, self.space.nearest(state.noisy, ~state.known))


@dataclass(frozen=True)
class CandiSettings:
    """CANDI: masking decides which positions stay clean, Gaussian noise corrupts the rest.

    Args:
        space: Where the Gaussian noise lives; auto is embedding for a vocabulary larger than the width, else projected.
        rank_min: Rank degradation of corrupted positions at t = 0.
        rank_max: Rank degradation of corrupted positions at t = 1, below 0.5.
        bias_weight: lambda, the share of the empty-position vector in a noisy input; 1 is masked diffusion.
        mask_power: k of the masking path rho = t^k: the share of corrupted positions at time t.
        precondition: Scale of noisy inputs: exact gives them unit size, paper divides by sqrt(1 + sigma^2).
        solver: How noisy positions move in a sampling step.
        inference: Whether they aim at the mean prediction (exact) or at one draw of it (approximate).
    """

    space: Literal["auto", "onehot", "projected", "embedding"] = "auto"
    rank_min: float = 0.05
    rank_max: float = 0.25
    bias_weight: float = 0.5
    mask_power: float = 1.0
    precondition: Literal["exact", "paper"] = "exact"
    solver: Literal["ddim", "euler", "ancestral"] = "ddim"
    inference: Literal["exact", "approximate"] = "exact"

    def __post_init__(self) -> None:
        RankLinear(self.rank_min, self.rank_max)  # refuses a range that is none
        PowerAlpha(self.mask_power)
        if not 0 <= self.bias_weight <= 1:
            raise UserError(f"The bias_weight must be in [0, 1], not {self.bias_weight}.")

    def build(self, codebook: Codebook) -> CANDI:
        space = self.space
        if space == "auto":
            space = "embedding" if codebook.vocab_size > codebook.width else "projected"
        return CANDI(
            codebook,
            space=SPACES[space](codebook),
            sigma=RankLinear(self.rank_min, self.rank_max),
            alpha=LinearAlpha() if self.mask_power == 1 else PowerAlpha(self.mask_power),
            bias_weight=self.bias_weight,
            exact_scale=self.precondition == "exact",
            solver=self.solver,
            inference=self.inference,
        )
