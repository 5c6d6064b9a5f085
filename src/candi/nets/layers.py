"""The parts of a diffusion transformer."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from candi.base.types import Hidden


def modulate(hidden: Hidden, shift: Float[Tensor, "B 1 D"], scale: Float[Tensor, "B 1 D"]) -> Hidden:
    """adaLN: norm(h) (1 + scale) + shift."""
    return F.layer_norm(hidden, hidden.shape[-1:]) * (1 + scale) + shift


def rotary(length: int, dim: int, device: torch.device) -> Float[Tensor, "2 L half"]:
    """cos and sin of position * 10000^(-2i/dim)."""
    inverse = 10_000.0 ** (-torch.arange(0, dim, 2, device=device, dtype=torch.float32) / dim)
    angle = torch.arange(length, device=device, dtype=torch.float32)[:, None] * inverse
    return torch.stack([angle.cos(), angle.sin()])


def rotate(x: Float[Tensor, "B H L E"], angles: Float[Tensor, "2 L half"]) -> Float[Tensor, "B H L E"]:
    """Turn each pair (x_i, x_{i + E/2}) by its position's angle, so that q.k depends on distance alone."""
    cos, sin = angles.to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class BlockCache:
    """What one block has read in a causal trajectory: keys, values, and the last inputs of its convolution."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self.inputs: Tensor | None = None

    @property
    def length(self) -> int:
        return 0 if self.keys is None else self.keys.shape[2]

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        self.keys = k if self.keys is None else torch.cat([self.keys, k], dim=2)
        self.values = v if self.values is None else torch.cat([self.values, v], dim=2)
        return self.keys, self.values


class KVCache:
    """The keys and values that all blocks keep."""

    def __init__(self, blocks: int) -> None:
        self.blocks = [BlockCache() for _ in range(blocks)]

    @property
    def length(self) -> int:
        return self.blocks[0].length


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, hidden: Hidden, angles: Float[Tensor, "2 L half"], cache: BlockCache | None = None) -> Hidden:
        batch, length, width = hidden.shape
        q, k, v = self.qkv(hidden).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, angles), rotate(k, angles)
        mask = None
        if cache is not None and cache.length:
            # new positions see all that was read and, of the new ones, themselves and those before
            mask = torch.ones(length, cache.length + length, dtype=torch.bool, device=q.device).tril(cache.length)
        if cache is not None:
            k, v = cache.extend(k, v)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal and mask is None)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return out


class ShortConv(nn.Module):
    """A short depthwise convolution over positions: spelling is learned long before attention has found it."""

    def __init__(self, width: int, reach: int, causal: bool) -> None:
        super().__init__()
        self.reach, self.causal = reach, causal
        self.weight = nn.Parameter(torch.empty(width, 1, reach).uniform_(-1, 1) / reach**0.5)

    def forward(self, hidden: Hidden, cache: BlockCache | None = None) -> Hidden:
        left = self.reach - 1 if self.causal else self.reach // 2
        padded = F.pad(hidden.transpose(1, 2), (left, self.reach - 1 - left))
        if cache is not None:
            if cache.inputs is not None:
                padded[..., :left] = cache.inputs
            cache.inputs = padded[..., padded.shape[-1] - left :]
        if padded.is_cuda:  # sums of shifted copies, which a compiler joins; cuDNN's depthwise kernels are slow
            length = hidden.shape[1]
            shifted = [self.weight[:, :, k] * padded[..., k : k + length] for k in range(self.reach)]
            return torch.stack(shifted).sum(0).transpose(1, 2).to(hidden.dtype)
        return F.conv1d(padded, self.weight, groups=len(self.weight)).transpose(1, 2)


class MLP(nn.Sequential):
    """W_2 gelu(W_1 h + b_1) + b_2."""

    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, hidden: Hidden) -> Hidden:
        up = self[0]
        assert isinstance(up, nn.Linear)
        if hidden.is_cuda and hidden.dtype == up.weight.dtype == torch.bfloat16 and not torch.is_grad_enabled():
            # cuBLAS adds the bias and takes the tanh GELU before the product leaves its registers
            active = torch._addmm_activation(up.bias, hidden.flatten(0, 1), up.weight.t(), use_gelu=True)
            return self._down(active).view_as(hidden)
        return self._down(self[1](up(hidden)))

    def _down(self, active: Tensor) -> Tensor:
        out: Tensor = self[2](active)
        return out


class Block(nn.Module):
    """h + gate * attention(adaLN h), then h + gate * mlp(adaLN h). Gates start at 0: the block starts as the identity,
    but for its short convolution if it has one."""

    def __init__(
        self, width: int, heads: int, conditioning: int, dropout: float, convolution: int, causal: bool
    ) -> None:
        super().__init__()
        self.short_conv = ShortConv(width, convolution, causal) if convolution else None
        self.attention = Attention(width, heads, causal)
        self.mlp = MLP(width)
        self.adaptive = nn.Linear(conditioning, 6 * width)
        nn.init.zeros_(self.adaptive.weight)
        nn.init.zeros_(self.adaptive.bias)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        hidden: Hidden,
        conditioning: Float[Tensor, "B C"],
        angles: Float[Tensor, "2 L half"],
        cache: BlockCache | None = None,
    ) -> Hidden:
        if self.short_conv is not None:
            hidden = hidden + self.short_conv(F.layer_norm(hidden, hidden.shape[-1:]), cache)
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = self.adaptive(conditioning)[:, None].chunk(6, dim=-1)
        attended = self.attention(modulate(hidden, shift_a, scale_a), angles, cache)
        hidden = hidden + gate_a * self.dropout(attended)
        return hidden + gate_m * self.dropout(self.mlp(modulate(hidden, shift_m, scale_m)))
