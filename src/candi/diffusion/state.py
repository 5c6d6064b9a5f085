"""The noisy sequence z_t."""

from dataclasses import dataclass, replace

from jaxtyping import Int
from torch import Tensor

from candi.base.types import Mask, Times, Tokens, Values


@dataclass(frozen=True)
class State:
    """z_t, a batch of sequences between data (t = 0) and noise (t = 1): all that a network may know, and nothing else.

    `known` marks positions that hold their final token: the prompt, and what has been revealed (the paper's M_t).
    `tokens` is 0 where nothing is known (see `hidden`); a method with discrete noise puts its noisy tokens there, a
    causal one the tokens that only positions to their right may see. `values` is only meaningful where not known.
    """

    t: Times
    known: Mask
    tokens: Tokens
    values: Values | None = None
    given: Mask | None = None  # the prompt alone, for methods that take revealed tokens back
    noise_t: Times | None = None  # the time of the noise, where it differs from that of the masks

    @property
    def u(self) -> Times:
        """The time of the noise."""
        return self.t if self.noise_t is None else self.noise_t

    @property
    def noisy(self) -> Values:
        """The values, of a method whose states carry them."""
        assert self.values is not None
        return self.values

    def cut(self, length: int) -> "State":
        """Of the first positions alone."""
        known, tokens = self.known[:, :length], self.tokens[:, :length]
        values, given = (None if x is None else x[:, :length] for x in (self.values, self.given))
        return replace(self, known=known, tokens=tokens, values=values, given=given)

    @property
    def next_position(self) -> int:
        """The position that comes next in a causal trajectory, where t = 1 - position / length."""
        return round((1 - float(self.t[0])) * self.known.shape[1])

    @property
    def next_positions(self) -> Int[Tensor, "B"]:
        """The same on the device, which need not be waited for."""
        return ((1 - self.t) * self.known.shape[1]).round().long()


def with_given(state: State, x0: Tokens, given: Mask) -> State:
    """The state in which these positions show their token, as a prompt does: whatever its method, it then looks as

    `prior` makes a prompt look.
    """
    values = state.values
    return replace(state, known=state.known | given, tokens=x0.where(given, state.tokens), values=values, given=given)


def hidden(tokens: Tokens, known: Mask) -> Tokens:
    """The tokens where they are known, 0 elsewhere: a state must not hold the answer."""
    return tokens.masked_fill(~known, 0)
