import pytest
import torch

import candi
from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.data.corpus import Piece
from candi.data.tokenizer import Tokenizer
from candi.diffusion.methods import METHODS
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiTSettings
from candi.nets.engine import Engine
from tests.toys import denoiser_of

TRUNK = DiTSettings(width=64, blocks=2, heads=2)


def _denoiser(name: str) -> Denoiser:
    torch.manual_seed(0)
    denoiser = denoiser_of(name, 50, TRUNK).eval()
    for parameter in denoiser.parameters():  # also of gates and head, which start at zero
        parameter.data.add_(0.05 * torch.randn_like(parameter))
    return denoiser


def _features(denoiser: Denoiser, network) -> torch.Tensor:
    x0 = torch.randint(50, (4, 16), generator=torch.Generator().manual_seed(0))
    t = torch.linspace(0.1, 1, 4)
    with torch.no_grad():
        return network(denoiser.method.corrupt(x0, t, Rng.from_seed(0))).features.float()


@pytest.mark.parametrize("name", [name for name in METHODS if name != "ar"])
def test_the_engine_is_the_network_up_to_rounding(name):
    """bf16 has 8 bits: after two blocks the features differ by a percent or so of their size."""
    denoiser = _denoiser(name)
    plain, fast = _features(denoiser, denoiser), _features(denoiser, Engine(denoiser, compile=False))
    assert 0 < float((plain - fast).norm() / plain.norm()) < 0.02


def test_the_timestep_embedder_keeps_its_precision():
    """Periods of 0.1 would be lost in the 8 bits of bf16."""
    denoiser = _denoiser("candi")
    rounded = denoiser.trunk.rounded(torch.bfloat16)
    assert rounded.timestep_embedder.frequencies.dtype == torch.float32
    assert rounded.blocks[0].mlp[0].weight.dtype == torch.bfloat16
    assert denoiser.trunk.blocks[0].mlp[0].weight.dtype == torch.float32  # the network itself is as it was


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")
@pytest.mark.parametrize("options", [{"precision": "bf16"}, {"compile": True}, {"precision": "half"}])
def test_what_needs_a_gpu_says_so(options):
    model = candi.Model(denoiser_of("candi", 2, TRUNK, length=8), Tokenizer.characters([Piece("ab", True)]))
    with pytest.raises(UserError, match=r"CUDA GPU|precision"):
        model.generate(1, steps=2, **options)
