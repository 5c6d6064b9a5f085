"""From rows of features to what is asked of the logits, which are never all held at once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from candi.base.types import Rows
from candi.diffusion.draws import categorical

# Logits held at once, in numbers: 16 MiB of float32 on a CPU, where memory is dear and small matrices fast.
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


def wide(logits: Tensor) -> Tensor:
    """In float32 at least: sums over V are too coarse in bf16."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
