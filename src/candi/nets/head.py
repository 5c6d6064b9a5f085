"""From features to what is asked of the logits, which are never all held at once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from candi.draws import categorical
from candi.nets.linear_nll import aligned, fused, linear_nll, product, softmax, wide
from candi.types import Rows, Table

# Logits held at once, counted in numbers: 16 MiB of float32 on a CPU, where memory is dear and small matrices fast.
_BUDGET = {"cpu": 2**22, "cuda": 2**28}


def chunks(rows: int, vocab_size: int, device: torch.device) -> Iterator[slice]:
    """Parts of the rows whose logits fit the budget; at least one part, if an empty one."""
    size = max(1, _BUDGET.get(device.type, 2**24) // vocab_size)
    for start in range(0, max(rows, 1), size):
        yield slice(start, start + size)


class Readout(ABC):
    """Rows of features [N, F] to logits [N, V], and to what needs only some function of them."""

    @abstractmethod
    def __call__(self, rows: Float[Tensor, "N F"]) -> Rows: ...

    def tempered(self, temperature: float) -> "Readout":
        """The same logits divided by a temperature."""
        return Mapped(lambda logits: logits / temperature, self)

    def nll(self, rows: Float[Tensor, "N F"], targets: Int[Tensor, "N"], vocab_size: int) -> Float[Tensor, "N"]:
        """-log p(target)."""
        return self._by_chunk(
            rows, vocab_size, lambda logits, part: F.cross_entropy(logits, targets[part], reduction="none")
        )

    def draw(self, rows: Float[Tensor, "N F"], uniform: Float[Tensor, "N"], vocab_size: int) -> Int[Tensor, "N"]:
        """Tokens by their probabilities, decided by uniform random numbers."""
        return self._by_chunk(rows, vocab_size, lambda logits, part: categorical(logits, uniform[part]))

    def mean(self, rows: Float[Tensor, "N F"], table: Float[Tensor, "V K"]) -> Float[Tensor, "N K"]:
        """softmax @ table."""
        return self._by_chunk(rows, len(table), lambda logits, _: torch.softmax(logits, -1).to(table.dtype) @ table)

    def mode(self, rows: Float[Tensor, "N F"], vocab_size: int) -> Int[Tensor, "N"]:
        return self._by_chunk(rows, vocab_size, lambda logits, _: logits.argmax(-1))

    def log_probs(self, rows: Float[Tensor, "N F"], vocab_size: int) -> Rows:
        return self._by_chunk(rows, vocab_size, lambda logits, _: torch.log_softmax(logits, -1))

    def _by_chunk(self, rows: Tensor, vocab_size: int, function: Callable[[Rows, slice], Tensor]) -> Tensor:
        parts = chunks(len(rows), vocab_size, rows.device)
        return torch.cat([function(wide(self(rows[part])), part) for part in parts])


class Mapped(Readout):
    """A readout followed by a function of the logits. Also, by itself, that of ready logits."""

    def __init__(self, function: Callable[[Rows], Rows], readout: Readout | None = None) -> None:
        self.function, self.readout = function, readout

    def __call__(self, rows: Float[Tensor, "N F"]) -> Rows:
        return self.function(rows if self.readout is None else self.readout(rows))


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
        device = rows.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else rows.dtype
        return rows.to(dtype), *aligned(self.weight.to(dtype), self.bias.to(dtype))


class Tempered(Readout):
    """The head's logits times a scale."""

    def __init__(self, head: Head, scale: float) -> None:
        self.head, self.scale = head, scale

    def __call__(self, rows: Float[Tensor, "N F"]) -> Rows:
        return self.head(rows) * self.scale

    def tempered(self, temperature: float) -> Readout:
        return Tempered(self.head, self.scale / temperature)

    def draw(self, rows: Float[Tensor, "N F"], uniform: Float[Tensor, "N"], vocab_size: int) -> Int[Tensor, "N"]:
        ready, weight, bias = self.head._ready(rows)
        if not fused(ready):
            return super().draw(rows, uniform, vocab_size)
        from candi.nets import kernels

        return kernels.draw(ready, weight, bias, uniform, self.scale)

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
