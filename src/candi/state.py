"""The noisy sequence z_t."""

from dataclasses import dataclass

from candi.types import Mask, Times, Tokens, Values


@dataclass(frozen=True)
class State:
    """z_t, a batch of sequences somewhere between data (t = 0) and noise (t = 1).

    `known` marks positions that hold their final token: the prompt, and what has been revealed (the paper's M_t).
    `tokens` is only meaningful where `known`, unless the method is discrete; `values` only where not.
    """

    t: Times
    known: Mask
    tokens: Tokens
    values: Values | None = None
    given: Mask | None = None  # the prompt alone, for methods that take revealed tokens back
    noise_t: Times | None = None  # when noise and masking are not at the same time: that of the noise

    @property
    def u(self) -> Times:
        """The time of the noise."""
        return self.t if self.noise_t is None else self.noise_t

    @property
    def noisy(self) -> Values:
        """The values, of a method whose states carry them."""
        assert self.values is not None
        return self.values
