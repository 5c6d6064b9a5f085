"""What a trunk is: the network between a method's vectors and the head."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from candi.base.types import Hidden, Times


@runtime_checkable
class Cache(Protocol):
    """What a causal trunk keeps of the positions it has read."""

    @property
    def length(self) -> int:
        """How many positions it has read."""

    def fixed(self, size: int) -> "FixedCache | None":
        """The same with room for `size` positions, whose tensors stay where they are; None if there is no such form."""


@runtime_checkable
class FixedCache(Protocol):
    """A cache that takes one position at a time, at `position`, which the device knows."""

    position: Int[Tensor, "1"]


class Trunk(nn.Module, ABC):
    """Vectors [B, L, D] and a time [B] to features [B, L, D].

    What it declares here is all that anything else may know of it.
    """

    width: int  # D
    causal: bool = False  # does a position see only itself and those to its left?
    reads_blocks: bool = False  # can its attention read blocks, given a `Joined` for a cache (see `blocks.py`)?
    conditioning: int = 0  # C, the width of the condition that it takes beside the time, such as a label; 0 for none

    @abstractmethod
    def forward(
        self,
        vectors: Hidden,
        time: Times,
        condition: Float[Tensor, "B C"] | None = None,
        cache: Any = None,
    ) -> Hidden:
        """The features. With a `cache` the vectors are the positions after those that the cache has read."""

    def new_cache(self) -> Cache | None:
        """An empty cache for one causal trajectory; None if the trunk keeps none."""
        return None

    def ignore_time(self) -> None:
        """Begin as if the time were always 0, which a trunk that was never told of it has learned with."""

    def sharding_units(self) -> Sequence[nn.Module]:
        """The parts that FSDP gathers one after another; none: the whole at once."""
        return ()

    def rounded(self, dtype: torch.dtype) -> "Trunk":
        """A copy for sampling, with its weights in another precision if it can take inputs of any."""
        return copy.deepcopy(self)


class TrunkSettings(ABC):
    """The plain values that describe a trunk in a configuration (a frozen dataclass), and how to build it from them."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    width: int

    def started_from(self, causal: bool, time_conditioned: bool) -> "TrunkSettings":
        """The settings of a trunk that starts from the weights of one of these.

        `causal`: that one was causal and the new one is not; `time_conditioned`: the new one is told the time.
        """
        return self

    @abstractmethod
    def build(self, causal: bool) -> Trunk: ...


def parameter_count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
