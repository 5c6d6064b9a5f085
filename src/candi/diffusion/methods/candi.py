"""CANDI: masking decides which positions stay clean, Gaussian noise corrupts the rest."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candi.base.errors import UserError, unknown
from candi.base.rng import Rng
from candi.base.types import Hidden, LogProbs, Mask, PerToken, Times, Tokens
from candi.diffusion.bound import Bound, Certain, NoisePath, Parts, gaussian_part, prior_part
from candi.diffusion.embeddings import TimestepEmbedder, TokenEmbedding
from candi.diffusion.kernels import gaussian, masked
from candi.diffusion.methods.base import Denoise, Method, MethodSettings, Predict
from candi.diffusion.open_positions import OpenPositions
from candi.diffusion.prediction import Prediction
from candi.diffusion.schedules import LinearAlpha, PowerAlpha, RankLinear, Schedule
from candi.diffusion.solvers import SOLVERS
from candi.diffusion.spaces import SPACES, Projected, Space
from candi.diffusion.state import State, hidden
from candi.diffusion.steps import (
    FIRST_HITTING,
    PRIORS,
    gaussian_prior,
    pin_known,
    solver_step,
    steps_of_order,
    top_count,
)

# the time of the noise as a power of that of masking: together, noise gone early, noise kept late
PATHS = {"diagonal": 1.0, "early": 2.0, "late": 0.5}


class CANDI(Method):
    """q(known) = Bernoulli(alpha(t)); x~ = point(x0) + sigma(u) noise where not known.

    u = t, unless masking and noise are trained independently of each other: then u is a time of its own, the network
    learns it from the vector of a noisy position, and one model can be sampled along any path u(t) from noise to data.
    """

    bound = False
    why_no_bound = "its Gaussian noise tells something of every token, which the loss does not pay for"
    options: Mapping[str, tuple[str, ...]] = {
        "solver": tuple(SOLVERS),
        "inference": ("exact", "approximate"),
        "order": ("random", "confidence", FIRST_HITTING),
        "path": tuple(PATHS),
        "prior": PRIORS,
    }

    def __init__(
        self,
        embedding: TokenEmbedding,
        *,
        space: Space,
        sigma: Schedule,
        alpha: Schedule | None = None,
        bias_weight: float = 0.5,
        gate: bool = False,
        exact_scale: bool = True,
        independent: bool = False,
        solver: str = "ddim",
        inference: str = "exact",
        order: str = "random",
        path: str = "diagonal",
        objective: str = "tokens",
    ) -> None:
        super().__init__(embedding)
        self.space, self.sigma, self.alpha = space, sigma, alpha or LinearAlpha()
        self.bias_weight = bias_weight
        # noisy inputs are b + gate c_in y: at a gate of 0 this is masked diffusion
        self.gate = nn.Parameter(torch.zeros(())) if gate else None
        # what unit vectors are multiplied by to be of the size of tokens; 1 where these are unit vectors themselves
        self.vector_size: Tensor | None
        self.register_buffer("vector_size", None if embedding.unit else torch.ones(()))
        # paper: c_in = 1/sqrt(1 + sigma^2), whatever the size of the noise the network sees
        self.noise_power = space.power if exact_scale else 1.0
        self.solver, self.inference, self.order, self.path = solver, inference, order, path
        self.objective = objective
        self.level: TimestepEmbedder | None = None
        if independent:
            self.level = TimestepEmbedder(embedding.width, zero_init=True)
        else:
            self.options = {name: values for name, values in self.options.items() if name != "path"}

    def check_training(self) -> None:
        fewer = self.embedding.vocab_size > self.embedding.width
        if self.objective == "bound" and isinstance(self.space, Projected) and fewer:
            raise UserError("The objective bound is for the space embedding or onehot; set --candi.space.")

    def corrupt(self, x0: Tokens, t: Times, rng: Rng) -> State:
        known = masked.keep(self.alpha(t), x0.shape, rng)
        noise = self.space.noise(x0.shape, rng)
        u = t if self.level is None else rng.uniform(len(t), dtype=t.dtype)
        values = gaussian.corrupt(self.space.point(x0), self.sigma(u), noise)
        return State(t, known, hidden(x0, known), values, noise_t=None if self.level is None else u)

    def corrupt_on_path(self, x0: Tokens, t: Times, rng: Rng) -> State:
        if self.level is None:
            return self.corrupt(x0, t, rng)
        return self._corrupt_at(x0, t, t ** PATHS[self.path], self.alpha, rng)

    def _corrupt_at(self, x0: Tokens, t: Times, u: Times, alpha: Schedule, rng: Rng) -> State:
        """z_t whose noise is at a time of its own."""
        known = masked.keep(alpha(t), x0.shape, rng)
        values = gaussian.corrupt(self.space.point(x0), self.sigma(u), self.space.noise(x0.shape, rng))
        return State(t, known, hidden(x0, known), values, noise_t=u)

    def corrupted_fraction(self, t: Times) -> Times:
        return 1 - self.alpha(t)

    def prior(self, x0: Tokens, known: Mask, rng: Rng, prior: str | None = None) -> State:
        t = torch.ones(len(x0), device=x0.device, dtype=self.embedding.weight.dtype)
        values = gaussian_prior(self.space, self.sigma(t), known.shape, rng, self.token_frequencies(prior))
        return State(t, known, hidden(x0, known), values, noise_t=None if self.level is None else t)

    def timesteps(self, steps: int, length: int, order: str | None = None) -> Float[Tensor, "steps_and_one"]:
        return steps_of_order(steps, length, order or self.order)

    def embed(self, state: State) -> Hidden:
        """w_x where known, lambda b + (1 - lambda) c_in y elsewhere, or b + gate c_in y.

        b tells of sigma where that has its own time.
        """
        sigma = self.sigma(state.u).to(self.embedding.weight.dtype)
        scale = gaussian.precondition(sigma, self.noise_power)
        mask = self.embedding.mask_vector()
        if self.level is not None:
            mask = mask + self.level(sigma.log())[:, None]
        seen = scale * self.space.hidden(state.noisy)
        seen = seen if self.vector_size is None else self.vector_size * seen
        noisy = torch.lerp(seen, mask, self.bias_weight) if self.gate is None else mask + self.gate * seen
        return torch.where(state.known[..., None], self.embedding.lookup(state.tokens), noisy)

    def time_input(self, state: State) -> Times:
        return -self.alpha(state.t).log()

    def loss(self, prediction: Prediction, state: State, x0: Tokens) -> PerToken:
        """-alpha'/(1 - alpha) * -log p(x0_i | z_t) where not known: 1/t for linear alpha, k/t for rho = t^k.

        The objective bound adds what the noise tells, of a noise that goes along with t as it does in training.
        """
        tokens = masked.weight(self.alpha(state.t), self.alpha.derivative(state.t)) * prediction.nll(x0)
        if self.objective == "tokens":
            return tokens
        return tokens + gaussian_part(self.space, self.sigma, prediction, x0, state.u).to(tokens)

    def step(
        self,
        state: State,
        predict: Predict,
        s: Times,
        rng: Rng,
        solver: str | None = None,
        inference: str | None = None,
        order: str | None = None,
        path: str | None = None,
    ) -> State:
        """Reveal some positions by drawing their token; move the others along the Gaussian process.

        Exact inference aims at E[x0 | z_t], approximate inference at one draw of it: the one that is revealed.

        In random order each position is revealed by chance. By confidence as many are, but those whose drawn token is
        likeliest: fewer mistakes, likelier tokens, and no exact draw of the distribution, however many the steps. By
        first-hitting, one position in each step, at its exact time.
        """
        if (order or self.order) == FIRST_HITTING:
            s, revealed = masked.first_hit(state.known, self.alpha, state.t, rng)
            if not bool(revealed.any()):  # all that was open before is known
                return dataclasses.replace(state, t=s)
        else:
            revealed = masked.reveal(state.known, self.alpha(state.t), self.alpha(s), rng)
        exact, surest = (inference or self.inference) == "exact", (order or self.order) == "confidence"
        if exact and not surest:
            chosen, others = (
                OpenPositions(revealed).prefetch_count(),
                OpenPositions(~(state.known | revealed)).prefetch_count(),
            )
            prediction = predict()
            drawn = prediction.at(chosen).draw(rng)
        else:
            others = OpenPositions(~state.known).prefetch_count()
            prediction = predict()
            drawn = prediction.at(others).draw(rng)
        if surest:
            revealed = top_count(-prediction.nll(drawn), ~state.known, revealed.sum(-1))
        known = state.known | revealed
        target = self.space.expect(prediction.at(others)) if exact else self.space.point(drawn)
        u = s if self.level is None else s ** PATHS[path or self.path]
        values = solver_step(state, prediction, target, u, self.space, self.sigma, solver or self.solver, rng)
        tokens = torch.where(revealed, drawn, state.tokens)
        return State(s, known, tokens, values, noise_t=None if self.level is None else u)

    def likelihood_bound(self, path: str | NoisePath | None = None, prior: str | None = None) -> Bound:
        """KL(q(y_1 | x0) || prior) + E_t sum_{i noisy} [weight * -log p(x0_i | z_t) + rate * |w_x0 - E[w | z_t]|^2]:

        the loss, and what the noise has told of the tokens. A `NoisePath` may also have another range of noise.
        """
        if isinstance(path, str) and path not in PATHS:
            raise unknown("path", path, PATHS)
        if isinstance(path, str) and "path" not in self.options:
            raise UserError(
                "This model knows one path of its noise; train with --candi.independent, or leave out --path."
            )
        along = path if isinstance(path, NoisePath) else NoisePath(PATHS[path or self.path])
        alpha, frequencies = Certain(self.alpha), self.token_frequencies(prior)

        def corrupt(x0: Tokens, t: Times, rng: Rng) -> State:
            return self._corrupt_at(x0, t, along(t), alpha, rng)

        def integrand(prediction: Prediction, state: State, x0: Tokens) -> Parts:
            rate = masked.weight(alpha(state.t), alpha.derivative(state.t))
            return {
                "tokens": rate * prediction.nll(x0),
                "gaussian": gaussian_part(self.space, self.sigma, prediction, x0, state.t, along),
            }

        def ends(denoise: Denoise, x0: Tokens, rng: Rng) -> Parts:
            return {"prior": prior_part(self.space, self.sigma, x0, along.last, rng, frequencies)}

        return Bound(corrupt, integrand, ends)

    def gaussian(self) -> tuple[Space, Schedule]:
        return self.space, self.sigma

    @property
    def recordable(self) -> bool:
        return self.space.recordable

    def invalidate_caches(self) -> None:
        self.space.invalidate_caches()

    def log_likelihood(self, state: State) -> LogProbs:
        noisy = self.space.log_density(state.noisy, self.sigma(state.u))
        return pin_known(state, noisy)

    def decode(self, state: State) -> Tokens:
        return torch.where(state.known, state.tokens, self.space.nearest(state.noisy, ~state.known))


@dataclass(frozen=True)
class CandiSettings(MethodSettings):
    """CANDI: masking decides which positions stay clean, Gaussian noise corrupts the rest.

    Args:
        space: Where the Gaussian noise lives; auto is embedding for a vocabulary larger than the width, else projected.
        rank_min: Rank degradation of corrupted positions at t = 0.
        rank_max: Rank degradation of corrupted positions at t = 1, below 0.5.
        bias_weight: lambda, the share of the mask vector in a noisy input; 1 is masked diffusion.
        gate: A learned factor on what is seen of the noise, in the place of lambda. It begins at 0, as masked
            diffusion.
        mask_power: k of the masking path rho = t^k: the share of corrupted positions at time t.
        independent: Train masking and noise at times of their own, so that the model can be sampled along any path.
        precondition: Scale of noisy inputs: exact gives them unit size, paper divides by sqrt(1 + sigma^2).
        solver: How noisy positions move in a sampling step.
        inference: Whether they aim at the mean prediction (exact) or at one draw of it (approximate).
        order: Which positions a sampling step reveals: any, or those that it is surest of.
        objective: What is learned: the tokens (the paper), or the whole bound on -log p(x0), which also counts what the
            noise tells.
        path: Of an independent model, whether noise goes with the masks (diagonal), earlier or later than they do.
    """

    space: Literal["auto", "onehot", "projected", "embedding"] = "auto"
    rank_min: float = 0.05
    rank_max: float = 0.25
    bias_weight: float = 0.5
    gate: bool = False
    mask_power: float = 1.0
    independent: bool = False
    precondition: Literal["exact", "paper"] = "exact"
    solver: Literal["ddim", "euler", "ancestral"] = "ddim"
    inference: Literal["exact", "approximate"] = "exact"
    order: Literal["random", "confidence", "first-hitting"] = "random"
    path: Literal["diagonal", "early", "late"] = "diagonal"
    objective: Literal["tokens", "bound"] = "tokens"

    def __post_init__(self) -> None:
        RankLinear(self.rank_min, self.rank_max)  # validates the range
        PowerAlpha(self.mask_power)
        if self.path != "diagonal" and not self.independent:
            raise UserError(f"The path {self.path!r} is for a model whose masking and noise are independent.")
        if not 0 <= self.bias_weight <= 1:
            raise UserError(f"The bias_weight must be in [0, 1], not {self.bias_weight}.")

    def started_from(self, source: MethodSettings) -> "CandiSettings":
        """From another method CANDI begins with its noise unseen: exactly where a masked model is."""
        return self if isinstance(source, CandiSettings) else dataclasses.replace(self, gate=True)

    def build(self, embedding: TokenEmbedding) -> CANDI:
        space = self.space
        if space == "auto":
            space = "embedding" if embedding.vocab_size > embedding.width else "projected"
        return CANDI(
            embedding,
            space=SPACES[space](embedding),
            sigma=RankLinear(self.rank_min, self.rank_max),
            alpha=LinearAlpha() if self.mask_power == 1 else PowerAlpha(self.mask_power),
            bias_weight=self.bias_weight,
            gate=self.gate,
            exact_scale=self.precondition == "exact",
            independent=self.independent,
            solver=self.solver,
            inference=self.inference,
            order=self.order,
            path=self.path,
            objective=self.objective,
        )
