"""Our attention as one of the transformers library's. For a kind that it does not know the library builds no mask.

With its own, some of its versions build one as soon as they are compiled, even where every position sees all others:
kernels that read a mask are slow, and slower where the length is odd.
"""

from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from candi.nets.attention import attention
from candi.nets.blocks import Joined

NAME = "candi"


def attend(
    module: Any,
    q: Float[Tensor, "B H L E"],
    k: Float[Tensor, "B G S E"],
    v: Float[Tensor, "B G S E"],
    mask: Bool[Tensor, "..."] | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    joined: Joined | None = None,
    **others: Any,
) -> tuple[Float[Tensor, "B L H E"], None]:
    """softmax(scaling q k^T) v. Attention with dropout is left to the library, but for that of `joined` blocks."""
    if joined is not None:
        return joined.layer(module.layer_idx).attend_joined(_scaled(q, scaling), k, v).transpose(
            1, 2
        ).contiguous(), None
    if dropout:
        found: tuple[Tensor, None] = sdpa_attention_forward(module, q, k, v, mask, dropout, scaling, **others)
        return found
    return attention(_scaled(q, scaling), k, v, bool(module.is_causal)).transpose(1, 2).contiguous(), None


def _scaled(q: Tensor, scaling: float | None) -> Tensor:
    """So that q k^T / sqrt(E) is what the network asks for."""
    usual = q.shape[-1] ** -0.5
    return q if scaling is None or scaling == usual else q * (scaling / usual)


def attention_of(layer_types: list[str] | None) -> str:
    """The name to give the library: ours, unless some of its layers see no further than a window."""
    if any(kind != "full_attention" for kind in layer_types or ()):
        return "sdpa"
    AttentionInterface.register(NAME, attend)
    return NAME
