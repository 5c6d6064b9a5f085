"""First-hitting sampling: one position a step, at the time at which it would be revealed."""

import torch

from candi.base.rng import Rng
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.kernels import masked
from candi.diffusion.methods import METHODS
from candi.diffusion.schedules import LinearAlpha
from tests.diffusion.test_exact import TOY, N


def test_first_hitting_reveals_one_position_a_step_and_loses_nothing(double):
    """Masked diffusion with the exact posterior: as many evaluations as positions, and the truth to the sampling floor,

    where even times are still away. 0.002 above the largest of twenty samples of the truth itself.
    """
    floor = max(TOY.distance(TOY.truth(N, seed)) for seed in range(20))
    method = METHODS["mdlm"]().build(TokenEmbedding(TOY.vocab_size, 8))
    assert TOY.distance(TOY.sample(method, N, 1, order="first-hitting")) < floor + 0.002
    assert TOY.distance(TOY.sample(method, N, TOY.length, order="random")) > floor + 0.05
    candi = METHODS["candi"](rank_min=0.01, rank_max=0.48).build(TokenEmbedding(TOY.vocab_size, 8))
    walked, even = (TOY.distance(TOY.sample(candi, N, TOY.length, order=one)) for one in ("first-hitting", "random"))
    assert walked < even - 0.02


def test_first_hitting_times_are_those_of_many_small_steps(double):
    """Of 3 open positions at t = 0.8 the first is revealed at s: P(s < x) = (x/0.8)^3 for linear alpha.

    The largest distance of 20,000 draws' distribution from it is below 0.0136 with probability 0.999 (Kolmogorov).
    """
    known = torch.tensor([[True, False, False, False]]).expand(20_000, -1)
    t = torch.full((20_000,), 0.8)
    s, here = masked.first_hit(known, LinearAlpha(), t, Rng.from_seed(0))
    assert torch.equal(here.sum(-1), torch.ones(20_000, dtype=torch.long))
    assert not here[:, 0].any()
    assert (here.double().mean(0)[1:] - 1 / 3).abs().max() < 0.012  # 3.6 standard errors
    ranks = (s / 0.8).sort().values ** 3
    assert (ranks - torch.linspace(0, 1, 20_000)).abs().max() < 0.0136
    s, here = masked.first_hit(torch.ones(2, 3, dtype=torch.bool), LinearAlpha(), torch.ones(2), Rng.from_seed(0))
    assert not here.any()
    assert not s.any()
