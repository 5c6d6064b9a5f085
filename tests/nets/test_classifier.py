"""Classifiers: gradients wherever they are."""

import copy

import pytest
import torch

from candi.nets.classifier import Classifier
from candi.nets.dit import DiTSettings

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_a_recurrent_classifier_that_is_done_learning_still_gives_its_gradient(device):
    """cuDNN gives none outside of training: whoever guides would learn it in the middle of a trajectory."""
    torch.manual_seed(0)
    trunk = DiTSettings(width=8, blocks=2, heads=2)
    classifier = Classifier(7, trunk, time_conditioned=False, kind="recurrent").to(device)
    inputs = torch.nn.functional.one_hot(torch.randint(7, (3, 5)), 7).float().to(device).requires_grad_()

    def liked(some: torch.Tensor) -> torch.Tensor:
        return classifier(some, torch.zeros(3, device=device))[:, 1].sum()

    classifier.eval()
    assert not classifier.trunk.training
    assert classifier.trunk.cells.training
    assert copy.deepcopy(classifier).eval().trunk.cells.training
    (done,) = torch.autograd.grad(liked(inputs), inputs)
    classifier.train()
    (learning,) = torch.autograd.grad(liked(inputs), inputs)
    # a GPU multiplies in TF32, which rounds to 1e-3; the central difference is right to the step squared, 1e-4
    atol = 2e-2 if device == "cuda" else 1e-3
    assert torch.allclose(done, learning, atol=atol)
    step, direction = 1e-2, 3 * torch.randn(inputs.shape).to(device)  # the same direction on every device
    with torch.no_grad():
        rise = liked(inputs + step * direction) - liked(inputs - step * direction)
    assert torch.allclose(rise / (2 * step), (done * direction).sum(), atol=atol)
    assert (done * direction).sum().abs() > 2 * atol
