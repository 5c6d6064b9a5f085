"""From features to logits, and the fused linear + cross-entropy that never holds all of them."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from candi.types import Rows

# Logits held at once, counted in numbers: 16 MiB of float32 on a CPU, where memory is dear and small matrices fast.
_BUDGET = {"cpu": 2**22, "cuda": 2**27}


def chunks(rows: int, vocab_size: int, device: torch.device) -> Iterator[slice]:
    """Parts of the rows whose logits fit the budget; at least one part, if an empty one."""
    size = max(1, _BUDGET.get(device.type, 2**24) // vocab_size)
    for start in range(0, max(rows, 1), size):
        yield slice(start, start + size)


@runtime_checkable
class Readout(Protocol):
    """Rows of features [N, F] to logits [N, V]."""

    def __call__(self, rows: Float[Tensor, "N F"]) -> Rows: ...

    def nll(self, rows: Float[Tensor, "N F"], targets: Int[Tensor, "N"]) -> Float[Tensor, "N"]: ...


class Head(nn.Linear):
    """The network's last layer."""

    def __init__(self, width: int, vocab_size: int) -> None:
        super().__init__(width, vocab_size)
        # the first prediction is uniform, so the first loss is log V
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def nll(self, rows: Float[Tensor, "N F"], targets: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
        device = rows.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else rows.dtype
        losses: Tensor = _LinearNLL.apply(rows.to(dtype), self.weight.to(dtype), self.bias.to(dtype), targets)
        return losses


class Mapped:
    """A readout followed by a function of the logits: a temperature, say. Also, by itself, that of ready logits."""

    def __init__(self, function: Callable[[Rows], Rows], readout: Readout | None = None) -> None:
        self.function, self.readout = function, readout

    def __call__(self, rows: Float[Tensor, "N F"]) -> Rows:
        return self.function(rows if self.readout is None else self.readout(rows))

    def nll(self, rows: Float[Tensor, "N F"], targets: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
        return F.cross_entropy(self(rows), targets, reduction="none")


class _LinearNLL(torch.autograd.Function):
    """l_n = logsumexp(W x_n + b) - (W x_n + b)_target, chunk by chunk; the logits are made again in the backward pass.

    dl/dlogits = softmax - onehot(target), in place in the only buffer there is.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        normaliser = rows.new_empty(len(rows), dtype=_wide(rows.dtype))
        losses = torch.empty_like(normaliser)
        for part in chunks(len(rows), len(weight), rows.device):
            logits = _logits(rows[part], weight, bias)
            chosen = logits.gather(-1, targets[part, None])[:, 0]
            largest = logits.amax(-1, keepdim=True) if len(logits) else logits[:, :1]
            total = logits.sub_(largest).exp_().sum(-1).log_() + largest[:, 0]
            normaliser[part] = total
            losses[part] = total - chosen
        ctx.save_for_backward(rows, weight, bias, targets, normaliser)
        return losses

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        rows, weight, bias, targets, normaliser = ctx.saved_tensors
        to_rows, to_weight = torch.empty_like(rows), torch.zeros_like(weight, dtype=normaliser.dtype)
        to_bias = torch.zeros_like(bias, dtype=normaliser.dtype)
        for part in chunks(len(rows), len(weight), rows.device):
            slope = _logits(rows[part], weight, bias).sub_(normaliser[part, None]).exp_()
            slope.scatter_add_(-1, targets[part, None], slope.new_full((len(slope), 1), -1.0))
            slope.mul_(upstream[part, None])
            to_bias += slope.sum(0)
            slope = slope.to(rows.dtype)
            to_rows[part] = slope @ weight
            if slope.dtype == to_weight.dtype:
                to_weight.addmm_(slope.T, rows[part])
            else:
                to_weight += slope.T @ rows[part]
        return to_rows, to_weight.to(weight.dtype), to_bias.to(bias.dtype), None


def _logits(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """In float32 at least: sums over V are too coarse in bf16."""
    with torch.autocast(rows.device.type, enabled=False):
        return F.linear(rows, weight, bias).to(_wide(rows.dtype))


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
