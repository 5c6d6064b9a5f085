"""Classifiers: gradients wherever they are."""

import copy

import torch

from candi.nets.classifier import Classifier
from candi.nets.dit import DiTSettings


def test_a_recurrent_classifier_that_is_done_learning_still_gives_its_gradient():
    """cuDNN gives none outside of training: whoever guides would learn it in the middle of a trajectory."""
    torch.manual_seed(0)
    trunk = DiTSettings(width=8, blocks=2, heads=2)
    classifier = Classifier(7, trunk, time_conditioned=False, kind="recurrent")
    inputs = torch.nn.functional.one_hot(torch.randint(7, (3, 5)), 7).float().requires_grad_()

    def liked(some: torch.Tensor) -> torch.Tensor:
        return classifier(some, torch.zeros(3))[:, 1].sum()

    classifier.eval()
    assert not classifier.trunk.training
    assert classifier.trunk.cells.training
    assert copy.deepcopy(classifier).eval().trunk.cells.training
    (done,) = torch.autograd.grad(liked(inputs), inputs)
    classifier.train()
    (learning,) = torch.autograd.grad(liked(inputs), inputs)
    atol = 1e-3  # the central difference is right to the step squared, 1e-4
    assert torch.allclose(done, learning, atol=atol)
    step, direction = 1e-2, 3 * torch.randn(inputs.shape)
    with torch.no_grad():
        rise = liked(inputs + step * direction) - liked(inputs - step * direction)
    assert torch.allclose(rise / (2 * step), (done * direction).sum(), atol=atol)
    assert (done * direction).sum().abs() > 2 * atol
