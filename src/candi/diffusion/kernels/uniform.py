"""Uniform noise: q(z | x) = alpha 1[z = x] + (1 - alpha)/V. Written for single positions, any shape [...].

The reverse process and the bound take p(x0_i | z_t without i): the leave-one-out posterior, for which both are exact.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from candi.base.rng import Rng


def corrupt(x0: Int[Tensor, "B L"], alpha_t: Float[Tensor, "B"], vocab_size: int, rng: Rng) -> Int[Tensor, "B L"]:
    """z_t ~ q(z_t | x0)."""
    kept = rng.uniform(*x0.shape) < alpha_t[:, None]
    return x0.where(kept, rng.integers(*x0.shape, below=vocab_size))


def log_likelihood(z: Int[Tensor, "B L"], alpha_t: Float[Tensor, "B"], vocab_size: int) -> Float[Tensor, "B L V"]:
    """log q(z | x0 = v) for every v."""
    same = F.one_hot(z, vocab_size).to(alpha_t.dtype)
    alpha_t = alpha_t[:, None, None]
    return (alpha_t * same + (1 - alpha_t) / vocab_size).log()


def posterior(
    z: Int[Tensor, "*N"],
    p: Float[Tensor, "*N V"],
    alpha_t: Float[Tensor, "*N"],
    alpha_s: Float[Tensor, "*N"],
) -> Float[Tensor, "*N V"]:
    """p(z_s | z_t) with a_ts = a_t/a_s, the dense formula that `step` samples from:

    [V a_t p*z + (a_ts - a_t) z + (a_s - a_t) p + (1 - a_ts)(1 - a_s)/V] / [V a_t p_z + 1 - a_t].
    """
    size = p.shape[-1]
    a_t, a_s = alpha_t[..., None], alpha_s[..., None]
    a_ts = a_t / a_s
    here = F.one_hot(z, size).to(p.dtype)
    p_z = (p * here).sum(-1, keepdim=True)
    top = size * a_t * p * here + (a_ts - a_t) * here + (a_s - a_t) * p + (1 - a_ts) * (1 - a_s) / size
    return top / (size * a_t * p_z + 1 - a_t)


def transition(
    z: Int[Tensor, "B L"], log_p: Float[Tensor, "B L V"], alpha_t: Float[Tensor, "B"], alpha_s: Float[Tensor, "B"]
) -> Float[Tensor, "B L V"]:
    """log `posterior` of whole sequences."""
    a_t, a_s = (alpha[:, None].expand(z.shape).to(log_p) for alpha in (alpha_t, alpha_s))
    return posterior(z, log_p.exp(), a_t, a_s).log()


def step(
    z: Int[Tensor, "B L"],
    drawn: Int[Tensor, "B L"],
    p_z: Float[Tensor, "B L"],
    alpha_t: Float[Tensor, "B"],
    alpha_s: Float[Tensor, "B"],
    vocab_size: int,
    rng: Rng,
) -> Int[Tensor, "B L"]:
    """A draw from `posterior` without its V numbers: it is a mixture of staying at z, of p itself and of chance.

    Their weights are V a_t p_z + a_ts - a_t, a_s - a_t and (1 - a_ts)(1 - a_s); `drawn` is a draw of p.
    """
    a_t, a_s = alpha_t[:, None], alpha_s[:, None]
    a_ts = a_t / a_s
    stay, move, chance = vocab_size * a_t * p_z + a_ts - a_t, (a_s - a_t), (1 - a_ts) * (1 - a_s)
    place = rng.uniform(*z.shape).to(p_z.dtype) * (stay + move + chance)
    anything = rng.integers(*z.shape, below=vocab_size)
    return z.where(place < stay, drawn.where(place < stay + move, anything))


def nelbo(
    log_p: Float[Tensor, "N V"],
    x0: Int[Tensor, "N"],
    z: Int[Tensor, "N"],
    alpha_t: Float[Tensor, "N"],
    slope: Float[Tensor, "N"],
) -> Float[Tensor, "N"]:
    """The integrand of the bound. With xb = V a x + 1 - a for x = onehot(x0), and xb^ likewise for p:

    a'/(V a) [ V/xb_z - V/xb^_z - sum_j xb_j/xb_z log( xb^_z xb_j / (xb^_j xb_z) ) ].

    The xb_j sum to V, and only xb_x0 differs from 1 - a, which leaves one sum over V: that of log xb^_j.
    """
    size = log_p.shape[-1]
    a, c = alpha_t.double(), 1 - alpha_t.double()
    peak = size * a + c
    log_guess = (c[:, None].to(log_p) + (size * a)[:, None].to(log_p) * log_p.exp()).log()
    at_x0, at_z = (log_guess.gather(-1, i[:, None])[:, 0].double() for i in (x0, z))
    truth_z = peak.where(z == x0, c)
    entropy = peak * peak.log() + (size - 1) * torch.xlogy(c, c)  # c is 0 where alpha rounds to 1
    cross = c * log_guess.sum(-1).double() + size * a * at_x0
    divergence = (size * (at_z - truth_z.log()) + entropy - cross) / truth_z
    return slope.double() / (size * a) * (size / truth_z - size / at_z.exp() - divergence)


def with_own(log_p: Float[Tensor, "N V"], z: Int[Tensor, "N"], alpha_t: Float[Tensor, "N"]) -> Float[Tensor, "N V"]:
    """log p(x0_i | z) ~ log p(x0_i | z without i) + log q(z_i | x0_i), normalised."""
    size = log_p.shape[-1]
    more = ((alpha_t + (1 - alpha_t) / size) / ((1 - alpha_t) / size).clamp(min=1e-9)).log().to(log_p)
    return torch.log_softmax(log_p.scatter_add(-1, z[:, None], more[:, None]), -1)


def prior_divergence(alpha_1: Float[Tensor, "B"], vocab_size: int) -> Float[Tensor, "B"]:
    """KL(q(z_1 | x0) || uniform), the same for every x0."""
    same, other = alpha_1 + (1 - alpha_1) / vocab_size, (1 - alpha_1) / vocab_size
    return same * (vocab_size * same).log() + (vocab_size - 1) * other * (vocab_size * other).log()


def reconstruction(
    nll_x0: Float[Tensor, "B L"],
    nll_z: Float[Tensor, "B L"],
    same: Tensor,
    alpha_0: Float[Tensor, "B"],
    vocab_size: int,
) -> Float[Tensor, "B L"]:
    """-log p(x0 | z_0) with p(x0 | z) ~ p(x0 | z without i) q(z_i | x0), for alpha_0 < 1."""
    a = alpha_0[:, None]
    likelihood = a * same + (1 - a) / vocab_size
    evidence = a * (-nll_z).exp() + (1 - a) / vocab_size
    return nll_x0 - likelihood.log() + evidence.log()
