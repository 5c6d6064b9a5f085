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
from candi.methods import CandiSettings
from candi.nets.denoiser import Denoiser
from candi.nets.transformer import TrunkSettings
from candi.rng import Rng
from candi.training.objective import Objective

def objective(vocab_size):
    settings = CandiSettings(space=sys.argv[1])
    return Objective(Denoiser.build(vocab_size, TrunkSettings(width=128, blocks=2, heads=4), settings))

def step(model, vocab_size):
    model(torch.randint(vocab_size, (4, 128)), range(4), 4, Rng.from_seed(0)).mean().backward()

def status(name):
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(name))

step(objective(300), 300)
model = objective(50_257)
for parameter in model.parameters():
    parameter.grad = torch.zeros_like(parameter)
optimizer = torch.optim.AdamW(model.parameters())
optimizer.step()
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
before = status("VmRSS")
step(model, 50_257)
optimizer.step()
print(status("VmHWM") - before)
"""


def _peak(space: str) -> int:
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_TRIM_THRESHOLD_": "1048576"}
    done = subprocess.run(
        [sys.executable, "-c", _STEP, space], env=environment, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="needs Linux to reset the peak of memory")
@pytest.mark.parametrize("space", ["projected", "embedding"])
def test_a_training_step_peaks_below_a_quarter_of_explicit_noise(space):
    """V = 50,257, D = 128, 4 x 128 tokens."""
    assert _peak(space) < 0.25 * _peak("onehot")
