"""Several processes at one experiment: they share it, and they stop together."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from candi.evaluation.table import read_lines
from candi.reproduce.experiment import experiments
from candi.reproduce.ledger import Ledger

pytestmark = pytest.mark.usefixtures("cache")
RUNS = ["candi", "mdlm"]


def _command(folder: Path, steps: int) -> list[str]:
    values = yaml.safe_load(experiments()["text8"].read_text())
    values["claims"] = values["advice"] = []
    toy = values["scales"]["toy"]
    toy["train"] |= {"steps": steps, "checkpoint_every": steps}
    values["scales"] = {"toy": {**toy, "runs": RUNS, "sweeps": ["methods"]}}
    (folder / "mine.yaml").write_text(yaml.dump(values))
    return [sys.executable, "-m", "candi", "reproduce", str(folder / "mine.yaml"), "--scale", "toy", "--jobs", "2",
            "--out", str(folder / "w"), "--results", str(folder / "r"), "--device", "cpu"]  # fmt: skip


def _both_train(folder: Path) -> bool:
    files = [folder / "w" / run / "metrics.csv" for run in RUNS]
    return all(file.exists() and file.read_text().count("\n") > 1 for file in files)


def _wait(happened, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


def _at_it(folder: Path) -> list[int]:
    """Processes whose log is open: those of this experiment that nobody sees."""
    log, found = str(folder / "w" / "jobs" / "2.log"), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(file) == log for file in (process / "fd").iterdir()):
                found.append(int(process.name))
        except OSError:  # it has ended, or is somebody else's
            continue
    return found


def test_two_share_the_work_and_the_times_say_so(tmp_path):
    done = subprocess.run(_command(tmp_path, 10), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ledger = Ledger(tmp_path / "r" / "mine-toy" / "ledger.jsonl").entries()
    assert sorted(entry["run"] for entry in ledger if entry["stage"] == "train") == RUNS
    assert {entry["shared"] for entry in ledger} == {2}
    assert {line["card"]["run"] for line in read_lines(tmp_path / "r" / "mine-toy" / "methods.jsonl")} == set(RUNS)
    told = (tmp_path / "w" / "jobs" / "2.log").read_text()
    assert all((f"{run}: training" in done.stderr) != (f"{run}: training" in told) for run in RUNS)  # each once


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_they_stop_together_and_nothing_is_lost(tmp_path, number):
    process = subprocess.Popen(_command(tmp_path, 20_000), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _wait(lambda: _both_train(tmp_path))
    assert _at_it(tmp_path)
    process.send_signal(number)
    assert process.wait(timeout=120) == (130 if number == signal.SIGTERM else -number)
    _wait(lambda: not _at_it(tmp_path))
    saved = [run for run in RUNS if list((tmp_path / "w" / run / "checkpoints").glob("step-*"))]
    # whoever is killed saves nothing; the other one is asked to stop, and saves
    assert saved == RUNS if number == signal.SIGTERM else len(saved) == 1
