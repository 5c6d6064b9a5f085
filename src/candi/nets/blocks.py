"""Blocks: which positions see which, and what is kept of the blocks that are written.

log p(x) = sum_k log p(x^k | x^<k). To its method a block is a sequence of its own; only attention joins blocks. It
reads groups of b positions: copies of blocks that are open (noisy), then copies of blocks that are clean. An open block
sees itself and the clean blocks before it, a clean one sees the clean blocks up to itself.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from candi.nets.attention import attention


@dataclass(frozen=True)
class Pattern:
    """Groups of `size` positions: the blocks of these numbers, open, then those, clean."""

    size: int
    open: range
    clean: range

    @property
    def groups(self) -> int:
        return len(self.open) + len(self.clean)

    @property
    def positions(self) -> int:
        """In all groups."""
        return self.size * self.groups

    def places(self, device: torch.device) -> Int[Tensor, "G b"]:
        """Where in the sequence each position stands: both copies of a block stand in the same place."""
        return _numbers(self, device)[:, None] * self.size + torch.arange(self.size, device=device)

    def sees(self, device: torch.device) -> Bool[Tensor, "Q K"] | None:
        """Which of them sees which; None if all see all."""
        return None if self.groups == 1 else _sees(self, device)


def _numbers(pattern: Pattern, device: torch.device) -> Int[Tensor, "G"]:
    """Of the blocks; made on the device, so that a recorded step copies nothing from the host."""
    both = (pattern.open, pattern.clean)
    return torch.cat([torch.arange(some.start, some.stop, device=device) for some in both])


@lru_cache(maxsize=32)
def _sees(pattern: Pattern, device: torch.device) -> Bool[Tensor, "Q K"]:
    block = _numbers(pattern, device)
    clean = torch.arange(pattern.groups, device=device) >= len(pattern.open)
    q, k = block[:, None], block[None]
    behind = clean[None] & ((k < q) | (clean[:, None] & (k == q)))
    itself = ~clean[:, None] & ~clean[None] & (k == q)
    return (behind | itself).repeat_interleave(pattern.size, 0).repeat_interleave(pattern.size, 1)


def with_front(sees: Bool[Tensor, "Q K"], more: int) -> Bool[Tensor, "Q_more K_more"]:
    """The same with vectors in front, which all see, and which see themselves."""
    sees = F.pad(F.pad(sees, (more, 0), value=True), (0, 0, more, 0), value=False)
    sees[:more, :more] = True
    return sees


def flex_mask(pattern: Pattern, device: torch.device, more: int) -> Any:
    """The same for FlexAttention, which skips what is not seen."""
    from torch.nn.attention.flex_attention import create_block_mask

    sees = with_front(_sees(pattern, device), more)
    return create_block_mask(lambda b, h, q, k: sees[q, k], None, None, len(sees), len(sees), device=device)


@dataclass
class LayerMemory:
    """Of one layer: keys and values of the clean positions it has read, and the last inputs of its convolution."""

    keys: Tensor | None = None
    values: Tensor | None = None
    inputs: Tensor | None = None

    def select(self, rows: Int[Tensor, "N"]) -> "LayerMemory":
        """Of these rows of the batch."""
        return LayerMemory(*(_rows(kept, rows) for kept in (self.keys, self.values, self.inputs)))


def _rows(kept: Tensor | None, rows: Int[Tensor, "N"]) -> Tensor | None:
    return None if kept is None else kept.index_select(0, rows)


@dataclass
class Memory:
    """Of all layers. `last` is the feature of the last clean position, for networks that predict the next token."""

    layers: dict[int, LayerMemory] = field(default_factory=lambda: defaultdict(LayerMemory))
    last: Tensor | None = None
    blocks: int = 0  # that were read

    def select(self, rows: Int[Tensor, "N"]) -> None:
        """Go on with these rows of the batch."""
        for index, layer in self.layers.items():
            self.layers[index] = layer.select(rows)
        self.last = _rows(self.last, rows)


@dataclass(frozen=True, eq=False)
class Joined:
    """What a trunk gets beside vectors [B G, b, D], so that its attention reads the groups of a sequence as one.

    With a `memory` they come after what that has kept, and it keeps the clean ones.
    """

    pattern: Pattern
    memory: Memory | None = None
    masks: tuple[Any, ...] = ()  # FlexAttention's where it is compiled, without and with a vector in front

    def positions(self, count: int, device: torch.device) -> Int[Tensor, "G b"]:
        return self.pattern.places(device)

    def layer(self, index: int) -> "JoinedLayer":
        return JoinedLayer(self.pattern, None if self.memory is None else self.memory.layers[index], self.masks)

    def rows(self, groups: Tensor) -> Tensor:
        """[B G, ...] as [B, G, ...]."""
        return groups.unflatten(0, (-1, self.pattern.groups))


class JoinedLayer:
    """Of one layer of the trunk."""

    def __init__(self, pattern: Pattern, memory: LayerMemory | None, masks: tuple[Any, ...] = ()) -> None:
        self.pattern, self.memory, self.masks = pattern, memory, masks

    def attend(
        self, q: Float[Tensor, "N H b E"], k: Float[Tensor, "N H b E"], v: Float[Tensor, "N H b E"]
    ) -> Float[Tensor, "N H b E"]:
        """Attention within each group of `q`, and to what it sees of the others."""
        groups = self.pattern.groups
        if groups == 1:
            return self.attend_joined(q, k, v)
        q, k, v = (x.unflatten(0, (-1, groups)).transpose(1, 2).flatten(2, 3) for x in (q, k, v))
        mixed = self.attend_joined(q, k, v)
        return mixed.unflatten(2, (groups, -1)).transpose(1, 2).flatten(0, 1)

    def attend_joined(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B K Q E"], v: Float[Tensor, "B K Q E"]
    ) -> Float[Tensor, "B H Q E"]:
        """The same of groups that stand side by side, behind a vector in front if there is one more position."""
        more = q.shape[2] - self.pattern.positions
        if self.memory is None and self.masks and torch.compiler.is_compiling():
            from torch.nn.attention.flex_attention import flex_attention

            found: Tensor = flex_attention(q, k, v, block_mask=self.masks[more], enable_gqa=q.shape[1] != k.shape[1])  # type: ignore[assignment]
            return found
        sees = self.pattern.sees(q.device)
        if more:  # all see what stands in front, and it sees itself
            sees = (
                q.new_ones(self.pattern.positions, self.pattern.positions, dtype=torch.bool) if sees is None else sees
            )
            sees = with_front(sees, more)
        if self.memory is None:
            return attention(q, k, v, False, sees)
        kept, values = self.memory.keys, self.memory.values
        if kept is not None and values is not None:
            new = self._kept(k, v, more)
            sees = None if sees is None else F.pad(sees, (kept.shape[2], 0), value=True)
            k, v = torch.cat([kept, k], 2), torch.cat([values, v], 2)
            if new is not None:
                self.memory.keys, self.memory.values = torch.cat([kept, new[0]], 2), torch.cat([values, new[1]], 2)
        else:
            new = self._kept(k, v, more)
            if new is not None:
                self.memory.keys, self.memory.values = new
        return attention(q, k, v, False, sees)

    def _kept(self, k: Tensor, v: Tensor, more: int) -> tuple[Tensor, Tensor] | None:
        """What is kept of the new ones: what stands in front, and the clean groups."""
        start = more + self.pattern.size * len(self.pattern.open)
        if not more and start == k.shape[2]:
            return None
        if start == more:
            return k, v
        return tuple(torch.cat([x[:, :, :more], x[:, :, start:]], 2) for x in (k, v))  # type: ignore[return-value]

    def with_earlier(self, values: Float[Tensor, "N D b"], count: int) -> Float[Tensor, "N D more"]:
        """Inputs of a convolution behind the `count` clean ones before their block."""
        if not count:
            return values
        pattern = self.pattern
        groups = values.unflatten(0, (-1, pattern.groups))
        rows, width = len(groups), values.shape[1]
        clean = groups[:, len(pattern.open) :].permute(0, 2, 1, 3).reshape(rows, width, -1)
        kept = None if self.memory is None else self.memory.inputs
        stream = torch.cat([values.new_zeros(rows, width, count) if kept is None else kept, clean], 2)
        first = pattern.clean.start if len(pattern.clean) else pattern.open.start
        before = stream.unfold(2, count, pattern.size)  # [B, D, windows, count]: of the first block, of the next, ...
        earlier = before.index_select(2, _numbers(pattern, values.device) - first).permute(0, 2, 1, 3).flatten(0, 1)
        if self.memory is not None and len(pattern.clean):
            self.memory.inputs = stream[..., stream.shape[2] - count :]
        return torch.cat([earlier, values], 2)


@dataclass(frozen=True)
class Blocks:
    """Sequences [B, L] as blocks [B L/b, b]."""

    size: int

    def count(self, length: int) -> int:
        return length // self.size

    def split(self, values: Tensor) -> Tensor:
        """Each block as a sequence of its own, those of a sequence one after another."""
        return values.reshape(-1, self.size, *values.shape[2:])

    def side_by_side(self, length: int, device: torch.device, compiled: bool = False) -> Joined:
        """All blocks of sequences, open and clean."""
        every = range(self.count(length))
        pattern = Pattern(self.size, every, every)
        return _side_by_side(pattern, device, compiled)


@lru_cache(maxsize=8)
def _side_by_side(pattern: Pattern, device: torch.device, compiled: bool) -> Joined:
    flex = compiled and device.type == "cuda"
    return Joined(pattern, masks=tuple(flex_mask(pattern, device, more) for more in (0, 1)) if flex else ())
