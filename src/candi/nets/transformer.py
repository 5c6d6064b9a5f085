"""The trunk: a diffusion transformer with rotary positions and adaLN."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from candi.errors import UserError
from candi.nets.layers import Block, Clock, Memory, modulate, rotary
from candi.types import Hidden, Times


@dataclass(frozen=True)
class TrunkSettings:
    """The transformer.

    Args:
        width: Hidden width D; also the dimension of the token vectors.
        blocks: Number of transformer blocks.
        heads: Attention heads; must divide the width.
        conditioning: Width of the time conditioning.
        dropout: Dropout on each residual branch.
        convolution: Positions in a short convolution before each attention; 0 is none, 7 helps short runs on text.
    """

    width: int = 256
    blocks: int = 6
    heads: int = 4
    conditioning: int = 128
    dropout: float = 0.0
    convolution: int = 0

    def __post_init__(self) -> None:
        if min(self.width, self.blocks, self.heads, self.conditioning) < 1:
            raise UserError("The model's width, blocks, heads and conditioning must all be at least 1.")
        if self.width % (2 * self.heads):
            raise UserError(
                f"The model's width {self.width} cannot be divided into {self.heads} heads of even size; "
                "choose a width that is a multiple of twice the heads."
            )
        if self.convolution < 0:
            raise UserError(f"The model's convolution must be 0 or more positions, not {self.convolution}.")
        if not 0 <= self.dropout < 1:
            raise UserError(f"The model's dropout must be in [0, 1), not {self.dropout}.")


class Transformer(nn.Module):
    """Unit vectors [B, L, D] and a clock [B] to features [B, L, D]."""

    def __init__(self, settings: TrunkSettings, causal: bool = False) -> None:
        super().__init__()
        self.settings = settings
        self.clock = Clock(settings.conditioning)
        self.blocks = nn.ModuleList(
            Block(
                settings.width,
                settings.heads,
                settings.conditioning,
                settings.dropout,
                settings.convolution,
                causal,
            )
            for _ in range(settings.blocks)
        )
        self.final = nn.Linear(settings.conditioning, 2 * settings.width)
        nn.init.zeros_(self.final.weight)
        nn.init.zeros_(self.final.bias)

    def memory(self) -> list[Memory]:
        """An empty memory for a causal walk."""
        return [Memory() for _ in self.blocks]

    def forward(
        self,
        hidden: Hidden,
        clock: Times,
        memory: list[Memory] | None = None,
        label: Float[Tensor, "B C"] | None = None,
    ) -> Hidden:
        """`label` is added to what the clock says."""
        width = self.settings.width
        read = memory[0].length if memory else 0
        # from here on in the precision of the branches: half of the memory in bf16
        kind = hidden.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else self.final.weight.dtype
        hidden = (hidden * width**0.5).to(dtype)  # unit vectors have coordinates of size D^-1/2; branches write size 1
        told = self.clock(clock) if label is None else self.clock(clock) + label
        conditioning = F.silu(told).to(dtype)
        angles = rotary(read + hidden.shape[1], width // self.settings.heads, hidden.device)[:, read:]
        for index, block in enumerate(self.blocks):
            hidden = block(hidden, conditioning, angles, memory[index] if memory else None)
        shift, scale = self.final(conditioning)[:, None].chunk(2, dim=-1)
        return modulate(hidden, shift, scale)


def parameter_count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
