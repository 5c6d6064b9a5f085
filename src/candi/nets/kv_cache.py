"""What a causal transformer keeps of the positions it has read: it need not read them again."""

import importlib.util
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from candi.nets.attention import attention

_TRITON = importlib.util.find_spec("triton") is not None


@runtime_checkable
class BlockCache(Protocol):
    """Of one block: keys, values, and the inputs of its convolution."""

    def attend(
        self, q: Float[Tensor, "B H L E"], k: Float[Tensor, "B H L E"], v: Float[Tensor, "B H L E"]
    ) -> Float[Tensor, "B H L E"]:
        """Causal attention of the new positions over all that was read and themselves, which are kept."""

    def with_earlier(self, values: Float[Tensor, "B D L"], count: int) -> Float[Tensor, "B D more"]:
        """Inputs of a convolution, which are kept, behind the `count` before them."""


class GrowingBlockCache:
    """Takes any number of positions at once."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self.inputs: Tensor | None = None

    @property
    def length(self) -> int:
        return 0 if self.keys is None else self.keys.shape[2]

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.keys = k if self.keys is None else torch.cat([self.keys, k], dim=2)
        self.values = v if self.values is None else torch.cat([self.values, v], dim=2)
        return attention(q, self.keys, self.values, causal=True)

    def with_earlier(self, values: Tensor, count: int) -> Tensor:
        self.inputs = F.pad(values, (count, 0)) if self.inputs is None else torch.cat([self.inputs, values], 2)
        return self.inputs[..., self.inputs.shape[2] - values.shape[2] - count :]


class FixedBlockCache:
    """Room for all positions, filled one at a time: no shape and no address ever changes, so a CUDA graph can hold it.

    `position` is where the new one stands, a number on the device.
    """

    def __init__(self, read: GrowingBlockCache, size: int, position: Int[Tensor, "1"]) -> None:
        assert read.keys is not None
        assert read.values is not None
        room = size - read.length
        self.keys, self.values = (F.pad(kept, (0, 0, 0, room)).contiguous() for kept in (read.keys, read.values))
        self.inputs = None if read.inputs is None else F.pad(read.inputs, (0, room))
        self.position = position

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.keys.index_copy_(2, self.position, k.to(self.keys.dtype))
        self.values.index_copy_(2, self.position, v.to(self.values.dtype))
        if q.is_cuda and _TRITON:
            from candi.nets.triton.attention import attend_last

            return attend_last(q, self.keys, self.values, self.position)
        seen = torch.arange(self.keys.shape[2], device=q.device) <= self.position
        return attention(q, self.keys, self.values, False, seen[None])

    def with_earlier(self, values: Tensor, count: int) -> Tensor:
        assert self.inputs is not None
        self.inputs.index_copy_(2, self.position + count, values)
        return self.inputs.index_select(2, self.position + torch.arange(count + 1, device=values.device))


class KVCache:
    """Of all blocks, as long as what was read."""

    def __init__(self, blocks: int) -> None:
        self.blocks = [GrowingBlockCache() for _ in range(blocks)]

    @property
    def length(self) -> int:
        return self.blocks[0].length

    def positions(self, count: int, device: torch.device) -> Int[Tensor, "L"]:
        """The next positions."""
        return torch.arange(self.length, self.length + count, device=device)

    def layer(self, index: int) -> GrowingBlockCache:
        return self.blocks[index]

    def fixed(self, size: int) -> "FixedKVCache":
        return FixedKVCache(self, size)


class FixedKVCache:
    """Of all blocks, with room for `size` positions."""

    def __init__(self, read: KVCache, size: int) -> None:
        keys = read.blocks[0].keys
        assert keys is not None
        self.position = torch.full((1,), read.length, device=keys.device)
        self.blocks = [FixedBlockCache(block, size, self.position) for block in read.blocks]

    def layer(self, index: int) -> FixedBlockCache:
        return self.blocks[index]

    def positions(self, count: int, device: torch.device) -> Int[Tensor, "1"]:
        return self.position
