"""The last layer: features to logits, and to what is asked of them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from candi.base.precision import working_dtype
from candi.base.types import Rows, Table
from candi.diffusion.readout import Readout, chunks
from candi.nets.linear_nll import aligned, fused, linear_nll, product, softmax


class Head(nn.Linear, Readout):
    """The network's last layer."""

    def __init__(self, width: int, vocab_size: int) -> None:
        super().__init__(width, vocab_size)
        # the first prediction is uniform, so the first loss is log V
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, rows: Float[Tensor, "N F"]) -> Rows:
        rows, weight, bias = self._ready(rows)
        return F.linear(rows, weight, bias)[:, : self.out_features]

    def tempered(self, temperature: float) -> Readout:
        return Tempered(self, 1 / temperature)

    def nll(self, rows: Float[Tensor, "N F"], targets: Int[Tensor, "N"], vocab_size: int) -> Float[Tensor, "N"]:
        return linear_nll(rows, self.weight, self.bias, targets, list(chunks(len(rows), vocab_size, rows.device)))

    def draw(self, rows: Float[Tensor, "N F"], uniform: Float[Tensor, "N"], vocab_size: int) -> Int[Tensor, "N"]:
        return Tempered(self, 1.0).draw(rows, uniform, vocab_size)

    def mean(self, rows: Float[Tensor, "N F"], table: Table) -> Float[Tensor, "N K"]:
        return Tempered(self, 1.0).mean(rows, table)

    def _ready(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rows, weight and bias in the precision of the moment; on a GPU with a vocabulary of an even size."""
        dtype = working_dtype(rows.device, rows.dtype)
        return rows.to(dtype), *aligned(self.weight.to(dtype), self.bias.to(dtype))


class Tempered(Readout):
    """The head's logits times a scale."""

    def __init__(self, head: Head, scale: float) -> None:
        self.head, self.scale = head, scale

    def __call__(self, rows: Float[Tensor, "N F"]) -> Rows:
        logits = self.head(rows)
        return logits if self.scale == 1 else logits.mul_(self.scale)  # nobody else holds them

    def tempered(self, temperature: float) -> Readout:
        return Tempered(self.head, self.scale / temperature)

    def draw(self, rows: Float[Tensor, "N F"], uniform: Float[Tensor, "N"], vocab_size: int) -> Int[Tensor, "N"]:
        ready, weight, bias = self.head._ready(rows)
        if not fused(ready):
            return super().draw(rows, uniform, vocab_size)
        from candi.nets.triton import launch

        return launch.draw(ready, weight, bias, uniform, self.scale)

    def mean(self, rows: Float[Tensor, "N F"], table: Table) -> Float[Tensor, "N K"]:
        """In the precision of the logits: exp and its sum in float32, the product's inputs rounded."""
        ready, weight, bias = self.head._ready(rows)
        values = F.pad(table.to(ready.dtype), (0, 0, 0, len(weight) - len(table)))
        parts = []
        with torch.autocast(rows.device.type, enabled=False):
            for part in chunks(len(rows), len(weight), rows.device):
                p = softmax(F.linear(ready[part], weight, bias), self.scale)
                parts.append(product(p, values, torch.promote_types(table.dtype, torch.float32)))
        return torch.cat(parts).to(table.dtype)
