"""Token identifiability: what Gaussian noise does to the identity of a token."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

_NODES = torch.linspace(-12, 12, 2401, dtype=torch.float64)  # trapezoid on a Gaussian weight: exact to rounding
_WEIGHTS = torch.exp(-_NODES.square() / 2) * (_NODES[1] - _NODES[0]) / math.sqrt(2 * math.pi)


def corruption(sigma: Float[Tensor, "N"], vocab_size: int) -> Float[Tensor, "N"]:
    """rho = 1 - E_u[Phi(u + 1/sigma)^(V-1)], integrated as -expm1 so that a tiny rho is still right."""
    nodes, weights = _NODES.to(sigma.device), _WEIGHTS.to(sigma.device)
    log_wins = (vocab_size - 1) * torch.special.log_ndtr(nodes + 1 / sigma.double()[:, None])
    return (weights * -torch.expm1(log_wins)).sum(-1)


def survival(sigma: Float[Tensor, "N"], vocab_size: int) -> Float[Tensor, "N"]:
    """1 - rho = E_u[Phi(u + 1/sigma)^(V-1)]: the chance that the noisy one-hot vector is still largest at its token."""
    nodes, weights = _NODES.to(sigma.device), _WEIGHTS.to(sigma.device)
    log_wins = (vocab_size - 1) * torch.special.log_ndtr(nodes + 1 / sigma.double()[:, None])
    return (weights * log_wins.exp()).sum(-1)


def survival_slope(sigma: Float[Tensor, "N"], vocab_size: int) -> Float[Tensor, "N"]:
    """d(1 - rho)/dsigma = -(V-1)/sigma^2 E_u[Phi(u + 1/sigma)^(V-2) phi(u + 1/sigma)]."""
    nodes, weights = _NODES.to(sigma.device), _WEIGHTS.to(sigma.device)
    shifted = nodes + 1 / sigma.double()[:, None]
    log_density = -shifted.square() / 2 - math.log(2 * math.pi) / 2
    log_terms = (vocab_size - 2) * torch.special.log_ndtr(shifted) + log_density
    return -(vocab_size - 1) / sigma.double().square() * (weights * log_terms.exp()).sum(-1)
