"""From text to samples: every method learns, resumes to the bit, samples the same again, and can be guided."""

import csv
import tempfile
from pathlib import Path

import torch

import candi
from candi.diffusion.guidance import guide_for
from candi.diffusion.methods import METHODS
from candi.model.model import Model
from tests.gpu import DEVICE, GPU
from tests.gpu.test_kernels import default_device

TEXT = "the quick brown fox jumps over the lazy dog and runs away " * 60


def _fit(folder: Path, out: str, name: str, steps: int, **more: object) -> Model:
    """Whatever the settings, the same from the same seed."""
    text = folder / "text.txt"
    text.write_text(TEXT)
    data = candi.load_dataset(str(text), "char", length=32, cache=folder)
    torch.manual_seed(0)
    trunk = candi.DiTSettings(width=64, blocks=2, heads=2)
    options = {"curriculum": 0.0} if name == "duo" else {}  # its inputs would become harder while it learns
    config = candi.ModelConfig(data.tokenizer.vocab_size, 32, name, METHODS[name](**options), trunk)
    settings = {
        "steps": steps, "batch_size": 16, "checkpoint_every": 8, "log_every": 4, "validate_every": 0,
        "sample_every": 0, "device": DEVICE, "learning_rate": 3e-3, "warmup": 4, "ema": 0.9, "compile": False,
    }  # fmt: skip
    return candi.fit(candi.Denoiser.build(config), data, out=folder / out, **settings | more)


def _losses(folder: Path) -> list[tuple[str, str]]:
    return [(row["step"], row["loss"]) for row in csv.DictReader((folder / "metrics.csv").open())]


def test_every_method_learns_and_samples_the_same_again():
    for name in METHODS:
        with tempfile.TemporaryDirectory() as folder:
            model = _fit(Path(folder), "run", name, 24)
            losses = [float(loss) for _, loss in _losses(Path(folder) / "run")]
            assert losses[-1] < losses[0], name
            first, again = (model.sample(4, steps=4, seed=1) for _ in range(2))
            assert torch.equal(first, again), name
            assert torch.equal(model.sample(2, steps=4, seed=1), first[:2]), f"{name}: a row depends on its batch"


def test_a_run_that_is_stopped_and_continued_ends_with_the_same_weights():
    """To the bit, compiled and with dropout: the default on a GPU is deterministic."""
    for name in ("candi", "mdlm", "ar"):
        with tempfile.TemporaryDirectory() as folder:
            whole = _fit(Path(folder), "whole", name, 16, compile=GPU)
            _fit(Path(folder), "parts", name, 8, compile=GPU)
            parts = _fit(Path(folder), "parts", name, 16, compile=GPU)
            theirs = parts.denoiser.state_dict()
            for key, value in whole.denoiser.state_dict().items():
                assert torch.equal(value, theirs[key]), (name, key)


def test_the_default_device_makes_no_difference():
    with tempfile.TemporaryDirectory() as folder:
        model = _fit(Path(folder), "run", "candi", 4)
        plain = model.sample(3, steps=3, seed=2)
        with default_device(DEVICE):
            assert torch.equal(model.sample(3, steps=3, seed=2), plain)
            for name in ("candi", "duo", "ar"):
                _fit(Path(folder), name, name, 4).sample(2, steps=2)


def test_guidance_runs_where_the_model_is():
    """By a gradient and by the exact discrete form; a wish for one letter makes it more frequent."""
    for name in ("candi", "mdlm"):
        with tempfile.TemporaryDirectory() as folder:
            model = _fit(Path(folder), "run", name, 4)
            letter = int(model.tokenizer.encode("z")[0])
            tilt = 8.0 if name == "candi" else 0.0

            def liked(x: torch.Tensor, t: torch.Tensor, letter: int = letter) -> torch.Tensor:
                return x[:, :, letter].sum(-1)

            guide = guide_for(model.denoiser.method, liked, 8.0, reveal=tilt, first_order=False)
            count = [int((model.sample(8, steps=8, seed=0, guide=g) == letter).sum()) for g in (None, guide)]
            assert count[1] > count[0], (name, count)


def test_a_step_that_is_recorded_and_replayed_is_the_same_step():
    """For every method, with dropout and averages, compiled or not; what cannot be recorded is not."""
    for name in METHODS:
        for compile in (False, GPU) if name in ("candi", "ar") else (False,):
            with tempfile.TemporaryDirectory() as folder:
                found = [
                    _fit(Path(folder), f"{record}", name, 12, compile=compile, record=record).denoiser.state_dict()
                    for record in (False, True)
                ]
                for key, value in found[0].items():
                    difference = float((value.double() - found[1][key].double()).norm())
                    assert difference <= 1e-5 * float(value.double().norm()) + 1e-12, (name, compile, key)
