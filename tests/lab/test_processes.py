"""Commands that are killed, stopped, or begun several times at once."""

import os
import signal
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml
from candi_lab.cli import main
from candi_lab.runner import jobs
from candi_lab.runner.experiment import experiments, read
from candi_lab.runner.ledger import Ledger
from candi_lab.runner.reference_points import SHUFFLED, TEXT
from candi_lab.runner.runner import Reproduction

from candi.evaluation.points import read_points, write_points
from tests.lab.conftest import reproduce
from tests.lab.processes import start

pytestmark = pytest.mark.usefixtures("cache")
RUNS = ["candi", "mdlm"]


def _wait(happened, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


def _long(folder: Path, text: Path) -> list[str]:
    """Two runs that would train for minutes, by two processes."""
    values = yaml.safe_load(experiments()["text8"].read_text())
    values["claims"] = values["advice"] = []
    toy = values["scales"]["toy"]
    toy["train"] |= {"steps": 20_000, "checkpoint_every": 20_000, "validate_every": 0}
    values["scales"] = {"toy": {**toy, "runs": RUNS, "sweeps": ["methods"]}}
    (folder / "mine.yaml").write_text(yaml.dump(values))
    return reproduce(str(folder / "mine.yaml"), folder, text, "--jobs", "2")


def _both_train(folder: Path) -> bool:
    files = [folder / "work" / run / "metrics.csv" for run in RUNS]
    return all(file.exists() and file.read_text().count("\n") > 1 for file in files)


def _writing_to(log: Path) -> list[int]:
    """Processes that have a file open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(file) == str(log) for file in (process / "fd").iterdir()):
                found.append(int(process.name))
        except OSError:  # it has ended, or is somebody else's
            continue
    return found


def test_killed_and_continued_it_gives_the_same_points(toy, text, tmp_path):
    """Killed after the first sweep of the first run, and again while the second run is under way."""
    ledger = tmp_path / "results" / "text8-toy" / "ledger.jsonl"
    for stages in (2, 4):
        process = start(reproduce("text8", tmp_path, text), tmp_path / "log")
        _wait(lambda stages=stages: ledger.exists() and len(ledger.read_text().splitlines()) >= stages)
        process.kill()
        process.join()
    main(reproduce("text8", tmp_path, text))
    for name in ("methods", "inference"):
        mine, theirs = (read_points(f / "results" / "text8-toy" / f"{name}.jsonl.xz") for f in (tmp_path, toy))
        assert [(one.key, one.measures) for one in mine] == [(one.key, one.measures) for one in theirs]


def test_commands_share_the_work_and_a_run_scores_the_others(text, tmp_path, capsys):
    """Two commands, each with something to do: the scorer is trained once, and so is every other run."""
    flags = reproduce("large", tmp_path, text, "--shared", "2")
    both = [start(flags, tmp_path / name) for name in "ab"]
    for one in both:
        one.join()
    logs = [(tmp_path / name).read_text() for name in "ab"]
    assert [one.exitcode for one in both] == [0, 0], logs
    results = tmp_path / "results" / "large-toy"
    points = read_points(results / "methods.jsonl.xz")
    assert {point.provenance.scorer["scorer"] for point in points} == {"judge"}
    assert all(point.measures["perplexity"] > 1 for point in points)
    assert all(set(point.columns) == {"entropy", "nats", "tokens"} for point in points)
    paths = {point.cell.options.get("path") for point in read_points(results / "path.jsonl.xz")}
    assert paths == {None, "diagonal", "early", "late"}
    ledger = Ledger(results / "ledger.jsonl").entries()
    trained = [entry["run"] for entry in ledger if entry["stage"] == "train"]
    assert sorted(trained) == ["ar", "candi", "candi-free", "judge", "mdlm"]
    assert all(entry["shared"] == 2 for entry in ledger)
    assert all(sum(f"{run}: training" in log for log in logs) == 1 for run in trained)
    others = [run for run in trained if run != "judge"]
    assert all(any(f"{run}: training" in log for run in others) for log in logs)  # both had something to do
    assert all(entry["losses"][-1][0] == 10 for entry in ledger if entry["stage"] == "train")
    marks = {entry["run"]: entry["measures"] for entry in ledger if entry["stage"] == "landmark"}
    assert list(marks) == [TEXT, SHUFFLED]
    assert marks[TEXT]["entropy"] == marks[SHUFFLED]["entropy"]
    assert marks[TEXT]["perplexity"] != marks[SHUFFLED]["perplexity"]
    # on another machine, with nothing but the results: the same scorer, so that points can be compared
    write_points(results / "methods.jsonl.xz", [point for point in points if point.cell.run != "mdlm"])
    main(reproduce("large", tmp_path, text, "--out", str(tmp_path / "elsewhere")))
    name = "CANDI (calibrated), every path"
    assert f"perplexity per token of {name} (early) / {name} (diagonal) (ahead): 4" in capsys.readouterr().out
    assert [path.parent.name for path in (tmp_path / "elsewhere").glob("*/run.json")] == ["mdlm"]
    again = read_points(results / "methods.jsonl.xz")
    assert len({point.provenance.scorer["content"] for point in again}) == 1
    assert [point.measures for point in again] == [point.measures for point in points]


def test_times_are_noted_with_all_that_share_the_device(tmp_path, text, monkeypatch):
    """Two commands of three processes each."""
    begun = []
    monkeypatch.setattr(Reproduction, "go", lambda self, only: begun.append((self.shared, only)))
    monkeypatch.setattr("candi_lab.cli.reproduce.beside", lambda count, *rest: nullcontext(begun.append(count)))
    main(reproduce("text8", tmp_path, text, "--jobs", "3", "--shared", "2", "--runs", "mdlm"))
    assert begun == [2, (6, ["mdlm"])]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_processes_stop_together_and_save_what_they_have(tmp_path, text, number, capfd):
    """Ctrl-C reaches all processes of a terminal, SIGTERM the first one alone."""
    log = tmp_path / "work" / "jobs" / "2.log"

    def stop() -> None:
        _wait(lambda: _both_train(tmp_path))  # which one of them alone would not do
        others = _writing_to(log) if number == signal.SIGINT else []
        for process in [*(one for one in others if one != os.getpid()), os.getpid()]:
            os.kill(process, number)

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(SystemExit) as stopped:
        main(_long(tmp_path, text))
    thread.join()
    assert stopped.value.code == 130
    assert "Traceback" not in capfd.readouterr().err + log.read_text()
    assert not _writing_to(log)
    for run in RUNS:
        (saved,) = (tmp_path / "work" / run / "checkpoints").glob("step-*")
        assert 0 < int(saved.name.removeprefix("step-")) < 20_000  # from here the same command continues
    assert not (tmp_path / "results" / "mine-toy" / "ledger.jsonl").exists()  # half a training is no training


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_process_whose_command_was_killed_saves_and_ends(tmp_path, text):
    command, log = start(_long(tmp_path, text), tmp_path / "log"), tmp_path / "work" / "jobs" / "2.log"
    _wait(lambda: _both_train(tmp_path))
    assert _writing_to(log)
    command.kill()
    command.join()
    _wait(lambda: not _writing_to(log))
    saved = [run for run in RUNS if list((tmp_path / "work" / run / "checkpoints").glob("step-*"))]
    assert len(saved) == 1  # the killed one saves nothing


def test_a_command_that_waits_for_its_processes_stops_them(tmp_path, text, monkeypatch):
    """The block has nothing left to do; a process that would take a minute is ended with it."""
    monkeypatch.setattr(jobs, "_job", _idle)
    reproduction = Reproduction(read("text8", "toy"), str(text), tmp_path / "w", tmp_path / "r", "cpu")
    begun, before = time.monotonic(), signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), jobs.beside(1, reproduction, []):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    assert time.monotonic() - begun < 55
    assert signal.getsignal(signal.SIGTERM) is before


def _idle(*arguments: object) -> None:
    time.sleep(60)
