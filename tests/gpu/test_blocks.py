"""Blocks on a GPU: the compiled pattern, and a rounded network that writes."""

import torch

from candi.base.rng import Rng
from candi.diffusion.methods import METHODS
from candi.nets.blockwise import BlockDenoiser
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiTSettings
from candi.nets.engine import Engine
from candi.training.objective import DenoisingObjective
from tests.gpu import DEVICE, GPU

LENGTH, BLOCK = 256, 16


def _denoiser(name: str) -> Denoiser:
    torch.manual_seed(0)
    trunk = DiTSettings(width=128, blocks=2, heads=2, convolution=3)
    denoiser = Denoiser.build(ModelConfig(50, LENGTH, name, METHODS[name](), trunk, block=BLOCK)).to(DEVICE)
    for parameter in denoiser.parameters():  # also of gates and head, which start at zero
        parameter.data.add_(0.05 * torch.randn_like(parameter))
    return denoiser


def _x0(rows: int) -> torch.Tensor:
    return torch.randint(50, (rows, LENGTH), generator=torch.Generator().manual_seed(0)).to(DEVICE)


def test_the_compiled_pattern_has_the_losses_and_gradients_of_the_mask():
    """FlexAttention against attention with a mask. In float32 with TF32 products, three digits."""
    if not GPU:
        return  # a minute of compilation; tests/nets/test_blocks.py has the mask
    for name in ("mdlm", "candi"):
        denoiser, x0 = _denoiser(name), _x0(4)
        found = []
        for compile in (False, True):
            denoiser.zero_grad()
            losses = DenoisingObjective(denoiser, compile=compile)(x0, range(4), 4, Rng.per_row(range(4), DEVICE))
            losses.mean().backward()
            found.append((losses.detach(), denoiser.trunk.blocks[0].attention.qkv.weight.grad.clone()))
        for eager, compiled in zip(*found, strict=True):
            assert float((eager - compiled).norm() / eager.norm()) < 1e-2


def test_a_rounded_network_writes_as_it_reads_side_by_side():
    """bf16 on a GPU: features of a block behind the cache differ from those of one pass by a percent or two."""
    denoiser, x0 = _denoiser("candi").eval(), _x0(2)
    reader = BlockDenoiser(denoiser, Engine(denoiser, compile=False))
    state = denoiser.method.corrupt(denoiser.split(x0), torch.full((32,), 0.5, device=DEVICE), Rng.from_seed(0, DEVICE))
    with torch.no_grad():
        whole = denoiser(state, context=x0).features.unflatten(0, (2, -1))[:, -1].float()
        reader.extend(x0[:, :-BLOCK])
        rows = torch.tensor([15, 31], device=DEVICE)
        part = type(state)(
            state.t[rows], state.known[rows], state.tokens[rows], None if state.values is None else state.values[rows]
        )
        found = reader(part).features.float()
    assert 0 <= float((whole - found).norm() / whole.norm()) < 0.03
