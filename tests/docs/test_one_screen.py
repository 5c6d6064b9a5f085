"""docs/one_screen.py: CANDI with library pieces only."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "one_screen.py"


def test_it_trains_and_samples_on_one_screen():
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= 100
    done = subprocess.run([sys.executable, str(PAGE), "40"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, last = (float(loss) for loss in re.findall(r"step \d+: ([\d.]+) nats", done.stdout))
    assert last < first - 0.8  # from log V = 4.6 to below the entropy of single characters
    samples = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert [line[:6] for line in samples] == ["| The "] * 4
