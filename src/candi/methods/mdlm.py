"""MDLM: masked diffusion. A position shows its token or nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch

from candi.codebook import Codebook
from candi.errors import UserError
from candi.kernels import masked
from candi.methods.base import Method, Predict
from candi.nets.places import Places
from candi.nets.prediction import Prediction, luck
from candi.rng import Rng
from candi.sampling.steps import best, blind, entropy, entropy_bounded, remask_rate
from candi.schedules import LinearAlpha, Schedule
from candi.state import State
from candi.types import Hidden, LogProbs, Mask, PerToken, Times, Tokens

_REMASKING = "Remasking reveals in random order; choose the order random, or no remasking."


class MDLM(Method):
    """q(known) = Bernoulli(alpha(t)); nothing is seen where not known."""

    bound = True
    timed = False
    shows = False
    symbols = 1
    options: Mapping[str, tuple[str, ...]] = {"order": ("random", "confidence", "entropy"), "remask": ("off", "on")}

    def __init__(
        self,
        codebook: Codebook,
        *,
        alpha: Schedule | None = None,
        order: str = "random",
        entropy_bound: float = 0.1,
        remask: str = "off",
        most_remasked: float = 0.05,
    ) -> None:
        super().__init__(codebook)
        self.alpha = alpha or LinearAlpha(eps=0.0)  # no clock, so nothing is infinite at t = 1
        self.order, self.entropy_bound = order, entropy_bound
        self.remask, self.most_remasked = remask, most_remasked

    def corrupt(self, x0: Tokens, t: Times, rng: Rng) -> State:
        return State(t, masked.keep(self.alpha(t), x0.shape, rng), x0)

    def open_share(self, t: Times) -> Times:
        return 1 - self.alpha(t)

    def prior(self, x0: Tokens, known: Mask, rng: Rng) -> State:
        t = torch.ones(len(x0), device=x0.device, dtype=self.codebook.weight.dtype)
        return State(t, known, x0, given=known)

    def embed(self, state: State) -> Hidden:
        return torch.where(state.known[..., None], self.codebook.lookup(state.tokens), self.codebook.blank())

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
        without losing more than `entropy_bound` nats: more of them when the rest is clear, the order is exact.
        """
        if (remask or self.remask) == "on":
            if (order or self.order) != "random":
                raise UserError(_REMASKING)
            return self._remasking(state, predict, s, rng)
        chance = masked.reveal(state.known, self.alpha(state.t), self.alpha(s), rng)
        chance = chance | (~state.known & (s <= 0)[:, None])
        numbers = luck(state.known.shape, rng)
        order = order or self.order
        places = Places(~state.known if order == "entropy" else chance).counted()
        if not len(places):
            return State(s, state.known, state.tokens, given=state.given)
        prediction = predict()
        if order == "random":
            drawn, revealed = prediction.at(places).pick(numbers), chance
        elif order == "confidence":
            drawn = prediction.pick(numbers)
            revealed = best(-prediction.nll(drawn), ~state.known, chance.sum(-1))
        else:
            revealed = entropy_bounded(entropy(prediction), ~state.known, self.entropy_bound)
            revealed = revealed | (~state.known & (s <= 0)[:, None])
            drawn = prediction.at(revealed).pick(numbers)
        return State(s, state.known | revealed, drawn.where(revealed, state.tokens), given=state.given)

    def _remasking(self, state: State, predict: Predict, s: Times, rng: Rng) -> State:
        """ReMDM: revealed tokens are taken back with rate sigma, hidden ones revealed the more often for it,

        (alpha_s - (1 - sigma) alpha_t)/(1 - alpha_t), which leaves the marginals as they are. The prompt stays.
        """
        alpha_t, alpha_s = self.alpha(state.t), self.alpha(s)
        rate = remask_rate(alpha_t, alpha_s, self.most_remasked)
        reveal = (alpha_s - (1 - rate) * alpha_t) / (1 - alpha_t)
        chance, numbers = rng.uniform(*state.known.shape), luck(state.known.shape, rng)
        given = torch.zeros_like(state.known) if state.given is None else state.given
        taken_back = state.known & ~given & (chance < rate[:, None])
        revealed = ~state.known & (chance < reveal[:, None])
        tokens = state.tokens
        places = Places(revealed).counted()
        if len(places):
            tokens = predict().at(places).pick(numbers).where(revealed, tokens)
        return State(s, (state.known | revealed) & ~taken_back, tokens, given=state.given)

    def shown(self, state: State) -> Tokens:
        return state.tokens.masked_fill(~state.known, self.codebook.vocab_size)

    def transition(self, state: State, prediction: Prediction, s: Times) -> LogProbs:
        """(alpha_s - alpha_t)/(1 - alpha_t) p where not known, the rest on the mask."""
        return masked.transition(prediction.log_probs(), self.alpha(state.t), self.alpha(s).masked_fill(s <= 0, 1.0))

    def arrive(self, state: State, symbols: Tokens, s: Times) -> State:
        known = symbols < self.codebook.vocab_size
        return State(s, known, symbols.where(known, 0), given=state.given)

    def log_likelihood(self, state: State) -> LogProbs:
        return blind(state, self.codebook.vocab_size)

    def decode(self, state: State) -> Tokens:
        return state.tokens


@dataclass(frozen=True)
class MdlmSettings:
    """MDLM: masked diffusion, the discrete half of CANDI.

    Args:
        order: Which positions a sampling step reveals.
        entropy_bound: Nats that revealing several positions at once may lose, in the order by entropy.
        remask: Whether sampling takes revealed tokens back now and then (ReMDM).
        most_remasked: Largest share of them taken back in a step.
    """

    order: Literal["random", "confidence", "entropy"] = "random"
    entropy_bound: float = 0.1
    remask: Literal["off", "on"] = "off"
    most_remasked: float = 0.05

    def __post_init__(self) -> None:
        if self.entropy_bound < 0 or not 0 <= self.most_remasked <= 1:
            raise UserError("The entropy_bound must be at least 0 and most_remasked in [0, 1].")
        if self.remask == "on" and self.order != "random":
            raise UserError(_REMASKING)

    def build(self, codebook: Codebook) -> MDLM:
        return MDLM(
            codebook,
            order=self.order,
            entropy_bound=self.entropy_bound,
            remask=self.remask,
            most_remasked=self.most_remasked,
        )
