"""A causal trajectory with a cache is the same trajectory."""

import pytest
import torch

from candi.base.rng import Rng
from candi.diffusion.guidance import classifier_free, tempered
from candi.diffusion.sampler import bind_step, sample
from candi.nets.causal import KVCachedDenoiser, sample_causally
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiTSettings
from candi.nets.engine import Engine
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


def _cached(denoiser: Denoiser, engine: Engine | None = None) -> KVCachedDenoiser:
    return KVCachedDenoiser(denoiser, denoiser.trunk.new_cache(), engine)


@torch.no_grad()
def _last_tokens(denoiser, denoise, x0, known, networks=None):
    """Step by step, or with `networks` as a GPU does it: each step in the same places of memory."""
    rng = Rng.per_row(range(len(x0)))
    method = denoiser.method
    what = bind_step(method), method.prior(x0, known, rng), method.timesteps(1, L), rng
    steps = list(sample(denoise, *what) if networks is None else sample_causally(networks, denoise, *what, graph=False))
    assert len(steps) == L + 1
    for earlier, later in zip(steps, steps[1:], strict=False):  # states that were seen do not change afterwards
        assert bool((later.state.known >= earlier.state.known).all())
        assert torch.equal(later.state.tokens[earlier.state.known], earlier.state.tokens[earlier.state.known])
    assert [round(float(1 - step.state.t[0]) * L) for step in steps] == list(range(L + 1))
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
    network = _cached(denoiser)
    assert torch.equal(plain, _last_tokens(denoiser, tempered(network, 0.9), x0, known, [network]))
    assert network.fixed is not None
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
    plain = _last_tokens(denoiser, classifier_free(denoiser, denoiser, [1], 0.5), x0, known)
    two = _cached(denoiser), _cached(denoiser)
    assert torch.equal(plain, _last_tokens(denoiser, classifier_free(*two, [1], 0.5), x0, known))
    two = _cached(denoiser), _cached(denoiser)
    assert torch.equal(plain, _last_tokens(denoiser, classifier_free(*two, [1], 0.5), x0, known, two))
    other = _last_tokens(denoiser, classifier_free(_cached(denoiser), _cached(denoiser), [0], 0.5), x0, known)
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
    plain, half = (_cached(denoiser, engine)(state).log_probs() for engine in (None, Engine(denoiser, False)))
    assert half.dtype == plain.dtype
    assert not torch.equal(half, plain)
    assert float((half.exp() - plain.exp()).abs().max()) < 0.05
    assert _last_tokens(denoiser, _cached(denoiser, Engine(denoiser, False)), x0, known).shape == (3, L)


def test_a_prediction_of_a_fixed_trajectory_is_that_of_its_position(denoiser):
    """And stays so when later positions are written to the same places."""
    x0, known = torch.zeros(3, L, dtype=torch.long), torch.zeros(3, L, dtype=torch.bool)
    method, found = denoiser.method, []
    for networks in ([], [_cached(denoiser)]):
        rng = Rng.per_row(range(3))
        what = bind_step(method), method.prior(x0, known, rng), method.timesteps(1, L), rng
        steps = sample_causally(networks, networks[0], *what, graph=False) if networks else sample(denoiser, *what)
        with torch.no_grad():
            found.append([step.prediction.log_probs()[:, i] for i, step in enumerate(list(steps)[:-1])])
    for plain, fixed in zip(*found, strict=True):
        torch.testing.assert_close(fixed, plain, rtol=1e-4, atol=1e-5)
