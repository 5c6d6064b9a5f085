"""The parts of a diffusion transformer."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from candi.base.types import Hidden
from candi.nets.attention import attention
from candi.nets.dropout import Dropout
from candi.nets.kv_cache import BlockCache


def modulate(hidden: Hidden, shift: Float[Tensor, "B 1 D"], scale: Float[Tensor, "B 1 D"]) -> Hidden:
    """adaLN: norm(h) (1 + scale) + shift."""
    return F.layer_norm(hidden, hidden.shape[-1:]) * (1 + scale) + shift


def rotary(positions: Int[Tensor, "*groups L"], dim: int) -> Float[Tensor, "2 *groups L half"]:
    """cos and sin of position * 10000^(-2i/dim)."""
    inverse = 10_000.0 ** (-torch.arange(0, dim, 2, device=positions.device, dtype=torch.float32) / dim)
    angle = positions.float()[..., None] * inverse
    return torch.stack([angle.cos(), angle.sin()])


def rotate(x: Float[Tensor, "B H L E"], angles: Float[Tensor, "2 *groups L half"]) -> Float[Tensor, "B H L E"]:
    """Turn each pair (x_i, x_{i + E/2}) by its position's angle, so that q.k depends on distance alone.

    Of groups that stand in places of their own, row i is in group i modulo their number.
    """
    cos, sin = angles.to(x.dtype)
    if angles.dim() == 4:
        cos, sin, x = cos[:, None], sin[:, None], x.unflatten(0, (-1, len(cos)))
    a, b = x.chunk(2, dim=-1)
    turned = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
    return turned if angles.dim() == 3 else turned.flatten(0, 1)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(
        self, hidden: Hidden, angles: Float[Tensor, "2 *groups L half"], cache: BlockCache | None = None
    ) -> Hidden:
        batch, length, width = hidden.shape
        q, k, v = self.qkv(hidden).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, angles), rotate(k, angles)
        mixed = attention(q, k, v, self.causal) if cache is None else cache.attend(q, k, v)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return out


class ShortConv(nn.Module):
    """A short depthwise convolution over positions: spelling is learned long before attention has found it."""

    def __init__(self, width: int, reach: int, causal: bool) -> None:
        super().__init__()
        self.reach, self.causal = reach, causal
        self.weight = nn.Parameter(torch.empty(width, 1, reach).uniform_(-1, 1) / reach**0.5)

    def forward(self, hidden: Hidden, cache: BlockCache | None = None) -> Hidden:
        left, values = self.reach - 1 if self.causal else self.reach // 2, hidden.transpose(1, 2)
        earlier = F.pad(values, (left, 0)) if cache is None else cache.with_earlier(values, left)
        padded = F.pad(earlier, (0, self.reach - 1 - left))
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
        plain = type(up) is nn.Linear and up.weight.dtype == hidden.dtype == torch.bfloat16
        if hidden.is_cuda and plain and not torch.is_grad_enabled():
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
        self.dropout = Dropout(dropout)

    def forward(
        self,
        hidden: Hidden,
        conditioning: Float[Tensor, "B C"],
        angles: Float[Tensor, "2 *groups L half"],
        cache: BlockCache | None = None,
        seeds: Int[Tensor, "2 2"] | None = None,
    ) -> Hidden:
        """`seeds` are those of the two dropout masks, in training."""
        if self.short_conv is not None:
            hidden = hidden + self.short_conv(F.layer_norm(hidden, hidden.shape[-1:]), cache)
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = self.adaptive(conditioning)[:, None].chunk(6, dim=-1)
        attended = self.attention(modulate(hidden, shift_a, scale_a), angles, cache)
        hidden = hidden + gate_a * self.dropout(attended, None if seeds is None else seeds[0])
        active = self.mlp(modulate(hidden, shift_m, scale_m))
        return hidden + gate_m * self.dropout(active, None if seeds is None else seeds[1])
