"""Few steps of every method, as it comes, against the exact posterior: no baseline is handicapped unseen."""

import pytest
import torch

from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.methods import DUO, METHODS, UDLM
from candi.diffusion.schedules import LinearAlpha, even_in, timesteps
from tests.toys import Toy

TOYS = {4: Toy(vocab_size=4), 6: Toy(vocab_size=6), 27: Toy(vocab_size=27, length=2, support=60)}
N = 4000  # the truth itself, in so many samples, is .03, .03 and .05 away
STEPS = 8

# Total variation after 8 steps, as measured, and .03 for chance: twice what two seeds differ by. Of one-hot diffusion
# and CANDI the prior N(0, sigma^2) leaves most of it (tests/diffusion/test_prior.py).
BARS = {
    "candi": {4: 0.17, 6: 0.18, 27: 0.13},
    "mdlm": {4: 0.08, 6: 0.19, 27: 0.14},
    "udlm": {4: 0.11, 6: 0.14, 27: 0.15},
    "duo": {4: 0.11, 6: 0.14, 27: 0.15},
    "onehot": {4: 0.19, 6: 0.24, 27: 0.27},
    "embedding": {4: 0.07, 6: 0.07, 27: 0.08},
    "ar": {4: 0.06, 6: 0.05, 27: 0.07},
}


def _method(name: str, size: int):
    torch.manual_seed(0)
    return METHODS[name]().build(TokenEmbedding(size, 32)).eval()


def _distance(name: str, size: int, **options: str) -> float:
    return TOYS[size].distance(TOYS[size].sample(_method(name, size), N, STEPS, **options))


@pytest.mark.parametrize("size", TOYS)
@pytest.mark.parametrize("name", METHODS)
def test_few_steps_come_as_near_as_they_can(double, name, size):
    assert _distance(name, size) < BARS[name][size]


@pytest.mark.parametrize("size", TOYS)
@pytest.mark.parametrize("name", [name for name in METHODS if "grid" in _method(name, 4).options])
def test_no_other_grid_is_better(double, name, size):
    """Than the one a method takes by itself, by more than chance."""
    own = _distance(name, size)
    assert all(own < _distance(name, size, grid=grid) + 0.03 for grid in _method(name, size).options["grid"])


@pytest.mark.parametrize("size", [4, 27, 2000, 50257])
def test_duo_walks_through_the_same_marginals_as_uniform_diffusion(double, size):
    """alpha falls by as much in each step: from .001 to .999, as narrowly as its noise is bounded."""
    method = DUO(TokenEmbedding(size, 2))
    falls = method.alpha(method.timesteps(STEPS, 9)).diff()
    assert torch.allclose(falls, torch.full_like(falls, 0.998 / STEPS), atol=1e-6)
    if size <= 27:
        assert abs(_distance("duo", size) - _distance("udlm", size)) < 0.03


def test_half_of_the_even_steps_of_log_snr_lie_in_noise(double):
    """Which is why DUO does not take them: at V = 27 four of eight states keep less than a twentieth of the tokens."""
    method = DUO(TokenEmbedding(27, 2))
    kept = method.alpha(method.timesteps(STEPS, 9, grid="time"))
    assert int((kept[:-1] < 0.05).sum()) >= STEPS // 2


def test_even_steps_of_a_function_of_time(double):
    """t^2 takes even values at square roots; the ends are exact; a linear function gives even steps of t."""

    class Square(LinearAlpha):
        def __call__(self, t):
            return 1 - t**2

    assert torch.allclose(even_in(Square(), 4), torch.tensor([1, 0.75, 0.5, 0.25, 0]).sqrt())
    assert torch.allclose(even_in(UDLM(TokenEmbedding(4, 2)).alpha, 8), timesteps(8))
