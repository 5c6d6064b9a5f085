"""What a method is: the arrows between tokens, states and predictions."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from candi.base.errors import UserError, unknown
from candi.base.rng import Repeated, Rng
from candi.base.types import Hidden, LogProbs, Mask, PerToken, Rows, Times, Tokens
from candi.diffusion.bound import Bound, NoisePath
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.prediction import Prediction
from candi.diffusion.schedules import Schedule, timesteps
from candi.diffusion.spaces import Space
from candi.diffusion.state import State

Denoise = Callable[[State], Prediction]  # p(x0 | z_t)
Predict = Callable[[], Prediction]  # p(x0 | z_t) of the state at hand; the network runs when it is called


class Method(nn.Module, ABC):
    """Abstract or final, nothing in between. Trunk, training, sampling and evaluation never ask which one they hold."""

    bound: ClassVar[bool]  # is E[loss] >= -log p(x0)?
    why_no_bound: ClassVar[str] = ""  # if not, why
    causal: ClassVar[bool] = False  # may a position look only to its left?
    looks_back: ClassVar[int | None] = None  # if so, how many tokens before it its vector is made of; None: of any
    time_conditioned: bool = True  # does the trunk get the time?
    noise_is_visible: ClassVar[bool] = True  # does a state look like something where it is not known?
    frequencies: Tensor | None
    leave_one_out: ClassVar[bool] = False  # is the prediction p(x0_i | z_t without position i)?
    fixed_steps: ClassVar[bool] = False  # does the method itself decide how many steps sampling takes?
    extra_symbols: ClassVar[int | None] = None  # symbols of discrete states beside the tokens: 1 for a mask; else None
    # keywords of `step` and the values they take; `grid` is one of `timesteps`, `prior` of `prior`
    options: Mapping[str, tuple[str, ...]] = {}

    def __init__(self, embedding: TokenEmbedding) -> None:
        super().__init__()
        self.embedding = embedding
        self.progress = 1.0  # fraction of the training that is done, for methods with a curriculum
        # of tokens in the training data, [1, V] or one row a position: a prior that some methods can begin from
        self.register_buffer("frequencies", None)

    def _load_from_state_dict(self, state_dict: Mapping[str, Tensor], prefix: str, *rest: Any) -> None:
        """What is loaded decides whether there are frequencies, and how many rows of them."""
        found = state_dict.get(prefix + "frequencies")
        self.frequencies = None if found is None else self.embedding.weight.new_empty(found.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    @property
    def recordable(self) -> bool:
        """Whether a step of training does the same on every device and in every step, so that it can be replayed."""
        return True

    def check_training(self) -> None:
        """Refuse what can be sampled and not trained."""

    @abstractmethod
    def corrupt(self, x0: Tokens, t: Times, rng: Rng) -> State:
        """z_t ~ q(z_t | x0)."""

    @abstractmethod
    def prior(self, x0: Tokens, known: Mask, rng: Rng) -> State:
        """z_1, with the prompt x0[known] in place."""

    @abstractmethod
    def embed(self, state: State) -> Hidden:
        """What the trunk sees: the only place where methods differ in it."""

    def time_input(self, state: State) -> Times:
        """The number that the trunk is conditioned on, if the method is time-conditioned."""
        return state.t

    @abstractmethod
    def loss(self, prediction: Prediction, state: State, x0: Tokens) -> PerToken:
        """Nats at each position, such that the mean over t and positions is the objective."""

    @abstractmethod
    def step(self, state: State, predict: Predict, s: Times, rng: Rng) -> State:
        """z_s from z_t and p(x0 | z_t), s < t. Known tokens are never changed. `options` are further keywords."""

    @abstractmethod
    def log_likelihood(self, state: State) -> LogProbs:
        """log q(z_t^i | x0^i = v) for every v, up to a constant in v."""

    @abstractmethod
    def decode(self, state: State) -> Tokens:
        """The tokens of a state; where they are not known yet, what the state looks like."""

    def to_symbols(self, state: State) -> Tokens:
        """The symbols [B, L] of a discrete state: tokens, and V for the mask."""
        raise NotImplementedError(f"{type(self).__name__} has no discrete states")

    def transition(self, state: State, prediction: Prediction, s: Times) -> LogProbs:
        """log p(z_s^i | z_t) over the symbols of a discrete state [B, L, S]."""
        raise NotImplementedError(f"{type(self).__name__} has no discrete states")

    def from_symbols(self, state: State, symbols: Tokens, s: Times) -> State:
        """z_s that is made of these symbols."""
        raise NotImplementedError(f"{type(self).__name__} has no discrete states")

    def posterior(self, log_p: Rows, tokens: Int[Tensor, "N"], t: Float[Tensor, "N"]) -> Rows:
        """log p(x0_i | z_t) of what the network predicts at positions that show `tokens`: itself, or, where it leaves

        out its own position, with that put in.
        """
        return log_p

    def pair(self, x0: Tokens, t: Times, s: Times, rng: Rng) -> tuple[State, State]:
        """z_t and z_s that one draw of noise makes of the same data, s < t."""
        numbers = Repeated(rng)
        first = self.corrupt_on_path(x0, t, numbers)
        return first, self.corrupt_on_path(x0, s, numbers.again())

    def corrupt_on_path(self, x0: Tokens, t: Times, rng: Rng) -> State:
        """z_t as sampling meets it: `corrupt`, but for a method whose training sees more than one path."""
        return self.corrupt(x0, t, rng)

    def corrupted_fraction(self, t: Times) -> Times:
        """The probability that a position is open after `corrupt` to time t, independently of the others."""
        return torch.ones_like(t)

    def gaussian(self) -> tuple[Space, Schedule] | None:
        """Where its Gaussian noise lives and how it grows, of a method that has some."""
        return None

    def token_frequencies(self, prior: str | None) -> Float[Tensor, "P V"] | None:
        """What `gaussian_prior` draws its tokens from: None for the prior normal, which is the default."""
        if prior not in (None, "normal", "frequencies"):
            raise unknown("prior", prior, ("normal", "frequencies"))
        if prior != "frequencies":
            return None
        if self.frequencies is None:
            raise UserError(
                "This model does not know how frequent its tokens are (it was trained without counting them); sample "
                "it with the prior normal."
            )
        return self.frequencies

    def invalidate_caches(self) -> None:
        """Drop what was computed from the weights: they have changed."""

    def timesteps(self, steps: int, length: int) -> Float[Tensor, "steps_and_one"]:
        """The times of the states of a trajectory, 1 = t_0 > t_1 > ... = 0: the grid that is best for the method."""
        return timesteps(steps)

    def likelihood_bound(self, path: str | NoisePath | None = None, prior: str | None = None) -> Bound:
        """The bound on -log p(x0) of its ancestral process in many steps, along a path and from a prior if it has some.

        By default E[loss] with what stands at the ends.
        """
        if not self.bound:
            raise UserError(f"{type(self).__name__} has no likelihood bound: {self.why_no_bound}.")
        self._without(path=path, prior=prior)
        return Bound(
            self.corrupt,
            lambda prediction, state, x0: {"tokens": self.loss(prediction, state, x0)},
            lambda denoise, x0, rng: {"ends": self.endpoint_terms(denoise, x0, rng)},
        )

    def _without(self, **options: object) -> None:
        """Refuse options of a bound that this method has not."""
        given = next((name for name, value in options.items() if value is not None), None)
        if given is not None:
            raise UserError(f"The bound of {type(self).__name__} has no {given}; leave out --{given}.")

    def endpoint_terms(self, denoise: Callable[[State], Prediction], x0: Tokens, rng: Rng) -> PerToken:
        """What the bound has beside the integral of `loss` over t: nats at t = 0 and t = 1."""
        return self.embedding.weight.new_zeros(x0.shape)


class MethodSettings(ABC):
    """The plain values that describe a method in a configuration (a frozen dataclass), and how to build it."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    mask_vector: ClassVar[bool] = True  # does the method use the mask vector b? An unused weight has no gradient

    def started_from(self, source: "MethodSettings") -> "MethodSettings":
        """The settings of a run that starts from the weights of another method."""
        return self

    @abstractmethod
    def build(self, embedding: TokenEmbedding) -> Method:
        """The method around these token vectors, which it does not change."""
