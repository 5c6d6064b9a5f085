"""Sweeps of small runs: whole, killed, shared, refused."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
import torch

from candi.base.errors import UserError
from candi.base.plugins import load_plugin
from candi.cli import main
from candi.cli.frontier import integers, numbers
from candi.diffusion.methods import METHODS
from candi.evaluation import sweep
from candi.evaluation.points import read_points
from candi.evaluation.sweep import Sweep, _finish_share
from candi.evaluation.sweep_settings import SweepSettings
from candi.hub.loading import run_handle
from tests.training.runs import train_here

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(scope="module")
def runs(tmp_path_factory, cache):
    folder = tmp_path_factory.mktemp("runs")
    for method in ("candi", "mdlm", "ar"):
        train_here(folder / method, method=method, steps=30, checkpoint_every=30)
    return folder


def _flags(runs, out, *more):
    sources = [str(runs / name) for name in ("candi", "mdlm", "ar")]
    grid = ["--steps", "2,4", "--temperatures", "0.6:1.0:0.2", "--n", "6", "--device", "cpu"]
    return ["frontier", *sources, "--out", str(out), *grid, "--scorers", str(runs / "ar"), "--words", "pydoc", *more]


@pytest.fixture(scope="module")
def swept(runs, tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep") / "whole"
    main(_flags(runs, out))
    return out


def test_a_sweep_from_runs_to_report(swept):
    points = read_points(swept / "points.jsonl")
    # 2 numbers of steps for each diffusion run; autoregression has its own number, once
    assert [point.cell.method for point in points] == ["candi"] * 6 + ["mdlm"] * 6 + ["ar"] * 3
    assert {point.cell.steps for point in points if point.cell.method == "ar"} == {16}
    assert {point.cell.temperature for point in points} == {0.6, 0.8, 1.0}
    for name in ("frontier.svg", "frontier.png", "frontier.md", "frontier.tex", "report.html"):
        assert (swept / name).stat().st_size > 300
    text = (swept / "frontier.md").read_text()
    assert "## 2 steps" in text
    assert "## 4 steps" in text


def test_every_point_says_how_it_was_made(swept, runs):
    made = read_points(swept / "points.jsonl")[0].provenance.to_json()
    one = run_handle(str(runs / "candi"))
    assert made["checkpoint"] == one.checkpoint
    assert len(made["checkpoint"]) == 64
    known = {
        "run": "candi", "method": "candi", "steps": 2, "temperature": 0.6, "seed": 0, "n": 6, "length": 16, "ema": True,
        "options": {"solver": "ddim", "inference": "exact", "order": "random"}, "draws": "float64",
        "precision": "float32", "device": "cpu", "torch": torch.__version__,
    }  # fmt: skip
    assert known.items() <= made.items()
    assert made["tokenizer"] == one.tokenizer
    assert made["scorer"]["scorer"] == "ar"
    assert {"content", "tokenizer", "precision", "context"} <= made["scorer"].keys()


def test_a_killed_sweep_resumes_to_the_same_file(runs, swept, tmp_path):
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "candi", *_flags(runs, out)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list(out.glob("samples/*.json"))) < 3:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    made = {path: path.stat().st_mtime_ns for path in out.glob("samples/*.json")}
    assert len(made) < 15
    main(_flags(runs, out))
    assert (out / "points.jsonl").read_bytes() == (swept / "points.jsonl").read_bytes()
    assert all(path.stat().st_mtime_ns == moment for path, moment in made.items()), "a finished point was made again"


def test_two_processes_make_the_same_points_and_know_the_plugins_of_the_first(runs, swept, tmp_path, monkeypatch):
    monkeypatch.setenv("CANDI_PLUGINS", "")
    plugin, seen = tmp_path / "mine.py", tmp_path / "seen"
    seen.mkdir()
    plugin.write_text(
        "import os, pathlib\nfrom candi.diffusion.methods import METHODS\nMETHODS['mine'] = METHODS['mdlm']\n"
        f"pathlib.Path({str(seen)!r}, str(os.getpid())).touch()\n"
    )
    try:
        load_plugin(str(plugin))
        main(_flags(runs, tmp_path / "two", "--workers", "2"))
    finally:
        METHODS.pop("mine", None)
    assert (tmp_path / "two" / "points.jsonl").read_bytes() == (swept / "points.jsonl").read_bytes()
    assert len({path.name for path in seen.iterdir()} - {str(os.getpid())}) >= 1, "a process did not run the plugin"


def test_a_further_scorer_uses_the_samples_that_are_there(runs, swept, tmp_path, capsys):
    out = shutil.copytree(swept, tmp_path / "again")
    moments = {path: path.stat().st_mtime_ns for path in out.glob("samples/*.json")}
    train_here(tmp_path / "other", method="ar", steps=2, seed=5)
    main([*_flags(runs, out), "--scorers", f"{runs / 'ar'},{tmp_path / 'other'}"])
    assert moments == {path: path.stat().st_mtime_ns for path in out.glob("samples/*.json")}
    points = read_points(out / "points.jsonl")
    assert all("perplexity:other" in point.measures for point in points)
    assert "Rank correlation of ar and" in (out / "frontier.md").read_text()


def test_options_are_further_axes_for_whoever_has_them(runs, tmp_path):
    settings = SweepSettings(
        [run_handle(str(runs / name)) for name in ("candi", "mdlm")],
        tmp_path,
        steps=(2,),
        options={"inference": ("exact", "approximate"), "order": ("confidence",)},
    )
    found = [(cell.method, dict(cell.options)) for _, cell in Sweep(settings).cells]
    assert found == [
        ("candi", {"solver": "ddim", "inference": "exact", "order": "confidence"}),
        ("candi", {"solver": "ddim", "inference": "approximate", "order": "confidence"}),
        ("mdlm", {"order": "confidence", "remask": "off"}),
    ]
    found = Sweep(replace(settings, options={"order": ("entropy", "random")})).cells
    orders = [(cell.method, cell.options["order"]) for _, cell in found]
    assert orders == [("candi", "random"), ("mdlm", "entropy"), ("mdlm", "random")]  # what a run has not is for others
    with pytest.raises(UserError, match="None of these runs"):
        Sweep(replace(settings, options={"sampler": ("greedy",)}))
    with pytest.raises(UserError, match="cannot be 'guess'"):
        Sweep(replace(settings, options={"inference": ("guess",)}))


def test_points_of_earlier_sweeps_are_compared_but_only_if_their_provenance_agrees(runs, swept, tmp_path, capsys):
    main(["frontier", str(swept / "points.jsonl"), "--out", str(tmp_path / "again")])
    assert (tmp_path / "again" / "frontier.md").read_bytes() == (swept / "frontier.md").read_bytes()
    lines = [json.loads(line) for line in (swept / "points.jsonl").read_text().splitlines()]
    for field, value in (("n", 7), ("length", 32), ("tokenizer", "other"), ("draws", "float32"), ("scorer", None)):
        other = tmp_path / f"{field}.jsonl"
        changed = [line | {"provenance": line["provenance"] | {"run": "other", field: value}} for line in lines[:3]]
        other.write_text("".join(json.dumps(line) + "\n" for line in changed))
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit:
            main(["frontier", str(swept / "points.jsonl"), str(other), "--out", str(tmp_path / "x")])
        assert exit.value.code == 2
        assert f"cannot be compared: their {field} differs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--steps", "8,x"], "no list of whole numbers"),
        (["--steps", "0"], "at least 1"),
        (["--temperatures", "1:0:0.1"], "no range"),
        (["--temperatures", "0"], "above 0"),
        (["--n", "1"], "at least 2"),
        (["--workers", "0"], "at least 1"),
        (["--scorers", "none", "--mauve", "pydoc"], "needs --scorers"),
        (["--scorers", "none", "--quality", "beauty"], "no measure of quality"),
        (["--scorers", "none", "--quality", "perplexity"], "cannot be measured without --scorers"),
        (["--words", "nothing.txt"], "no file or folder"),
        (["--context", "1"], "at least 2"),
        (["--length", "0"], "at least 1"),
        (["--precision", "half"], "no precision"),
        (["--device", "tpu"], "no device"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_a_sentence(runs, tmp_path, capsys, flags, complaint):
    with pytest.raises(SystemExit) as exit:
        main(["frontier", str(runs / "mdlm"), "--out", str(tmp_path / "x"), "--steps", "1", "--temperatures", "1",
              "--n", "2", "--words", "pydoc", *flags])  # fmt: skip
    assert exit.value.code == 2
    assert complaint in capsys.readouterr().err.splitlines()[-1]


def test_two_runs_of_one_name_and_no_runs_at_all(runs, tmp_path):
    with pytest.raises(UserError, match="Two runs are called"):
        SweepSettings([run_handle(str(runs / "ar"))] * 2, tmp_path)
    with pytest.raises(UserError, match="at least one run"):
        SweepSettings([], tmp_path)
    with pytest.raises(UserError, match="There is no run"):
        run_handle(str(tmp_path / "nothing"))


def test_damage_is_named_and_a_folder_that_cannot_be_made(runs, tmp_path, capsys):
    out = tmp_path / "sweep"
    flags = ["frontier", str(runs / "mdlm"), "--steps", "1", "--temperatures", "0.5,1", "--n", "2", "--words", "pydoc"]
    main([*flags, "--out", str(out)])
    broken = next(out.glob("samples/*.json"))
    broken.write_text(broken.read_text()[:50])
    (tmp_path / "file").write_text("x")
    (tmp_path / "bad.jsonl").write_text('{"key": "a", "provenance": {}, "measures": {}, "columns": {}}\n')
    for more, complaint in (
        (["--out", str(out)], f"{broken} is damaged; delete it"),
        (["--out", str(tmp_path / "file")], "cannot be made"),
    ):
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit:
            main([*flags, *more])
        assert exit.value.code == 2
        assert complaint in capsys.readouterr().err
    broken.unlink()
    main([*flags, "--out", str(out)])
    with pytest.raises(UserError, match="does not hold the points of a sweep"):
        read_points(tmp_path / "bad.jsonl")


def test_a_full_disk_is_told_and_costs_nothing_that_is_finished(runs, tmp_path, capsys, monkeypatch):
    flags = ["frontier", str(runs / "mdlm"), "--steps", "1", "--temperatures", "0.5,1", "--n", "2", "--words", "pydoc"]
    flags += ["--device", "cpu", "--out", str(tmp_path / "sweep")]

    def full(source, target):
        if list(tmp_path.glob("sweep/samples/*.json")):
            raise OSError(errno.ENOSPC, "No space left on device")
        os.rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("candi.base.files.os.replace", full)
        with pytest.raises(SystemExit) as exit:
            main(flags)
    assert exit.value.code == 2
    assert "candi: The disk is full; make room and run the same command again." in capsys.readouterr().err
    (made,) = tmp_path.glob("sweep/samples/*.json")
    moment = made.stat().st_mtime_ns
    main(flags)
    assert len(read_points(tmp_path / "sweep" / "points.jsonl")) == 2
    assert made.stat().st_mtime_ns == moment


def test_output_that_nobody_can_keep_is_told():
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "candi", "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "candi: The disk is full; make room and run the same command again.\n"


def test_one_temperature_and_two_samples_are_enough_for_a_report(runs, tmp_path):
    flags = ["frontier", str(runs / "mdlm"), str(runs / "candi"), "--steps", "1", "--temperatures", "1e-6", "--n", "2"]
    main([*flags, "--out", str(tmp_path / "x"), "--scorers", str(runs / "ar")])
    assert "1 steps" in (tmp_path / "x" / "frontier.md").read_text()


def test_a_share_of_a_sweep_ends_when_nobody_waits_for_it(runs, tmp_path, monkeypatch):
    settings = SweepSettings([run_handle(str(runs / "mdlm"))], tmp_path / "x", steps=(1,), n=2, device="cpu")
    _finish_share(settings, "cpu", 1, parent=-1)
    assert not list(tmp_path.glob("x/samples/*"))
    stop = threading.Event()  # another process of the sweep has failed
    stop.set()
    monkeypatch.setattr(sweep, "_stop", stop)
    _finish_share(settings, "cpu", 1, parent=os.getppid())
    assert not list(tmp_path.glob("x/samples/*"))
    stop.clear()
    _finish_share(settings, "cpu", 1, parent=os.getppid())
    assert list(tmp_path.glob("x/samples/*"))


def test_a_cell_that_another_command_is_at_is_left_to_it_as_long_as_that_lives(runs, tmp_path):
    settings = SweepSettings(
        [run_handle(str(runs / "mdlm"))], tmp_path, steps=(1, 2), temperatures=(0.5, 1.0), n=2, device="cpu"
    )
    mine, theirs = Sweep(settings), Sweep(settings)
    at = theirs.free()
    _, held = next(at)
    taken = []
    for _, cell in mine.free():
        taken.append(cell)
        mine.sample_file(cell).parent.mkdir(exist_ok=True)
        mine.sample_file(cell).write_text("made")
        if len(taken) == 3:
            at.close()  # it ended and has not made it
    assert taken == [cell for _, cell in mine.cells if cell != held] + [held]


def test_locks_are_cleared_away_but_those_of_points_of_other_sweeps(swept, runs, tmp_path):
    assert not (swept / "locks").exists()
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "other").touch()
    Sweep(
        SweepSettings([run_handle(str(runs / "mdlm"))], tmp_path, steps=(1,), temperatures=(1.0,), n=2, device="cpu")
    ).go()
    assert [path.name for path in (tmp_path / "locks").iterdir()] == ["other"]


def test_ranges_and_lists():
    assert numbers("0.7:1.0:0.1") == [0.7, 0.8, 0.9, 1.0]
    assert len(numbers("0.7:1.0:0.025")) == 13
    assert numbers("1,0.5") == [1.0, 0.5]
    assert integers("8,16,8") == [8, 16]


def test_a_batch_is_what_memory_holds_and_at_least_one(runs):
    one = run_handle(str(runs / "mdlm"))
    assert one.batch_size(16, 128, torch.device("cpu")) == 64
    assert one.batch_size(16, 3, torch.device("cpu")) == 3
    assert one.batch_size(10**9, 128, torch.device("cpu")) == 1


def test_one_point_by_candi_evaluate(runs, capsys):
    capsys.readouterr()
    quality = ["evaluate", str(runs / "mdlm"), "--generative", "--n", "4", "--steps", "2", "--device", "cpu"]
    main([*quality, "--scorers", str(runs / "ar"), "--words", "pydoc", "--json"])
    line = json.loads(capsys.readouterr().out)
    assert {"entropy", "perplexity", "valid_words", "unique_words", "distinct_2", "compression"} == set(
        line["measures"]
    )
    assert line["provenance"]["steps"] == 2
    main([*quality, "--scorers", "none"])
    assert "entropy of a sample" in capsys.readouterr().out
    for wrong in (["evaluate", str(runs / "mdlm")], [*quality, "--data", "pydoc"], [*quality, "--n", "0"]):
        with pytest.raises(SystemExit) as exit:
            main([*wrong, "--scorers", "none"])
        assert exit.value.code == 2


def test_an_option_that_training_does_not_know_is_the_step_s_own_to_decide(runs, monkeypatch):
    """A plugin may declare options of its step that are no settings."""
    one = run_handle(str(runs / "candi"))
    monkeypatch.setattr(one.method, "options", {**one.method.options, "mood": ("calm", "wild")})
    grid = {"top_k": None, "top_p": None, "length": None, "seed": 0, "n": 2, "precision": "float32"}
    (plain,) = one.cells([2], [1.0], {}, **grid)
    assert "mood" not in plain.options
    assert [cell.options["mood"] for cell in one.cells([2], [1.0], {"mood": ["wild", "calm"]}, **grid)] == [
        "wild", "calm"
    ]  # fmt: skip
