"""The script that measures bits per character, at toy size, and the page that is made of what it keeps."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from candi_lab.report.bits import write_bits

SCRIPT = Path(__file__).parents[2] / "lab" / "bits.sh"
pytestmark = pytest.mark.usefixtures("cache")


def test_a_run_is_trained_evaluated_and_told_of(tmp_path):
    for name in ("learned.txt", "held.txt"):
        (tmp_path / name).write_text("the quick brown fox jumps over the lazy dog " * 40)
    how = {"STEPS": "4", "WIDTH": "16", "SEQUENCES": "4", "ONLY": "candi-paper", "PYTHON": sys.executable}
    out = tmp_path / "out"
    subprocess.run(
        [str(SCRIPT), str(tmp_path / "learned.txt"), str(tmp_path / "held.txt"), str(out)], check=True,
        env=os.environ | how, capture_output=True, timeout=120,
    )  # fmt: skip
    write_bits(out / "kept", tmp_path / "likelihood.md")
    page = (tmp_path / "likelihood.md").read_text()
    kept = out / "kept" / "candi-paper"
    found = {prior: json.loads((kept / f"{prior}.json").read_text()) for prior in ("normal", "frequencies")}
    for prior, one in found.items():
        line = next(line for line in page.splitlines() if f"| {prior} |" in line)
        assert "CANDI, ranks .05 to .25 (the paper's)" in line
        assert f"at most {one['bits_per_character']:.3f} ± " in line
        assert f"| {one['parts']['gaussian']:.3f} | {one['parts']['prior']:.3f} |" in line
    assert "4 steps of 32 sequences of 64 characters" in page
    assert "| masked (MD4) | at most 1.37 | Shi et al. 2024 |" in page


def test_nothing_is_written_of_nothing(tmp_path):
    write_bits(tmp_path / "none", tmp_path / "page.md")
    assert not (tmp_path / "page.md").exists()
