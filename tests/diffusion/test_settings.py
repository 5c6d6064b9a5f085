"""What the settings of a method say is what the built method does."""

import pytest
import torch

from candi.base.rng import Rng
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.methods import METHODS
from candi.diffusion.spaces import SPACES

V, D = 20, 8


def _built(name: str, **settings):
    return METHODS[name](**settings).build(TokenEmbedding(V, D))


def _times(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_from_another_method_candi_begins_with_a_gate():
    for name, settings in METHODS.items():
        gate = settings().started_from(METHODS["mdlm"]()) != settings()
        assert gate == (name == "candi")
        assert METHODS["candi"]().started_from(settings()) == METHODS["candi"](gate=name != "candi")


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
def test_the_masking_path(power):
    """rho = .999 t^k."""
    open = _built("candi", mask_power=power).corrupted_fraction(_times(0.25, 1.0))
    torch.testing.assert_close(open, 0.999 * _times(0.25, 1.0) ** power)


@pytest.mark.parametrize(("name", "settings"), [("candi", {"bias_weight": 0.0}), ("onehot", {})])
def test_the_scale_of_noisy_inputs(double, name, settings):
    """Exact, a vector of noise has unit size; in the paper's scale it has P sigma^2/(1 + sigma^2), P = V = 20.

    2,000 positions of 8 dimensions, correlated: a standard error below 3% of the mean, tolerance four.
    """
    for scale, expected in (("exact", 1.0), ("paper", (1 + 20 * 1.0990) / (1 + 1.0990))):  # sigma(1) = 1.0484
        method = _built(name, precondition=scale, space="projected", **settings)
        state = method.prior(torch.zeros(20, 100, dtype=torch.long), torch.zeros(20, 100).bool(), Rng.from_seed(0))
        size = float(method.embed(state).square().sum(-1).mean().detach())
        noise = 20 * 1.0990 / (1 + 20 * 1.0990)  # the prior is noise alone, without the unit of its token
        assert abs(size / (expected * noise) - 1) < 0.12


def test_the_ends_of_the_noise(double):
    """sigma of rank .1 and of .4, of 30 digits; .02 and 3 where the noise itself is set."""
    ends = _times(0.0, 1.0)
    for name in ("candi", "onehot"):
        _, sigma = _built(name, rank_min=0.1, rank_max=0.4).gaussian()
        torch.testing.assert_close(sigma(ends), _times(0.5517583530757576, 2.7910592717830376))
    _, sigma = _built("embedding", sigma_min=0.02, sigma_max=3.0).gaussian()
    torch.testing.assert_close(sigma(ends), _times(0.02, 3.0))
    duo = _built("duo", log_snr_max=4.0, log_snr_min=-2.0)  # log SNR = -2 log sigma
    torch.testing.assert_close(duo.sigma(ends), _times(-2.0, 1.0).exp(), rtol=1e-6, atol=0)


def test_plain_values_arrive():
    for name in SPACES:
        assert type(_built("candi", space=name).space) is SPACES[name]
    for name in ("onehot", "projected"):
        assert type(_built("onehot", space=name).space) is SPACES[name]
    assert type(_built("embedding").space) is SPACES["embedding"]
    candi = _built("candi", bias_weight=0.2, solver="euler", inference="approximate", order="confidence")
    assert (candi.bias_weight, candi.solver, candi.inference, candi.order) == (
        0.2,
        "euler",
        "approximate",
        "confidence",
    )
    late = _built("candi", independent=True, path="late")
    assert (late.path, late.level is None, candi.level is None) == ("late", False, True)
    for name in ("onehot", "embedding"):
        method = _built(name, solver="ancestral", inference="approximate", grid="alpha")
        assert (method.solver, method.inference, method.grid) == ("ancestral", "approximate", "alpha")
    mdlm = _built("mdlm", order="entropy", entropy_bound=0.3, most_remasked=0.2)
    assert (mdlm.order, mdlm.entropy_bound, mdlm.remask, mdlm.most_remasked) == ("entropy", 0.3, "off", 0.2)
    duo = _built("duo", curriculum=0.3, softness=0.2, candidates=7, sampler="greedy", grid="time")
    assert (duo.curriculum, duo.softness, duo.candidates, duo.sampler, duo.grid) == (0.3, 0.2, 7, "greedy", "time")


# a bound, left to right, a clock, noise that looks like something, p(x0_i | z without i), its own steps, a mask vector
DECLARED = {
    "candi": "clock visible mask",
    "mdlm": "bound mask",
    "udlm": "bound clock visible without",
    "duo": "bound clock visible without",
    "onehot": "clock visible",
    "embedding": "clock visible",
    "ar": "bound causal fixed mask",
}
SYMBOLS = {"mdlm": 1, "udlm": 0, "duo": 0}  # beside the tokens, of discrete states


@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_declares(name):
    """Training, sampling, guidance and evaluation go by it."""
    method = _built(name)
    found = {
        "bound": method.bound, "causal": method.causal, "clock": method.time_conditioned,
        "visible": method.noise_is_visible, "without": method.leave_one_out, "fixed": method.fixed_steps,
        "mask": METHODS[name].mask_vector,
    }  # fmt: skip
    assert {word for word, is_so in found.items() if is_so} == set(DECLARED[name].split())
    assert method.extra_symbols == SYMBOLS.get(name)
