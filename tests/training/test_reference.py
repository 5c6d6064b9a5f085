"""Seeded runs give what they gave in version 0.1: losses, samples, and a run that was continued.

reference.json was written by version 0.1, in float64. Losses are kept in float32, whose last digits may differ.
"""

import json
from pathlib import Path

import pytest

import candi
from candi.diffusion.methods import METHODS
from tests.training.runs import losses, train_here

pytestmark = [pytest.mark.usefixtures("cache"), pytest.mark.quick]
REFERENCE = json.loads(Path(__file__).with_name("reference.json").read_text())
CASES = {
    **{method: {"method": method} for method in METHODS},
    "candi onehot": {"method": "candi", "candi__space": "onehot"},
    "candi independent": {"method": "candi", "candi__independent": "true"},
}


@pytest.mark.parametrize("case", CASES)
def test_losses_and_samples_are_those_of_the_first_version(tmp_path, case):
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog and runs away " * 40)
    given = {"data": text, "checkpoint_every": 6, "log_every": 4, "validate_every": 12, "precision": "float64",
             "model__convolution": 3, "learning_rate": 0.01, "warmup": 2, **CASES[case]}  # fmt: skip
    for steps in (12,) if case == "duo" else (6, 12):  # a curriculum is measured against the steps
        train_here(tmp_path / "run", steps=steps, **given)
    found = [[float(x or 0) for x in row] for row in losses(tmp_path / "run")[1:]]
    for row, expected in zip(found, REFERENCE[case]["losses"], strict=True):
        assert row == pytest.approx(expected, rel=1e-6)
    model = candi.load(tmp_path / "run", "cpu")
    model.denoiser.double()
    grid = {"grid": "time"} if "grid" in model.denoiser.method.options else {}  # there was no other
    assert model.sample(2, steps=6, seed=1, temperature=0.7, **grid).tolist() == REFERENCE[case]["samples"]


def test_there_is_a_reference_for_every_method():
    assert METHODS.keys() <= REFERENCE.keys()
