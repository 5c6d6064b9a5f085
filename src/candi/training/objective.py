"""What is minimised."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from candi.nets.denoiser import Denoiser
from candi.nets.places import room_for
from candi.rng import Rng
from candi.types import Labels, PerToken, Times, Tokens

Rows = Sequence[int] | NDArray[np.int64]  # which rows of a global batch
T_MIN = 1e-3  # keeps the loss weight 1/t finite


class Objective(nn.Module):
    """The whole training computation in one forward pass, which is what DDP and FSDP need to see.

    Times are made inside it: Fabric rounds the floating-point inputs of a module to bf16 in mixed precision, which
    would move t and with it masks and weights.
    """

    def __init__(self, denoiser: Denoiser, label_dropout: float = 0.0) -> None:
        super().__init__()
        self.denoiser, self.label_dropout = denoiser, label_dropout

    def forward(self, x0: Tokens, row: Rows, rows: int, rng: Rng, label: Labels | None = None) -> PerToken:
        """Losses of some rows of a global batch; `row` says which of all `rows`."""
        method = self.denoiser.method
        # no row's time is later than the end of its interval, so that many positions are open at most
        room = room_for(method.open_share(_within(torch.as_tensor(row).double() + 1, rows)), x0.shape[1])
        state = method.corrupt(x0, stratified(row, rows, rng), rng)
        if label is not None and self.training:  # what is learned without labels is what guidance is measured against
            label = label.masked_fill(rng.uniform(len(label)) < self.label_dropout, self.denoiser.classes)
        return method.loss(self.denoiser(state, label).within(room), state, x0)


def stratified(row: Rows, rows: int, rng: Rng) -> Times:
    """t_i = t_min + (1 - t_min) (i + u_i)/B: one time in each of B equal intervals of the global batch."""
    dtype = torch.get_default_dtype()
    start = torch.as_tensor(row, dtype=dtype).to(rng.device, non_blocking=True)
    return _within(start + rng.uniform(len(row), dtype=dtype), rows)


def _within(place: Float[Tensor, "B"], rows: int) -> Float[Tensor, "B"]:
    return T_MIN + (1 - T_MIN) * place / rows
