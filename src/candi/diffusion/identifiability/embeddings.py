"""Corruption among learned token vectors, where closed form and simulation are not the same number."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candi.base.errors import unknown
from candi.diffusion.identifiability.closed_form import Measure, Values, over_others
from candi.diffusion.identifiability.simulate import simulate_table


def corruption_embedding(
    table: Float[Tensor, "V D"],
    tokens: Int[Tensor, "..."],
    sigma: Values,
    form: Literal["product", "simulated"],
    measure: Measure = "dot",
    draws: int = 1000,
    seed: int = 0,
) -> Float[Tensor, "..."]:
    """[*sigma, *tokens]: rho_omega(i), in one of two forms that are not the same number.

    product: 1 - prod_{j != i} omega(i, j), as if the comparisons were independent. They share their noise: this is no
    identity; where the differences w_j - w_i correlate positively, as among one-hot vectors, it is an upper bound.
    simulated: the share of `draws` noisy vectors that look more like some other token: the truth, up to chance.
    """
    if form == "product":
        return -torch.expm1(over_others(table, tokens, sigma, measure, torch.special.log_ndtr))
    if form == "simulated":
        return simulate_table(table, tokens, sigma, draws, measure, seed).corruption
    raise unknown("form", form, ("product", "simulated"))
