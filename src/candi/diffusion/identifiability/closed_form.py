"""Token identifiability: what Gaussian noise does to the identity of a token.

Two measures. Discrete identity corruption rho: the chance that *some* wrong token is closest to the noisy vector.
Continuous rank degradation r: the chance that *a given* wrong token is closer than the right one. rho grows with the
vocabulary, r does not; where both must be moderate at once, continuous diffusion on a large vocabulary has no place to
stand (temporal dissonance).

Everything is computed in float64 and is differentiable in sigma. Noise may be a float or a tensor of any shape.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candi.base.errors import UserError, unknown
from candi.diffusion import schedules
from candi.diffusion.spaces import SPACES

Measure = Literal["dot", "l2"]
Values = Tensor | float

# Trapezoid on a Gaussian weight: exact to rounding. Far to the left, because small noise fails there if anywhere.
_NODES = torch.linspace(-38, 12, 5001, dtype=torch.float64, device="cpu")
_WEIGHTS = torch.exp(-_NODES.square() / 2) * 0.01 / math.sqrt(2 * math.pi)
_HELD = 2**22  # numbers at once


def rank(sigma: Values) -> Float[Tensor, "*N"]:
    """r(sigma) = Phi(-1/(sigma sqrt 2)): a given wrong one-hot entry beats the right one. The same for every V."""
    return _phi(-1 / (_positive(sigma) * math.sqrt(2)))


def sigma_of_rank(rank: Values) -> Float[Tensor, "*N"]:
    """sigma(r) = -1/(sqrt 2 Phi^-1(r)), 0 < r < 1/2."""
    value = _double(rank)
    if not bool(((value > 0) & (value < 0.5)).all()):
        raise UserError("A rank degradation must lie in (0, 1/2): at 1/2 nothing of the token is left.")
    return schedules.sigma_of_rank(value)


def corruption(sigma: Values, vocab_size: int) -> Float[Tensor, "*N"]:
    """rho = 1 - E_u[Phi(u + 1/sigma)^(V-1)], integrated as -expm1 so that a tiny rho is still right."""
    return _integral(sigma, vocab_size, lambda log_wins: -torch.expm1(log_wins))


def survival(sigma: Values, vocab_size: int) -> Float[Tensor, "*N"]:
    """1 - rho = E_u[Phi(u + 1/sigma)^(V-1)]: the chance that the noisy one-hot vector is still largest at its token."""
    return _integral(sigma, vocab_size, torch.exp)


def survival_slope(sigma: Values, vocab_size: int) -> Float[Tensor, "*N"]:
    """d(1 - rho)/dsigma = -(V-1)/sigma^2 E_u[Phi(u + 1/sigma)^(V-2) phi(u + 1/sigma)]."""
    _at_least_two(vocab_size)
    sigma = _positive(sigma)
    shifted = _NODES.to(sigma.device) + 1 / sigma[..., None]
    log_density = -shifted.square() / 2 - math.log(2 * math.pi) / 2
    log_terms = (vocab_size - 2) * torch.special.log_ndtr(shifted) + log_density
    return -(vocab_size - 1) / sigma.square() * (_WEIGHTS.to(sigma.device) * log_terms.exp()).sum(-1)


def _integral(sigma: Values, vocab_size: int, function: Callable[[Tensor], Tensor]) -> Float[Tensor, "*N"]:
    """E_u of a function of (V - 1) log Phi(u + 1/sigma): the wrong entries all stay below, given the right one's u."""
    _at_least_two(vocab_size)
    sigma = _positive(sigma)
    nodes, weights = _NODES.to(sigma.device), _WEIGHTS.to(sigma.device)

    def of(some: Tensor) -> Tensor:
        return (weights * function((vocab_size - 1) * torch.special.log_ndtr(nodes + 1 / some[:, None]))).sum(-1)

    return torch.cat([of(some) for some in sigma.reshape(-1).split(_HELD // len(nodes))]).reshape(sigma.shape)


def sigma_of_corruption(corruption: Values, vocab_size: int) -> Float[Tensor, "*N"]:
    """The noise at which rho is reached, 0 < rho < 1 - 1/V: bisection in log sigma, then one step of Newton's, which

    also carries the gradient 1/rho'(sigma).
    """
    _at_least_two(vocab_size)
    rho = _double(corruption)
    if not bool(((rho > 0) & (rho < 1 - 1 / vocab_size)).all()):
        raise UserError(f"An identity corruption must lie in (0, 1 - 1/V) = (0, {1 - 1 / vocab_size:.6g}).")
    with torch.no_grad():
        low, high = torch.full_like(rho, math.log(1e-2)), torch.full_like(rho, math.log(1e9))
        for _ in range(100):
            middle = (low + high) / 2
            above = _corruption(middle.exp(), vocab_size) > rho
            low, high = torch.where(above, low, middle), torch.where(above, middle, high)
        sigma = ((low + high) / 2).exp()
        missed, slope = _corruption(sigma, vocab_size), -survival_slope(sigma, vocab_size)
        slope = torch.where(slope > 0, slope, torch.inf)  # too rare for a better answer
    return sigma + (rho - missed) / slope


_corruption = corruption  # under a name that an argument does not hide


def corruption_from(
    values: Float[Tensor, "... V"], tokens: Int[Tensor, "..."], sigma_from: Values, sigma_to: Values
) -> Float[Tensor, "..."]:
    """rho of a state that is noisy already: values x at noise sigma_from, carried on to sigma_to.

    1 - E_u[prod_{j != i} Phi(u + (x_i - x_j)/s)] with the *added* variance s^2 = sigma_to^2 - sigma_from^2.
    """
    start, end = _double(sigma_from), _positive(sigma_to)
    if not bool(((start >= 0) & (start < end)).all()):
        raise UserError("Noise can only be added: sigma_from must be at least 0 and below sigma_to.")
    _at_least_two(values.shape[-1])
    if values.shape[:-1] != tokens.shape:
        raise UserError(f"The values {list(values.shape)} do not fit the tokens {list(tokens.shape)}.")
    _fit(values.shape[-1], tokens)
    added = ((end - start) * (end + start)).sqrt().to(values.device)
    shape = torch.broadcast_shapes(tokens.shape, added.shape)
    x = values.double().expand(*shape, -1).reshape(-1, values.shape[-1])
    each = zip(x, tokens.expand(shape).reshape(-1), added.expand(shape).reshape(-1), strict=True)
    return torch.stack([_corruption_of(*one) for one in each]).reshape(shape)


def _corruption_of(x: Float[Tensor, "V"], token: Int[Tensor, ""], added: Float[Tensor, ""]) -> Float[Tensor, ""]:
    others = torch.cat([x[:token], x[token + 1 :]])
    margin = (x[token] - others) / added
    nodes, weights = _NODES[::5].to(x.device), 5 * _WEIGHTS[::5].to(x.device)
    log_wins = torch.zeros(len(nodes), dtype=torch.float64, device=x.device)
    for part in margin.split(_HELD // len(nodes)):
        log_wins = log_wins + torch.special.log_ndtr(nodes[:, None] + part).sum(-1)
    return (weights * -torch.expm1(log_wins)).sum()


def win_rate(
    table: Float[Tensor, "V D"],
    i: Int[Tensor, "..."] | int,
    j: Int[Tensor, "..."] | int,
    sigma: Values,
    measure: Measure = "dot",
) -> Float[Tensor, "..."]:
    """omega: the chance that token i, with isotropic noise on its vector, still looks more like i than like j.

    dot: Phi((|w_i|^2 - w_i.w_j)/(sigma |w_i - w_j|)); l2: Phi(|w_i - w_j|/(2 sigma)). The same for equal norms.
    (The paper prints the first with a minus sign and a squared norm; simulation says this.)
    """
    points = _table(table)
    first, second = (torch.as_tensor(index, device=points.device) for index in (i, j))
    _fit(len(points), first)
    _fit(len(points), second)
    own, other = points[first], points[second]
    squared = (own - other).square().sum(-1)
    rate = _phi(_margin((own * own).sum(-1) - (own * other).sum(-1), squared, measure) / _positive(sigma))
    return torch.where(first == second, 1.0, rate)


def _margin(lead: Tensor, squared: Tensor, measure: Measure) -> Tensor:
    """What the win rate is Phi of, at sigma = 1, from |w_i|^2 - w_i.w_j and |w_i - w_j|^2; 0 for equal vectors."""
    if measure not in ("dot", "l2"):
        raise unknown("measure", measure, ("dot", "l2"))
    apart = squared > 0
    distance = torch.where(apart, squared, 1.0).sqrt()  # never the root of 0, whose slope is infinite
    return torch.where(apart, lead / distance if measure == "dot" else distance / 2, 0.0)


def rank_embedding(
    table: Float[Tensor, "V D"], tokens: Int[Tensor, "..."], sigma: Values, measure: Measure = "dot"
) -> Float[Tensor, "..."]:
    """[*sigma, *tokens]: r_omega(i) = mean over j != i of 1 - omega(i, j)."""
    beaten = over_others(table, tokens, sigma, measure, lambda margin: _phi(-margin))
    return beaten / (len(table) - 1)


def network_rank(
    table: Float[Tensor, "V D"],
    sigma: Values,
    space: Literal["onehot", "projected", "embedding"],
    tokens: Int[Tensor, "..."] | None = None,
) -> Float[Tensor, "..."]:
    """[*sigma, *tokens]: the rank degradation that the network sees after the projection by W, by the best test.

    It sees y = w_i + sigma n with n ~ N(0, G), G = W^T W for noise on one-hot vectors and the identity for noise on the
    vectors themselves. The likelihood ratio tells i from j with chance Phi(m/(2 sigma)), m^2 = d^T G^-1 d for
    d = w_i - w_j, so this is mean_j Phi(-m_ij/(2 sigma)): exact for the table. For V <= D and one-hot noise m = sqrt 2
    and it is `rank(sigma)`; for V >> D it leaves m^2 = 2 D/V on average, and the network sees far less than r says.
    """
    points = as_seen(table, space)
    chosen = torch.arange(len(table), device=table.device) if tokens is None else tokens
    beaten = over_others(points, chosen, sigma, "l2", lambda margin: _phi(-margin))
    return beaten / (len(table) - 1)


def as_seen(table: Float[Tensor, "V D"], space: str) -> Float[Tensor, "V K"]:
    """Token vectors in coordinates in which the noise that the network sees is isotropic."""
    if space not in SPACES:
        raise unknown("space", space, SPACES)
    return _table(table) if SPACES[space].isotropic else whitened(table)


def whitened(table: Float[Tensor, "V D"]) -> Float[Tensor, "V K"]:
    """W G^-1/2 up to a rotation: token vectors in coordinates in which noise of covariance W^T W is isotropic.

    An orthonormal basis of W's columns, so the lengths of W's directions do not matter, however small.
    """
    points = _table(table)
    if points.shape[1] == 0 or not bool(points.isfinite().all()):
        raise UserError("A table of token vectors needs numbers in it, all of them finite.")
    rank = int(torch.linalg.matrix_rank(points.detach()))
    if rank == len(points):
        return torch.eye(rank, dtype=points.dtype, device=points.device)
    if rank == points.shape[1]:
        return torch.linalg.qr(points).Q
    return torch.linalg.svd(points, full_matrices=False).U[:, :rank]


def over_others(
    table: Tensor, tokens: Tensor, sigma: Values, measure: Measure, function: Callable[[Tensor], Tensor]
) -> Float[Tensor, "..."]:
    """sum over j != i of function(margin_ij/sigma) [*sigma, *tokens], a part of the pairs at a time."""
    points, noise = _table(table), _positive(sigma).to(table.device)
    _fit(len(points), tokens)
    norms = points.square().sum(-1)
    sums = []
    for chosen in tokens.reshape(-1).split(max(1, _HELD // len(points))):
        product = points[chosen] @ points.T
        size = norms[chosen][:, None] + norms
        squared = size - 2 * product
        squared = torch.where(squared > 1e-13 * size, squared, 0.0)  # rounding alone: the same vector
        margin = _margin(norms[chosen][:, None] - product, squared, measure)
        others = torch.ones_like(margin).scatter(-1, chosen[:, None], 0.0)
        sums.append(torch.stack([(function(margin / s) * others).sum(-1) for s in noise.reshape(-1)]))
    return torch.cat(sums, -1).reshape((*noise.shape, *tokens.shape))


def _phi(x: Tensor) -> Tensor:
    """Phi. torch's own ndtr loses the lower tail: it is made of 1 + erf."""
    return torch.special.erfc(-x / math.sqrt(2)) / 2


def _table(table: Tensor) -> Tensor:
    if table.dim() != 2 or len(table) < 2:
        raise UserError(f"A table of token vectors has shape [V, D] with V at least 2, not {list(table.shape)}.")
    return table.double()


def _fit(vocab_size: int, tokens: Tensor) -> None:
    if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size:
        raise UserError(f"The tokens do not fit a vocabulary of {vocab_size}.")


def _double(value: Values) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float64)


def _positive(sigma: Values) -> Tensor:
    value = _double(sigma)
    if not bool((value > 0).all()):
        raise UserError("Noise sigma must be above 0.")
    return value


def _at_least_two(vocab_size: int) -> None:
    if vocab_size < 2:
        raise UserError(f"A vocabulary needs at least 2 tokens, not {vocab_size}.")
