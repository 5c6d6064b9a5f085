"""The categorical draw: one implementation for every method."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candi.base.types import Rows

PRECISION = "float64"  # stamped into outputs: float32 cuts the tail and acts like a lower temperature
_BLOCK = 128


def categorical(logits: Rows, uniform: Float[Tensor, "N"]) -> Int[Tensor, "N"]:
    """The first v with p_1 + ... + p_v > u: exact down to probabilities of 1e-15, for one float64 uniform a row.

    First the block of tokens that it falls into, then the place in the block: only sums over blocks and one block a row
    are held in float64, never all V numbers.
    """
    size = logits.shape[-1]
    weights = torch.softmax(logits, -1)  # one pass, where exp of a difference takes three
    share = uniform.double()[:, None]
    if size <= 4 * _BLOCK:
        return _found(weights, share)[0].squeeze(-1).clamp(max=size - 1)
    whole = size // _BLOCK * _BLOCK
    sums = [weights[:, :whole].unflatten(-1, (-1, _BLOCK)).sum(-1)]
    sums += [weights[:, whole:].sum(-1, keepdim=True)] if whole < size else []
    block, share = _found(torch.cat(sums, -1), share)
    columns = block * _BLOCK + torch.arange(_BLOCK, device=logits.device)
    place, _ = _found(weights.gather(-1, columns.clamp(max=size - 1)) * (columns < size), share)
    return (block * _BLOCK + place).squeeze(-1).clamp(max=size - 1)  # some token, if the logits are no numbers


def _found(masses: Float[Tensor, "N M"], share: Float[Tensor, "N 1"]) -> tuple[Tensor, Tensor]:
    """The first index by which more than a share of all mass has come, and how far into its own mass the share falls.

    As a share of that mass, so that the next stride can go on by its own sums, however these were rounded. The share of
    all stays below 1 in floating point too: so the mass at the index is never 0.
    """
    masses = masses.double()
    cumulative = masses.cumsum(-1)
    total = cumulative[:, -1:]
    target = torch.minimum(share * total, torch.nextafter(total, torch.zeros_like(total)))
    index = torch.searchsorted(cumulative, target, right=True)
    before = torch.where(index > 0, cumulative.gather(-1, (index - 1).clamp(min=0)), 0.0)
    return index, (target - before) / masses.gather(-1, index.clamp(max=masses.shape[-1] - 1))
