"""A causal walk with memory is the same walk."""

import pytest
import torch

from candi.guidance import classifier_free, tempered
from candi.methods import ArSettings
from candi.nets.denoiser import Denoiser
from candi.nets.transformer import TrunkSettings
from candi.rng import Rng
from candi.sampling.causal import Remembering
from candi.sampling.walk import stepper, walk

L = 24


@pytest.fixture(params=[0, 4], ids=["attention alone", "with a convolution"])
def denoiser(request) -> Denoiser:
    torch.manual_seed(0)
    settings = TrunkSettings(width=32, blocks=3, heads=4, conditioning=8, convolution=request.param)
    denoiser = Denoiser.build(50, settings, ArSettings())
    with torch.no_grad():
        for parameter in denoiser.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return denoiser.eval()


@torch.no_grad()
def _walk(denoiser, denoise, x0, known):
    rng = Rng.per_row(range(len(x0)))
    method = denoiser.method
    states = list(walk(denoise, stepper(method), method.prior(x0, known, rng), method.times(1, L), rng))
    assert len(states) == L + 1
    return states[-1].tokens


@pytest.mark.parametrize("given", ["nothing", "a prompt", "a prompt and a template", "different in each row"])
def test_generation_with_memory_is_token_for_token_that_without(denoiser, given):
    x0 = torch.randint(50, (5, L))
    known = torch.zeros(5, L, dtype=torch.bool)
    if given != "nothing":
        known[:, :7] = True
    if given == "a prompt and a template":
        known[:, 12:15] = True
    if given == "different in each row":
        known = torch.rand(5, L) < 0.4
    plain = _walk(denoiser, tempered(denoiser, 0.9), x0, known)
    remembered = _walk(denoiser, tempered(Remembering(denoiser), 0.9), x0, known)
    assert torch.equal(plain, remembered)
    assert torch.equal(plain[known], x0[known])
    assert plain[~known].unique().numel() > 5


def test_guidance_by_label_with_two_memories_is_that_without():
    torch.manual_seed(0)
    settings = TrunkSettings(width=32, blocks=2, heads=4, conditioning=8)
    denoiser = Denoiser.build(50, settings, ArSettings(), classes=2).eval()
    with torch.no_grad():
        for parameter in denoiser.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    x0, known = torch.zeros(5, L, dtype=torch.long), torch.zeros(5, L, dtype=torch.bool)
    plain = _walk(denoiser, classifier_free(denoiser, denoiser, 1, 0.5), x0, known)
    two = Remembering(denoiser), Remembering(denoiser)
    assert torch.equal(plain, _walk(denoiser, classifier_free(*two, 1, 0.5), x0, known))
    other = _walk(denoiser, classifier_free(Remembering(denoiser), Remembering(denoiser), 0, 0.5), x0, known)
    assert not torch.equal(plain, other)


def test_every_position_is_read_once(denoiser):
    read = []
    trunk = denoiser.trunk.forward

    def counted(hidden, clock, memory=None, label=None):
        read.append(hidden.shape[1])
        return trunk(hidden, clock, memory, label)

    denoiser.trunk.forward = counted
    known = torch.zeros(2, L, dtype=torch.bool)
    known[:, :7] = True
    _walk(denoiser, Remembering(denoiser), torch.randint(50, (2, L)), known)
    assert read == [8] + [1] * (L - 8)


@torch.no_grad()
def test_a_walk_in_bf16_is_nearly_that_in_float32(denoiser):
    x0, known = torch.randint(50, (3, L)), torch.zeros(3, L, dtype=torch.bool)
    known[:, :5] = True
    method = denoiser.method
    state = method.prior(x0, known, Rng.per_row(range(3)))
    plain, half = (Remembering(denoiser, bf16=bf16)(state).log_probs() for bf16 in (False, True))
    assert half.dtype == plain.dtype
    assert not torch.equal(half, plain)
    assert float((half.exp() - plain.exp()).abs().max()) < 0.05
    assert _walk(denoiser, Remembering(denoiser, bf16=True), x0, known).shape == (3, L)
