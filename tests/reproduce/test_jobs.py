"""Several processes at one experiment: how they begin and how they stop (how they share it: test_large.py)."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from candi.cli import main
from candi.reproduce import jobs
from candi.reproduce.experiment import experiments, read
from candi.reproduce.reproduce import Reproduction

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


def test_times_are_told_with_all_that_share_the_device(tmp_path, monkeypatch):
    """Two commands of three processes each."""
    begun = []
    monkeypatch.setattr(Reproduction, "go", lambda self, only: begun.append((self.shared, only)))
    monkeypatch.setattr("candi.cli.reproduce.beside", lambda count, *rest: nullcontext(begun.append(count)))
    main([*_command(tmp_path, 10)[3:], "--jobs", "3", "--shared", "2", "--runs", "mdlm"])
    assert begun == [2, (6, ["mdlm"])]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_they_stop_together_and_nothing_is_lost(tmp_path, number):
    """Ctrl-C reaches all processes of a terminal, the others the first one alone."""
    process = subprocess.Popen(_command(tmp_path, 20_000), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)  # fmt: skip
    _wait(lambda: _both_train(tmp_path))  # which one of them alone would not do
    assert _at_it(tmp_path)
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    told = process.communicate(timeout=120)[1]
    assert "Traceback" not in told
    assert process.returncode == (-number if number == signal.SIGKILL else 130)
    _wait(lambda: not _at_it(tmp_path))
    saved = [run for run in RUNS if list((tmp_path / "w" / run / "checkpoints").glob("step-*"))]
    # whoever is killed saves nothing; the other one is asked to stop, and saves
    assert len(saved) == 1 if number == signal.SIGKILL else saved == RUNS


def test_asked_to_stop_while_it_waits_for_the_others_it_stops_them(tmp_path, monkeypatch):
    """The block has nothing left to do; a process that would take a minute is ended with it."""
    monkeypatch.setattr(jobs, "_job", _idle)
    toy = read("text8", "toy")
    reproduction = Reproduction(toy, toy.data, tmp_path / "w", tmp_path / "r", "cpu")
    start, before = time.monotonic(), signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), jobs.beside(1, reproduction, []):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    assert time.monotonic() - start < 55
    assert signal.getsignal(signal.SIGTERM) is before


def _idle(*arguments: object) -> None:
    time.sleep(60)
