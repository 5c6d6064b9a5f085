"""A causal trajectory with a cache is the same trajectory."""

import pytest
import torch

from candi.base.rng import Rng
from candi.diffusion.guidance import classifier_free, tempered
from candi.diffusion.sampler import bind_step, sample
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiTSettings
from candi.nets.kv_cache import KVCachedDenoiser
from tests.toys import denoiser_of

L = 24


@pytest.fixture(params=[0, 4], ids=["attention alone", "with a convolution"])
def denoiser(request) -> Denoiser:
    torch.manual_seed(0)
    settings = DiTSettings(width=32, blocks=3, heads=4, conditioning=8, convolution=request.param)
    denoiser = denoiser_of("ar", 50, settings, length=L)
    with torch.no_grad():
        for parameter in denoiser.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return denoiser.eval()


def _cached(denoiser: Denoiser, bf16: bool = False) -> KVCachedDenoiser:
    return KVCachedDenoiser(denoiser, denoiser.trunk.new_cache(), bf16=bf16)


@torch.no_grad()
def _last_tokens(denoiser, denoise, x0, known):
    rng = Rng.per_row(range(len(x0)))
    method = denoiser.method
    steps = list(sample(denoise, bind_step(method), method.prior(x0, known, rng), method.timesteps(1, L), rng))
    assert len(steps) == L + 1
    return steps[-1].state.tokens


@pytest.mark.parametrize("given", ["nothing", "a prompt", "a prompt and a template", "different in each row"])
def test_generation_with_a_cache_is_token_for_token_that_without(denoiser, given):
    x0 = torch.randint(50, (5, L))
    known = torch.zeros(5, L, dtype=torch.bool)
    if given != "nothing":
        known[:, :7] = True
    if given == "a prompt and a template":
        known[:, 12:15] = True
    if given == "different in each row":
        known = torch.rand(5, L) < 0.4
    plain = _last_tokens(denoiser, tempered(denoiser, 0.9), x0, known)
    cached = _last_tokens(denoiser, tempered(_cached(denoiser), 0.9), x0, known)
    assert torch.equal(plain, cached)
    assert torch.equal(plain[known], x0[known])
    assert plain[~known].unique().numel() > 5


def test_guidance_by_label_with_two_caches_is_that_without():
    torch.manual_seed(0)
    settings = DiTSettings(width=32, blocks=2, heads=4, conditioning=8)
    denoiser = denoiser_of("ar", 50, settings, length=L, label="anything").eval()
    with torch.no_grad():
        for parameter in denoiser.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    x0, known = torch.zeros(5, L, dtype=torch.long), torch.zeros(5, L, dtype=torch.bool)
    plain = _last_tokens(denoiser, classifier_free(denoiser, denoiser, 1, 0.5), x0, known)
    two = _cached(denoiser), _cached(denoiser)
    assert torch.equal(plain, _last_tokens(denoiser, classifier_free(*two, 1, 0.5), x0, known))
    other = _last_tokens(denoiser, classifier_free(_cached(denoiser), _cached(denoiser), 0, 0.5), x0, known)
    assert not torch.equal(plain, other)


def test_every_position_is_read_once(denoiser):
    read = []
    trunk = denoiser.trunk.forward

    def counted(vectors, time, condition=None, cache=None):
        read.append(vectors.shape[1])
        return trunk(vectors, time, condition, cache)

    denoiser.trunk.forward = counted
    known = torch.zeros(2, L, dtype=torch.bool)
    known[:, :7] = True
    _last_tokens(denoiser, _cached(denoiser), torch.randint(50, (2, L)), known)
    assert read == [8] + [1] * (L - 8)


@torch.no_grad()
def test_a_trajectory_in_bf16_is_nearly_that_in_float32(denoiser):
    x0, known = torch.randint(50, (3, L)), torch.zeros(3, L, dtype=torch.bool)
    known[:, :5] = True
    method = denoiser.method
    state = method.prior(x0, known, Rng.per_row(range(3)))
    plain, half = (_cached(denoiser, bf16=bf16)(state).log_probs() for bf16 in (False, True))
    assert half.dtype == plain.dtype
    assert not torch.equal(half, plain)
    assert float((half.exp() - plain.exp()).abs().max()) < 0.05
    assert _last_tokens(denoiser, _cached(denoiser, bf16=True), x0, known).shape == (3, L)
