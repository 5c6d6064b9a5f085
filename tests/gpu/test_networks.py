"""Networks made ready to sample, and the gradients of classifiers."""

import torch

from candi.base.rng import Rng
from candi.diffusion.methods import METHODS
from candi.nets.classifier import Classifier
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiTSettings
from candi.nets.engine import Engine
from tests.gpu import DEVICE, GPU


def _denoiser(name: str) -> Denoiser:
    torch.manual_seed(0)
    trunk = DiTSettings(width=64, blocks=2, heads=2)
    denoiser = Denoiser.build(ModelConfig(50, 16, name, METHODS[name](), trunk)).to(DEVICE).eval()
    for parameter in denoiser.parameters():  # also of gates and head, which start at zero
        parameter.data.add_(0.05 * torch.randn_like(parameter))
    return denoiser


def _features(denoiser: Denoiser, network: Denoiser | Engine) -> torch.Tensor:
    x0 = torch.randint(50, (4, 16), generator=torch.Generator().manual_seed(0)).to(DEVICE)
    t = torch.linspace(0.1, 1, 4, device=DEVICE)
    with torch.no_grad():
        return network(denoiser.method.corrupt(x0, t, Rng.from_seed(0, DEVICE))).features.float()


def test_compiled_and_replayed_features_are_the_same_again():
    """bf16 has 8 bits: after two blocks features differ by a percent or so of their size; replayed, not at all."""
    for name in ("candi", "mdlm", "udlm"):
        denoiser = _denoiser(name)
        engine, plain = Engine(denoiser, compile=GPU), _features(denoiser, denoiser)
        first, again = (_features(denoiser, engine) for _ in range(2))
        assert 0 < float((plain - first).norm() / plain.norm()) < 0.02
        assert torch.equal(first, again)


def test_a_recurrent_classifier_that_is_done_learning_still_gives_its_gradient():
    """cuDNN gives none outside of training. In TF32 products are rounded to 1e-3 of their size."""
    trunk = DiTSettings(width=8, blocks=2, heads=2)
    classifier = Classifier(7, trunk, time_conditioned=False, kind="recurrent").to(DEVICE)
    inputs = torch.nn.functional.one_hot(torch.randint(7, (3, 5)), 7).float().to(DEVICE).requires_grad_()

    def gradient() -> torch.Tensor:
        liked = classifier(inputs, torch.zeros(3, device=DEVICE))[:, 1].sum()
        return torch.autograd.grad(liked, inputs)[0]

    classifier.eval()
    done = gradient()
    classifier.train()
    learning = gradient()
    assert float(learning.norm()) > 0
    assert float((done - learning).norm()) < 1e-2 * float(learning.norm())
