"""What is minimised."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from candi.base.rng import Rng
from candi.base.types import Labels, Mask, PerToken, Times, Tokens
from candi.diffusion.open_positions import capacity_for
from candi.diffusion.state import with_given
from candi.nets.denoiser import Denoiser, Features

RowNumbers = Sequence[int] | NDArray[np.int64]  # which rows of a global batch
T_MIN = 1e-3  # keeps the loss weight 1/t finite


class Objective(nn.Module, ABC):
    """The whole training computation in one forward pass, which is what DDP and FSDP need to see."""

    @abstractmethod
    def forward(
        self, x0: Tokens, row: RowNumbers, rows: int, rng: Rng, label: Labels | None = None, given: Mask | None = None
    ) -> Tensor:
        """Losses of some rows of a global batch; `row` says which of all `rows`, `given` what is not learned."""

    def begin_step(self, progress: float) -> None:
        """Before each step of training: the weights have changed, and this fraction of the training is done."""

    def invalidate_caches(self) -> None:
        """Drop what was computed from the weights: they have changed."""

    def follow(self, averages: Callable[[], Mapping[str, Tensor]]) -> None:
        """Where the averaged weights are, for an objective that asks for them."""

    @property
    def recordable(self) -> bool:
        """Whether every step is the same computation, which can be recorded once and replayed."""
        return False

    def sharding_units(self) -> Sequence[nn.Module]:
        """The parts that FSDP gathers one after another."""
        return ()


class DenoisingObjective(Objective):
    """A method's loss at stratified times.

    Times are made inside it: Fabric rounds the floating-point inputs of a module to bf16 in mixed precision, which
    would move t and with it masks and weights.
    """

    def __init__(self, denoiser: Denoiser, label_dropout: float = 0.0, compile: bool = False) -> None:
        super().__init__()
        self.denoiser, self.label_dropout = denoiser, label_dropout
        self._compiled = compile
        self._features: Features = torch.compile(denoiser.features) if compile else denoiser.features

    def forward(
        self, x0: Tokens, row: RowNumbers, rows: int, rng: Rng, label: Labels | None = None, given: Mask | None = None
    ) -> PerToken:
        method = self.denoiser.method
        # of a blockwise denoiser each block is a sequence with a time of its own
        parts, count = self.denoiser.split(x0), self.denoiser.parts(x0.shape[1])
        row, rows = each_part(row, count), rows * count
        # no row's time is later than the end of its interval, so that many positions are open at most
        latest = _within(torch.as_tensor(row).double() + 1, rows)
        capacity = capacity_for(method.corrupted_fraction(latest), parts.shape[1])
        state = method.corrupt(parts, stratified(row, rows, rng), rng)
        state = state if given is None else with_given(state, parts, self.denoiser.split(given))
        if label is not None and self.training:  # what is learned without labels is what guidance is measured against
            label = without_some(self.denoiser, label, self.label_dropout, rng)
        prediction = self.denoiser.predict(self._features, state, label, x0, self._compiled)
        loss = method.loss(prediction.within(capacity), state, parts).reshape(x0.shape)
        return loss if given is None else loss.masked_fill(given, 0)

    def begin_step(self, progress: float) -> None:
        self.denoiser.method.invalidate_caches()
        self.denoiser.method.progress = progress

    def invalidate_caches(self) -> None:
        self.denoiser.method.invalidate_caches()

    @property
    def recordable(self) -> bool:
        return self.denoiser.method.recordable

    def sharding_units(self) -> Sequence[nn.Module]:
        return self.denoiser.trunk.sharding_units()


def stratified(row: RowNumbers, rows: int, rng: Rng) -> Times:
    """t_i = t_min + (1 - t_min) (i + u_i)/B: one time in each of B equal intervals of the global batch."""
    return _within(place_of(row, rng), rows)


def place_of(row: RowNumbers, rng: Rng) -> Float[Tensor, "B"]:
    """i + u_i: a place within each row's interval."""
    dtype = torch.get_default_dtype()
    start = _on_device(np.asarray(row, np.int64).tobytes(), dtype, rng.device)
    return start + rng.uniform(len(row), dtype=dtype)


def without_some(denoiser: Denoiser, label: Labels, share: float, rng: Rng) -> Labels:
    """Labels of which a share is hidden."""
    assert denoiser.labels is not None
    dropped = rng.uniform(*label.shape) < share
    if label.shape[1] > 1:  # some rows have none at all, some have some
        dropped = dropped | (rng.uniform(len(label), 1) < share)
    return torch.where(dropped, denoiser.labels.none(label[:, 0]), label)


def each_part(row: RowNumbers, count: int) -> RowNumbers:
    """The numbers of the parts of rows that have so many each."""
    return row if count == 1 else (np.asarray(row)[:, None] * count + np.arange(count)).ravel()


@lru_cache(maxsize=64)
def _on_device(row: bytes, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "B"]:
    """Row numbers, which are the same in every step, copied once."""
    return torch.as_tensor(np.frombuffer(row, np.int64).copy(), dtype=dtype).to(device)


def _within(place: Float[Tensor, "B"], rows: int) -> Float[Tensor, "B"]:
    return T_MIN + (1 - T_MIN) * place / rows
