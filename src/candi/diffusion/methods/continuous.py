"""Continuous diffusion of tokens: Gaussian noise on every position, and no mask. See `onehot.py` and `embedding.py`."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.base.types import Hidden, LogProbs, Mask, PerToken, Times, Tokens
from candi.diffusion.bound import Bound, NoisePath, Parts, gaussian_part, prior_part
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.identifiability.uniform import UniformOfGaussian
from candi.diffusion.kernels import gaussian
from candi.diffusion.methods.base import Denoise, Method, Predict
from candi.diffusion.prediction import Prediction
from candi.diffusion.schedules import Schedule, even_in, timesteps
from candi.diffusion.solvers import SOLVERS
from candi.diffusion.spaces import Space
from candi.diffusion.state import State, hidden
from candi.diffusion.steps import PRIORS, gaussian_prior, pin_known, solver_step


class Continuous(Method):
    """x~ = point(x0) + sigma(t) noise everywhere; the tokens are read off the last prediction."""

    bound = False
    why_no_bound = "its loss is an unweighted cross-entropy, not the integral of its bound"
    options: Mapping[str, tuple[str, ...]] = {
        "solver": tuple(SOLVERS),
        "inference": ("exact", "approximate"),
        "grid": ("alpha", "time"),
        "prior": PRIORS,
    }

    def __init__(
        self,
        embedding: TokenEmbedding,
        *,
        space: Space,
        sigma: Schedule,
        exact_scale: bool = True,
        solver: str = "ddim",
        inference: str = "exact",
        grid: str = "time",
    ) -> None:
        super().__init__(embedding)
        if not embedding.unit:
            raise UserError(
                "Gaussian noise without a mask needs token vectors of length 1; train candi, say, from them."
            )
        self.space, self.sigma = space, sigma
        self.noise_power = space.power if exact_scale else 1.0
        self.solver, self.inference, self.grid = solver, inference, grid

    def corrupt(self, x0: Tokens, t: Times, rng: Rng) -> State:
        noise = self.space.noise(x0.shape, rng)
        values = gaussian.corrupt(self.space.point(x0), self.sigma(t), noise)
        nothing = torch.zeros_like(x0, dtype=torch.bool)
        return State(t, nothing, hidden(x0, nothing), values)

    def prior(self, x0: Tokens, known: Mask, rng: Rng, prior: str | None = None) -> State:
        t = torch.ones(len(x0), device=x0.device, dtype=self.embedding.weight.dtype)
        values = gaussian_prior(self.space, self.sigma(t), known.shape, rng, self.token_frequencies(prior))
        return State(t, known, hidden(x0, known), values)

    def timesteps(self, steps: int, length: int, grid: str | None = None) -> Float[Tensor, "steps_and_one"]:
        """Even steps of t, or of alpha: how much the argmax of a noisy one-hot vector keeps of its token."""
        if (grid or self.grid) == "time":
            return timesteps(steps)
        return even_in(UniformOfGaussian(self.embedding.vocab_size, self.sigma), steps)

    def embed(self, state: State) -> Hidden:
        """c_in y, and w_x in the place of a prompt."""
        sigma = self.sigma(state.t).to(self.embedding.weight.dtype)
        noisy = gaussian.precondition(sigma, self.noise_power) * self.space.hidden(state.noisy)
        return torch.where(state.known[..., None], self.embedding.lookup(state.tokens), noisy)

    def time_input(self, state: State) -> Times:
        return self.sigma(state.t).log()

    def loss(self, prediction: Prediction, state: State, x0: Tokens) -> PerToken:
        return prediction.nll(x0)

    def step(
        self,
        state: State,
        predict: Predict,
        s: Times,
        rng: Rng,
        solver: str | None = None,
        inference: str | None = None,
    ) -> State:
        """Along the Gaussian process towards E[x0 | z_t] or a draw of it; at s = 0 the draw itself is the end."""
        prediction = predict()
        drawn = prediction.draw(rng)
        exact = (inference or self.inference) == "exact"
        target = self.space.expect(prediction) if exact else self.space.point(drawn)
        values = solver_step(state, prediction, target, s, self.space, self.sigma, solver or self.solver, rng)
        known = state.known | (s <= 0)[:, None]
        return State(s, known, hidden(state.tokens.where(state.known, drawn), known), values)

    def likelihood_bound(self, path: str | NoisePath | None = None, prior: str | None = None) -> Bound:
        """KL(q(y_1 | x0) || prior) + E_t sum_i -1/2 dsigma^-2/dt |w - E[w | z_t]|^2 - E log p(x0 | z_0)."""
        self._without(path=path)
        frequencies = self.token_frequencies(prior)

        def integrand(prediction: Prediction, state: State, x0: Tokens) -> Parts:
            return {"gaussian": gaussian_part(self.space, self.sigma, prediction, x0, state.t)}

        def ends(denoise: Denoise, x0: Tokens, rng: Rng) -> Parts:
            start = torch.zeros(len(x0), device=x0.device, dtype=torch.float64)
            return {
                "prior": prior_part(self.space, self.sigma, x0, 1.0, rng, frequencies),
                "last draw": denoise(self.corrupt(x0, start, rng)).nll(x0),
            }

        return Bound(self.corrupt, integrand, ends)

    def gaussian(self) -> tuple[Space, Schedule]:
        return self.space, self.sigma

    @property
    def recordable(self) -> bool:
        return self.space.recordable

    def invalidate_caches(self) -> None:
        self.space.invalidate_caches()

    def log_likelihood(self, state: State) -> LogProbs:
        noisy = self.space.log_density(state.noisy, self.sigma(state.t))
        return pin_known(state, noisy)

    def decode(self, state: State) -> Tokens:
        return torch.where(state.known, state.tokens, self.space.nearest(state.noisy, ~state.known))
