"""What a method is: the arrows between tokens, states and predictions."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candi.codebook import Codebook
from candi.nets.prediction import Prediction
from candi.rng import Rng
from candi.schedules import Schedule, times
from candi.spaces import Space
from candi.state import State
from candi.types import Hidden, LogProbs, Mask, PerToken, Times, Tokens

Predict = Callable[[], Prediction]  # p(x0 | z_t) of the state at hand; the network runs when it is called


class Method(nn.Module, ABC):
    """Abstract or final, nothing in between. Trunk, training, sampling and evaluation never ask which one they hold."""

    bound: ClassVar[bool]  # is E[loss] >= -log p(x0)?
    unbounded: ClassVar[str] = ""  # if not, why
    causal: ClassVar[bool] = False  # may a position look only to its left?
    timed: ClassVar[bool] = True  # is the trunk told the time?
    shows: ClassVar[bool] = True  # does a state look like something where it is not known?
    leave_one_out: ClassVar[bool] = False  # is the prediction p(x0_i | z_t without position i)?
    own_steps: ClassVar[bool] = False  # does the method itself decide how many steps a walk takes?
    symbols: ClassVar[int | None] = None  # what states are made of beside tokens, if they are discrete: 1 for a mask
    options: Mapping[str, tuple[str, ...]] = {}  # keywords of `step` and the values they take

    def __init__(self, codebook: Codebook) -> None:
        super().__init__()
        self.codebook = codebook
        self.progress = 1.0  # share of the training that is done, for methods with a curriculum

    @abstractmethod
    def corrupt(self, x0: Tokens, t: Times, rng: Rng) -> State:
        """z_t ~ q(z_t | x0)."""

    @abstractmethod
    def prior(self, x0: Tokens, known: Mask, rng: Rng) -> State:
        """z_1, with the prompt x0[known] in place."""

    @abstractmethod
    def embed(self, state: State) -> Hidden:
        """What the trunk sees: the only place where methods differ in it."""

    def clock(self, state: State) -> Times:
        """What the trunk is told of the time, if the method is timed."""
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

    def shown(self, state: State) -> Tokens:
        """The symbols of a discrete state: tokens, and V for the mask."""
        raise NotImplementedError(f"{type(self).__name__} has no discrete states")

    def transition(self, state: State, prediction: Prediction, s: Times) -> LogProbs:
        """log p(z_s^i | z_t) over the symbols of a discrete state [B, L, S]."""
        raise NotImplementedError(f"{type(self).__name__} has no discrete states")

    def arrive(self, state: State, symbols: Tokens, s: Times) -> State:
        """z_s that shows these symbols."""
        raise NotImplementedError(f"{type(self).__name__} has no discrete states")

    def open_share(self, t: Times) -> Times:
        """The chance of a position to be open after `corrupt` to time t, each by itself."""
        return torch.ones_like(t)

    def gaussian(self) -> tuple[Space, Schedule] | None:
        """Where its Gaussian noise lives and how it grows, of a method that has some."""
        return None

    def weights_changed(self) -> None:
        """Forget what was computed from the weights."""

    def times(self, steps: int, length: int) -> Float[Tensor, "steps_and_one"]:
        """When the states of a walk are: 1 = t_0 > t_1 > ... = 0."""
        return times(steps)

    def boundary(self, denoise: Callable[[State], Prediction], x0: Tokens, rng: Rng) -> PerToken:
        """What the bound has beside the integral of `loss` over t: nats at t = 0 and t = 1."""
        return self.codebook.weight.new_zeros(x0.shape)


@runtime_checkable
class MethodSettings(Protocol):
    """The plain values that describe a method in a configuration, and how to build it from them."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def build(self, codebook: Codebook) -> Method: ...
