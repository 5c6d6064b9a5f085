"""The trunk of the library: a diffusion transformer (DiT) with rotary positions and adaLN."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from candi.base.errors import UserError
from candi.base.precision import working_dtype
from candi.base.types import Hidden, Times
from candi.diffusion.embeddings import TimestepEmbedder
from candi.nets.blocks import Joined
from candi.nets.dropout import dropout_seeds
from candi.nets.kv_cache import FixedKVCache, KVCache
from candi.nets.layers import Block, modulate, rotary
from candi.nets.trunk import Trunk, TrunkSettings


@dataclass(frozen=True)
class DiTSettings(TrunkSettings):
    """The transformer.

    Args:
        width: Hidden width D; also the dimension of the token vectors.
        blocks: Number of transformer blocks.
        heads: Attention heads; must divide the width.
        conditioning: Width of the time conditioning.
        dropout: Dropout on each residual branch.
        convolution: Positions in a short convolution before each attention; 0 is none, 7 helps short runs on text.
        input_scale: What unit vectors are multiplied by: sqrt_width gives coordinates of size 1, one is the paper's.
        time_waves: Frequencies of the embedded time: own, or the sinusoidal ones of most published networks.
    """

    width: int = 256
    blocks: int = 6
    heads: int = 4
    conditioning: int = 128
    dropout: float = 0.0
    convolution: int = 0
    input_scale: Literal["sqrt_width", "one"] = "sqrt_width"
    time_waves: Literal["own", "sinusoidal"] = "own"

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

    def build(self, causal: bool = False) -> "DiT":
        return DiT(self, causal)


class DiT(Trunk):
    """Unit vectors [B, L, D] and a time [B] to features [B, L, D]."""

    reads_blocks = True

    def __init__(self, settings: DiTSettings, causal: bool = False) -> None:
        super().__init__()
        self.settings, self.causal = settings, causal
        self.width, self.conditioning = settings.width, settings.conditioning
        self.input_scale = settings.width**0.5 if settings.input_scale == "sqrt_width" else 1.0
        self.timestep_embedder = TimestepEmbedder(settings.conditioning, sinusoidal=settings.time_waves == "sinusoidal")
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

    def forward(
        self,
        vectors: Hidden,
        time: Times,
        condition: Float[Tensor, "B C"] | None = None,
        cache: KVCache | FixedKVCache | Joined | None = None,
    ) -> Hidden:
        """adaLN is conditioned on the embedded time, plus the condition if there is one."""
        # from here on in the precision of the branches: half of the memory in bf16
        dtype = working_dtype(vectors.device, self.final.weight.dtype)
        # unit vectors have coordinates of size D^-1/2; branches write size 1
        hidden = (vectors * self.input_scale).to(dtype)
        embedded = self.timestep_embedder(time)
        conditioning = F.silu(embedded if condition is None else embedded + condition).to(dtype)
        length, device = hidden.shape[1], hidden.device
        positions = torch.arange(length, device=device) if cache is None else cache.positions(length, device)
        angles = rotary(positions, self.width // self.settings.heads)
        dropping = self.training and self.settings.dropout > 0
        seeds = dropout_seeds(2 * len(self.blocks), device).view(-1, 2, 2) if dropping else [None] * len(self.blocks)
        for index, block in enumerate(self.blocks):
            kept = None if cache is None else cache.layer(index)
            hidden = block(hidden, conditioning, angles, kept, seeds[index])
        shift, scale = self.final(conditioning)[:, None].chunk(2, dim=-1)
        return modulate(hidden, shift, scale)

    def new_cache(self) -> KVCache | None:
        return KVCache(len(self.blocks)) if self.causal else None

    @torch.no_grad()
    def ignore_time(self) -> None:
        last = self.timestep_embedder.mlp[-1]
        assert isinstance(last, nn.Linear)
        last.bias.copy_(self.timestep_embedder(last.bias.new_zeros(1))[0])
        last.weight.zero_()

    def sharding_units(self) -> Sequence[nn.Module]:
        return list(self.blocks)

    def rounded(self, dtype: torch.dtype) -> "DiT":
        rounded = copy.deepcopy(self).to(dtype)
        rounded.timestep_embedder = copy.deepcopy(self.timestep_embedder)  # its sines need float32
        return rounded
