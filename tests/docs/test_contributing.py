"""CONTRIBUTING.md: its map is true, and its diffs apply and work."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
DIFFS = re.findall(r"```diff\n(.*?)```", PAGE, re.S)
CHECK = """
import sys, torch, candi
from pathlib import Path
assert str(Path(candi.__file__).parents[2]) == sys.argv[1], candi.__file__
from candi.cli import main
from candi.diffusion.schedules import CosineAlpha

t = torch.linspace(0.1, 0.9, 5, dtype=torch.float64)
slope = (CosineAlpha()(t + 1e-6) - CosineAlpha()(t - 1e-6)) / 2e-6
assert torch.allclose(CosineAlpha().derivative(t), slope, atol=1e-8)
candi.MDLM(candi.TokenEmbedding(4, 8), alpha=CosineAlpha())

small = "--preset tiny --data pydoc --steps 4 --validate-every 0 --sample-every 0 --device cpu".split()
main(["train", "--trunk", "gru", "--method", "mdlm", "--model.width", "16", "--out", "runs/gru", *small])
main("evaluate runs/gru --generative --scorers none --n 4 --steps 2 --device cpu".split())

from candi_lab.runner.experiment import read
assert list(read("widths", "toy").runs) == ["narrow", "wide"]
"""


@pytest.mark.parametrize("room", re.findall(r"^\| `([^`]+)` \|", PAGE, re.M))
def test_the_map_is_true(room):
    """Files to the number, lines within a twentieth: they change with every commit."""
    claimed = re.search(rf"^\| `{room}` \|.*\| ([\d,]+) \| ([\d,]+) \|$", PAGE, re.M)
    files, lines = (int(number.replace(",", "")) for number in claimed.groups())
    found = list((ROOT / room).rglob("*.py"))
    total = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in found)
    assert files == len(found), f"{room} has {len(found)} files and {total:,} lines"
    assert abs(lines - total) <= 0.05 * total, f"{room} has {len(found)} files and {total:,} lines"


def test_the_diffs_apply_and_work(tmp_path):
    """A new schedule, trunk, measure and experiment, in a copy of the code."""
    assert len(DIFFS) == 4
    ignored = shutil.ignore_patterns("__pycache__", "models", "*.egg-info")
    shutil.copytree(ROOT / "src" / "candi", tmp_path / "src" / "candi", ignore=ignored)
    shutil.copytree(ROOT / "lab" / "candi_lab", tmp_path / "lab" / "candi_lab", ignore=ignored)
    for number, diff in enumerate(DIFFS):
        assert len([line for line in diff.splitlines() if line.startswith("+")]) <= 32, "a diff of a few lines"
        (tmp_path / f"{number}.diff").write_text(diff)
        applied = subprocess.run(["git", "apply", f"{number}.diff"], cwd=tmp_path, capture_output=True, text=True)
        assert applied.returncode == 0, applied.stderr
    path = os.pathsep.join(str(tmp_path / name) for name in ("src", "lab"))
    done = subprocess.run([sys.executable, "-c", CHECK, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": path, "CANDI_CACHE": str(tmp_path / "cache")})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"^letters in a word +[\d.]+$", done.stdout, re.M)
