"""DUO: uniform diffusion as the argmax of a Gaussian one, with the curriculum that this duality allows."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candi.base.errors import UserError
from candi.base.rng import Repeated, Rng
from candi.base.types import Hidden, LogProbs, Mask, PerToken, Rows, Times, Tokens, Values
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.identifiability.closed_form import survival
from candi.diffusion.identifiability.uniform import UniformOfGaussian
from candi.diffusion.kernels import uniform
from candi.diffusion.methods.base import Method, MethodSettings, Predict
from candi.diffusion.methods.udlm import uniform_endpoint_terms
from candi.diffusion.prediction import Prediction
from candi.diffusion.schedules import Geometric, LinearAlpha, Schedule, even_in, timesteps
from candi.diffusion.state import State
from candi.diffusion.steps import pin_known


@lru_cache(maxsize=8)
def sigma_range(vocab_size: int, start: float = 0.999, end: float = 0.001) -> Geometric:
    """The noise between which alpha falls from `start` to `end`, by bisection in log sigma."""

    def sigma_of(alpha: float) -> float:
        kept = (alpha * (vocab_size - 1) + 1) / vocab_size
        low, high = -6.0, 12.0
        for _ in range(80):
            middle = (low + high) / 2
            enough = (
                float(survival(torch.tensor([math.exp(middle)], dtype=torch.float64, device="cpu"), vocab_size)) > kept
            )
            low, high = (middle, high) if enough else (low, middle)
        return math.exp(low)

    return Geometric(sigma_of(start), sigma_of(end))


class DUO(Method):
    """UDLM whose alpha comes from the Gaussian underneath. Early in training the network sees softmax(w_t/tau) W, w_t

    the noisy one-hot vector; tau falls to 0, where that is the argmax, over the share `curriculum` of the training.
    """

    bound = True
    leave_one_out = True
    extra_symbols = 0
    options: Mapping[str, tuple[str, ...]] = {"sampler": ("ancestral", "greedy"), "grid": ("alpha", "time")}

    def __init__(
        self,
        embedding: TokenEmbedding,
        *,
        sigma: Geometric | None = None,
        alpha: Schedule | None = None,
        curriculum: float = 0.5,
        softness: float = 0.1,
        candidates: int = 64,
        sampler: str = "ancestral",
        grid: str = "alpha",
    ) -> None:
        super().__init__(embedding)
        self.sigma = sigma or sigma_range(embedding.vocab_size)
        self.alpha: Schedule = alpha or UniformOfGaussian(embedding.vocab_size, self.sigma)
        self.curriculum, self.softness, self.candidates = curriculum, softness, candidates
        self.sampler, self.grid = sampler, grid

    @property
    def recordable(self) -> bool:
        return self.curriculum == 0  # else what the network sees depends on `progress`

    def corrupt(self, x0: Tokens, t: Times, rng: Rng) -> State:
        nothing = torch.zeros_like(x0, dtype=torch.bool)
        temperature = self._temperature()
        if temperature is None:
            return State(t, nothing, uniform.corrupt(x0, self.alpha(t), self.embedding.vocab_size, rng))
        ids, scores, cut = self._largest(x0, t, rng)
        winner = ids.gather(-1, scores.argmax(-1, keepdim=True))[..., 0]
        sharp = scores / temperature
        if cut is None:
            return State(t, nothing, winner, self.embedding.mixture(ids, self._like(torch.softmax(sharp, -1))))
        # the entries left out are many and small: their expected weight, on the mean token vector
        left_out = self.embedding.vocab_size - ids.shape[-1]
        spread = (self.sigma(t.double()) / temperature)[:, None]
        mass = spread.square() / 2 + torch.special.log_ndtr(cut - spread) - torch.special.log_ndtr(cut)
        weights = self._like(torch.softmax(torch.cat([sharp, (mass + math.log(left_out))[..., None]], -1), -1))
        rest = weights[..., -1:] * self.embedding.rows().mean(0)
        return State(t, nothing, winner, self.embedding.mixture(ids, weights[..., :-1]) + rest)

    def _like(self, weights: Tensor) -> Tensor:
        return weights.to(self.embedding.weight.dtype)

    def _temperature(self) -> float | None:
        """tau, or None once it has reached 0. Only training sees the curriculum."""
        left = 1 - self.progress / self.curriculum if self.curriculum > 0 else 0.0
        return self.softness * left if self.training and left > 0 else None

    def _largest(self, x0: Tokens, t: Times, rng: Rng) -> tuple[Tensor, Values, PerToken | None]:
        """Tokens and entries of the noisy one-hot: that of x0 and the largest others, without the V - 1 others.

        The largest of n uniforms is u^(1/n), the next smaller by a factor u^(1/(n-1)), and so on; Phi^-1 makes them
        normal, and the last is the cut below which the others lie. Which tokens they belong to is chance (drawn with
        replacement: at V > 16 K a token rarely comes twice). For smaller V all entries are held, and there is no cut.
        """
        size, count = self.embedding.vocab_size, self.candidates
        sigma = self.sigma(t.double())[:, None, None]
        own = 1 + sigma * rng.normal(*x0.shape, 1, dtype=torch.float64)
        if size <= 16 * count:
            entries = sigma * rng.normal(*x0.shape, size, dtype=torch.float64)
            ids = torch.arange(size, device=x0.device).expand(*x0.shape, size)
            return ids, entries.scatter(-1, x0[..., None], own), None
        left = torch.arange(size - 1, size - 1 - count, -1, device=x0.device, dtype=torch.float64)
        log_uniform = rng.uniform(*x0.shape, count, dtype=torch.float64).clamp(min=1e-300).log()
        # 1 - 2^-53 is the largest uniform below 1
        noise = torch.special.ndtri((log_uniform / left).cumsum(-1).exp().clamp(max=1 - 2**-53))
        others = rng.integers(*x0.shape, count, below=size - 1)
        others = others + (others >= x0[..., None])  # any token but x0
        return torch.cat([x0[..., None], others], -1), torch.cat([own, sigma * noise], -1), noise[..., -1]

    def prior(self, x0: Tokens, known: Mask, rng: Rng) -> State:
        t = torch.ones(len(x0), device=x0.device, dtype=self.embedding.weight.dtype)
        return State(t, known, x0.where(known, rng.integers(*x0.shape, below=self.embedding.vocab_size)))

    def timesteps(self, steps: int, length: int, grid: str | None = None) -> Float[Tensor, "steps_and_one"]:
        """Even steps of alpha: of even steps of t, which are even in log-SNR, most would lie in pure noise."""
        return even_in(self.alpha, steps) if (grid or self.grid) == "alpha" else timesteps(steps)

    def embed(self, state: State) -> Hidden:
        sharp = self.embedding.lookup(state.tokens)
        return sharp if state.values is None else torch.where(state.known[..., None], sharp, state.values)

    def time_input(self, state: State) -> Times:
        return -self.alpha(state.t).log()

    def loss(self, prediction: Prediction, state: State, x0: Tokens) -> PerToken:
        alpha, slope = (f(state.t)[:, None].expand(x0.shape) for f in (self.alpha, self.alpha.derivative))
        return prediction.reduce(uniform.nelbo, x0, state.tokens, alpha, slope)

    def step(self, state: State, predict: Predict, s: Times, rng: Rng, sampler: str | None = None) -> State:
        """Ancestral; with a greedy tail the last step takes the likeliest tokens."""
        prediction = predict()
        here = (-prediction.nll(state.tokens)).exp()
        drawn = prediction.draw(rng)
        # alpha(0) is a little below 1, but the end is x0 itself: a draw of p(x0 | z_t)
        alpha_s = self.alpha(s).masked_fill(s <= 0, 1.0)
        tokens = uniform.step(state.tokens, drawn, here, self.alpha(state.t), alpha_s, self.embedding.vocab_size, rng)
        ended = (s <= 0)[:, None]
        if (sampler or self.sampler) == "greedy" and bool(ended.any()):
            tokens = self._likeliest(state, prediction, here).where(ended, tokens)
        return State(s, state.known | ended, state.tokens.where(state.known, tokens))

    def _likeliest(self, state: State, prediction: Prediction, here: PerToken) -> Tokens:
        """argmax_v p(x0 = v | z_t) ~ p_v (V alpha 1[v = z] + 1 - alpha): the best token of p, or staying at z."""
        mode = prediction.mode()
        a = self.alpha(state.t)[:, None]
        stay = here * (self.embedding.vocab_size * a + 1 - a) >= (-prediction.nll(mode)).exp() * (1 - a)
        return state.tokens.where(stay, mode)

    def posterior(self, log_p: Rows, tokens: Int[Tensor, "N"], t: Float[Tensor, "N"]) -> Rows:
        return uniform.with_own(log_p, tokens, self.alpha(t))

    def pair(self, x0: Tokens, t: Times, s: Times, rng: Rng) -> tuple[State, State]:
        """The argmax at both times of one noisy one-hot vector, whose noise grows: discrete consistency."""
        if not isinstance(self.alpha, UniformOfGaussian):  # no Gaussian is underneath
            return super().pair(x0, t, s, rng)
        numbers, nothing = Repeated(rng), torch.zeros_like(x0, dtype=torch.bool)
        found = []
        for time, some in (t, numbers), (s, numbers.again()):
            ids, scores, _ = self._largest(x0, time, some)
            found.append(State(time, nothing, ids.gather(-1, scores.argmax(-1, keepdim=True))[..., 0]))
        return found[0], found[1]

    def to_symbols(self, state: State) -> Tokens:
        return state.tokens

    def transition(self, state: State, prediction: Prediction, s: Times) -> LogProbs:
        alphas = self.alpha(state.t), self.alpha(s).masked_fill(s <= 0, 1.0)
        return uniform.transition(state.tokens, prediction.log_probs(), *alphas)

    def from_symbols(self, state: State, symbols: Tokens, s: Times) -> State:
        return State(s, state.known | (s <= 0)[:, None], symbols)

    def log_likelihood(self, state: State) -> LogProbs:
        noisy = uniform.log_likelihood(state.tokens, self.alpha(state.t), self.embedding.vocab_size)
        return pin_known(state, noisy)

    def decode(self, state: State) -> Tokens:
        return state.tokens

    def endpoint_terms(self, denoise: Callable[[State], Prediction], x0: Tokens, rng: Rng) -> PerToken:
        return uniform_endpoint_terms(self, self.alpha, denoise, x0, rng)


@dataclass(frozen=True)
class DuoSettings(MethodSettings):
    """DUO: uniform diffusion from the Gaussian underneath, with a curriculum.

    Args:
        schedule: alpha of the Gaussian underneath, or linear in t: how published networks are evaluated and sampled.
        log_snr_max: Log signal-to-noise ratio of the Gaussian at t = 0; by default the one at which alpha is 0.999.
        log_snr_min: The same at t = 1; by default the one at which alpha is 0.001.
        curriculum: Share of the training in which inputs are soft.
        softness: Their temperature at the beginning.
        candidates: Tokens that a soft input is made of.
        sampler: ancestral, or greedy for the likeliest tokens in the last step.
        grid: Whether sampling takes even steps of alpha or of time, which is log-SNR.
    """

    mask_vector: ClassVar[bool] = False
    schedule: Literal["gaussian", "linear"] = "gaussian"
    log_snr_max: float | None = None
    log_snr_min: float | None = None
    curriculum: float = 0.5
    softness: float = 0.1
    candidates: int = 64
    sampler: Literal["ancestral", "greedy"] = "ancestral"
    grid: Literal["alpha", "time"] = "alpha"

    def __post_init__(self) -> None:
        if not 0 <= self.curriculum <= 1 or self.softness <= 0 or self.candidates < 1:
            raise UserError("DUO needs a curriculum in [0, 1], a softness above 0 and at least 1 candidate.")
        if self.schedule == "linear" and self.curriculum:
            raise UserError("DUO's curriculum needs the Gaussian underneath: with a linear schedule set it to 0.")

    def build(self, embedding: TokenEmbedding) -> DUO:
        if embedding.vocab_size < 2:
            raise UserError("DUO needs a vocabulary of at least 2 tokens; the text has only 1.")
        auto = sigma_range(embedding.vocab_size)
        # log SNR = -2 log sigma, linear in t where sigma is geometric
        low, high = (
            default if given is None else math.exp(-given / 2)
            for given, default in ((self.log_snr_max, auto.low), (self.log_snr_min, auto.high))
        )
        return DUO(
            embedding,
            sigma=Geometric(low, high),
            alpha=LinearAlpha() if self.schedule == "linear" else None,
            curriculum=self.curriculum,
            softness=self.softness,
            candidates=self.candidates,
            sampler=self.sampler,
            grid=self.grid,
        )
