"""What is minimised."""

import torch
from jaxtyping import Int
from torch import Tensor, nn

from candi.nets.denoiser import Denoiser
from candi.rng import Rng
from candi.types import PerToken, Times, Tokens

T_MIN = 1e-3  # keeps the loss weight 1/t finite


class Objective(nn.Module):
    """The whole training computation in one forward pass, which is what DDP and FSDP need to see.

    Times are made inside it: Fabric rounds the floating-point inputs of a module to bf16 in mixed precision, which
    would move t and with it masks and weights.
    """

    def __init__(self, denoiser: Denoiser) -> None:
        super().__init__()
        self.denoiser = denoiser

    def forward(self, x0: Tokens, row: Int[Tensor, "B"], rows: int, rng: Rng) -> PerToken:
        """Losses of some rows of a global batch; `row` says which of all `rows`."""
        method = self.denoiser.method
        state = method.corrupt(x0, stratified(row, rows, rng), rng)
        return method.loss(self.denoiser(state), state, x0)


def stratified(row: Int[Tensor, "B"], rows: int, rng: Rng) -> Times:
    """t_i = t_min + (1 - t_min) (i + u_i)/B: one time in each of B equal intervals of the global batch."""
    dtype = torch.get_default_dtype()
    return T_MIN + (1 - T_MIN) * (row.to(dtype) + rng.uniform(len(row), dtype=dtype)) / rows
