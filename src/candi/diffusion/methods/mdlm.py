"""MDLM: masked diffusion. A position shows its token or nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.base.types import Hidden, LogProbs, Mask, PerToken, Times, Tokens
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.kernels import masked
from candi.diffusion.methods.base import Method, MethodSettings, Predict
from candi.diffusion.open_positions import OpenPositions
from candi.diffusion.prediction import Prediction, uniforms
from candi.diffusion.schedules import LinearAlpha, Schedule
from candi.diffusion.state import State, hidden
from candi.diffusion.steps import (
    FIRST_HITTING,
    entropy,
    entropy_bounded,
    flat_likelihood,
    remask_rate,
    steps_of_order,
    top_count,
)

_REMASKING = "Remasking reveals in random order; choose the order random, or no remasking."


class MDLM(Method):
    """q(known) = Bernoulli(alpha(t)); nothing is seen where not known."""

    bound = True
    time_conditioned = False
    noise_is_visible = False
    extra_symbols = 1
    options: Mapping[str, tuple[str, ...]] = {
        "order": ("random", "confidence", "entropy", FIRST_HITTING),
        "remask": ("off", "on"),
    }

    def __init__(
        self,
        embedding: TokenEmbedding,
        *,
        alpha: Schedule | None = None,
        order: str = "random",
        entropy_bound: float = 0.1,
        remask: str = "off",
        most_remasked: float = 0.05,
        clock: bool = False,
    ) -> None:
        super().__init__(embedding)
        self.time_conditioned = clock
        self.alpha = alpha or LinearAlpha(eps=1e-3 if clock else 0.0)  # without a clock nothing is infinite at t = 1
        self.order, self.entropy_bound = order, entropy_bound
        self.remask, self.most_remasked = remask, most_remasked

    def corrupt(self, x0: Tokens, t: Times, rng: Rng) -> State:
        known = masked.keep(self.alpha(t), x0.shape, rng)
        return State(t, known, hidden(x0, known))

    def corrupted_fraction(self, t: Times) -> Times:
        return 1 - self.alpha(t)

    def prior(self, x0: Tokens, known: Mask, rng: Rng) -> State:
        t = torch.ones(len(x0), device=x0.device, dtype=self.embedding.weight.dtype)
        return State(t, known, hidden(x0, known), given=known)

    def timesteps(self, steps: int, length: int, order: str | None = None) -> Float[Tensor, "steps_and_one"]:
        return steps_of_order(steps, length, order or self.order)

    def embed(self, state: State) -> Hidden:
        return torch.where(state.known[..., None], self.embedding.lookup(state.tokens), self.embedding.mask_vector())

    def time_input(self, state: State) -> Times:
        return -self.alpha(state.t).log()

    def loss(self, prediction: Prediction, state: State, x0: Tokens) -> PerToken:
        """1/t * -log p(x0_i | z_t) where not known, for linear alpha."""
        return masked.weight(self.alpha(state.t), self.alpha.derivative(state.t)) * prediction.nll(x0)

    def step(
        self,
        state: State,
        predict: Predict,
        s: Times,
        rng: Rng,
        order: str | None = None,
        remask: str | None = None,
    ) -> State:
        """Reveal some positions. The network does not run when none is.

        In random order each is revealed by chance. By confidence, as many are, but those whose drawn token is
        likeliest: this favours likely tokens. By entropy, those that are surest, as many as can be drawn at once
        without losing more than `entropy_bound` nats: more of them when the rest is clear, the order is exact. By
        first-hitting, one position in each step, at its exact time: nothing is lost to the size of steps.
        """
        if (remask or self.remask) == "on":
            if (order or self.order) != "random":
                raise UserError(_REMASKING)
            return self._remasking(state, predict, s, rng)
        order = order or self.order
        if order == FIRST_HITTING:
            s, chance = masked.first_hit(state.known, self.alpha, state.t, rng)
        else:
            chance = masked.reveal(state.known, self.alpha(state.t), self.alpha(s), rng)
            chance = chance | (~state.known & (s <= 0)[:, None])
        numbers = uniforms(state.known.shape, rng)
        positions = OpenPositions(~state.known if order == "entropy" else chance).prefetch_count()
        if not len(positions):
            return State(s, state.known, state.tokens, given=state.given)
        prediction = predict()
        if order in ("random", FIRST_HITTING):
            drawn, revealed = prediction.at(positions).draw_with(numbers), chance
        elif order == "confidence":
            drawn = prediction.draw_with(numbers)
            revealed = top_count(-prediction.nll(drawn), ~state.known, chance.sum(-1))
        else:
            revealed = entropy_bounded(entropy(prediction), ~state.known, self.entropy_bound)
            revealed = revealed | (~state.known & (s <= 0)[:, None])
            drawn = prediction.at(revealed).draw_with(numbers)
        return State(s, state.known | revealed, drawn.where(revealed, state.tokens), given=state.given)

    def _remasking(self, state: State, predict: Predict, s: Times, rng: Rng) -> State:
        """ReMDM: revealed tokens are taken back with rate sigma, hidden ones revealed the more often for it,

        (alpha_s - (1 - sigma) alpha_t)/(1 - alpha_t), which leaves the marginals as they are. The prompt stays.
        """
        alpha_t, alpha_s = self.alpha(state.t), self.alpha(s).masked_fill(s <= 0, 1.0)
        rate = remask_rate(alpha_t, alpha_s, self.most_remasked)
        reveal = (alpha_s - (1 - rate) * alpha_t) / (1 - alpha_t)
        chance, numbers = rng.uniform(*state.known.shape), uniforms(state.known.shape, rng)
        given = torch.zeros_like(state.known) if state.given is None else state.given
        taken_back = state.known & ~given & (chance < rate[:, None])
        revealed = ~state.known & (chance < reveal[:, None])
        tokens = state.tokens
        positions = OpenPositions(revealed).prefetch_count()
        if len(positions):
            tokens = predict().at(positions).draw_with(numbers).where(revealed, tokens)
        known = (state.known | revealed) & ~taken_back
        return State(s, known, hidden(tokens, known), given=state.given)

    def to_symbols(self, state: State) -> Tokens:
        return state.tokens.masked_fill(~state.known, self.embedding.vocab_size)

    def transition(self, state: State, prediction: Prediction, s: Times) -> LogProbs:
        """(alpha_s - alpha_t)/(1 - alpha_t) p where not known, the rest on the mask."""
        return masked.transition(prediction.log_probs(), self.alpha(state.t), self.alpha(s).masked_fill(s <= 0, 1.0))

    def from_symbols(self, state: State, symbols: Tokens, s: Times) -> State:
        known = symbols < self.embedding.vocab_size
        return State(s, known, symbols.where(known, 0), given=state.given)

    def log_likelihood(self, state: State) -> LogProbs:
        return flat_likelihood(state, self.embedding.vocab_size)

    def decode(self, state: State) -> Tokens:
        return state.tokens


@dataclass(frozen=True)
class MdlmSettings(MethodSettings):
    """MDLM: masked diffusion, the discrete half of CANDI.

    Args:
        order: Which positions a sampling step reveals.
        entropy_bound: Nats that revealing several positions at once may lose, in the order by entropy.
        remask: Whether sampling takes revealed tokens back now and then (ReMDM).
        most_remasked: Largest share of them taken back in a step.
        clock: Whether the network is told the time; the posterior of masked diffusion does not depend on it.
    """

    order: Literal["random", "confidence", "entropy", "first-hitting"] = "random"
    entropy_bound: float = 0.1
    remask: Literal["off", "on"] = "off"
    most_remasked: float = 0.05
    clock: bool = False

    def __post_init__(self) -> None:
        if self.entropy_bound < 0 or not 0 <= self.most_remasked <= 1:
            raise UserError("The entropy_bound must be at least 0 and most_remasked in [0, 1].")
        if self.remask == "on" and self.order != "random":
            raise UserError(_REMASKING)

    def build(self, embedding: TokenEmbedding) -> MDLM:
        return MDLM(
            embedding,
            order=self.order,
            entropy_bound=self.entropy_bound,
            remask=self.remask,
            most_remasked=self.most_remasked,
            clock=self.clock,
        )
