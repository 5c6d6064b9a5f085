"""No tensor of size V per position: projected noise against explicit one-hot noise at GPT-2's vocabulary."""

import os
import subprocess
import sys

import pytest

# Peak resident memory of one training step above what is there before it (weights, gradients, optimizer state; the
# libraries warmed up by a step of a small model). Large blocks go back to the system at once: MALLOC_*_THRESHOLD_.
_STEP = """
import sys
import torch
from candi.diffusion.methods import CandiSettings
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiTSettings
from candi.base.rng import Rng
from candi.training.objective import DenoisingObjective

def objective(vocab_size, space):
    settings = CandiSettings(space=space)
    config = ModelConfig(vocab_size, 128, "candi", settings, DiTSettings(width=128, blocks=2, heads=4))
    return DenoisingObjective(Denoiser.build(config))

def step(model, vocab_size):
    model(torch.randint(vocab_size, (4, 128)), range(4), 4, Rng.from_seed(0)).mean().backward()

def status(name):
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(name))

def peak(space):
    step(objective(300, space), 300)
    model = objective(50_257, space)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.step()
    open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
    before = status("VmRSS")
    step(model, 50_257)
    optimizer.step()
    return status("VmHWM") - before

print(*map(peak, sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def peaks() -> dict[str, int]:
    """Of each space, one after another in a process of their own: the explicit noise last."""
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_TRIM_THRESHOLD_": "1048576"}
    spaces = ["projected", "embedding", "onehot"]
    done = subprocess.run(
        [sys.executable, "-c", _STEP, *spaces], env=environment, capture_output=True, text=True, check=True
    )
    return dict(zip(spaces, map(int, done.stdout.split()), strict=True))


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="needs Linux to reset the peak of memory")
@pytest.mark.parametrize("space", ["projected", "embedding"])
def test_a_training_step_peaks_below_a_quarter_of_explicit_noise(space, peaks):
    """V = 50,257, D = 128, 4 x 128 tokens."""
    assert 0 < peaks[space] < 0.25 * peaks["onehot"]
