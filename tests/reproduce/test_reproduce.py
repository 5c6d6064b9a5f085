"""An experiment from data to figure: whole, killed, done before, refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from candi.cli import main
from candi.data.corpus import Corpus
from candi.evaluation.table import read_lines, write_lines
from candi.reproduce import reproduce
from candi.reproduce.experiment import SCALES, experiments, read
from candi.reproduce.ledger import Ledger
from candi.reproduce.page import write

pytestmark = pytest.mark.usefixtures("cache")
SWEEPS = ("methods", "inference", "solver", "path")


def _flags(folder, *more):
    return ["reproduce", "text8", "--scale", "toy", "--out", str(folder / "work"), "--results",
            str(folder / "results"), "--device", "cpu", *more]  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory, cache):
    folder = tmp_path_factory.mktemp("whole")
    main(_flags(folder))
    return folder


def _results(folder):
    return {path.name: path.read_text() for path in (folder / "results" / "text8-toy").glob("*.jsonl")}


def test_the_toy_scale_runs_from_data_to_figure(whole):
    results, toy = whole / "results" / "text8-toy", read("text8", "toy")
    for name in SWEEPS:
        lines = read_lines(results / f"{name}.jsonl")
        assert {line["card"]["run"] for line in lines} == set(toy.grids[name].runs)
        assert all(set(line["columns"]) == {"known_words", "all_words"} for line in lines)  # those of the bands
        assert (whole / "work" / f"{name}.svg").stat().st_size > 1000
    methods = read_lines(results / "methods.jsonl")
    diffusion = [line for line in methods if not line["card"]["steps_fixed"]]
    assert len(diffusion) == 2 * 2 * 3  # candi and mdlm, 2 numbers of steps, 3 temperatures
    assert {line["card"]["options"].get("inference") for line in read_lines(results / "inference.jsonl")} == {
        "exact", "approximate",
    }  # fmt: skip


def test_the_ledger_says_what_was_done_and_where(whole):
    ledger = Ledger(whole / "results" / "text8-toy" / "ledger.jsonl")
    entry = ledger.find("train", "candi")
    assert entry["steps"] == 40
    assert entry["tokens"] == 40 * 8 * 32
    assert entry["settings"]["candi"] == {"rank_min": 0.1, "rank_max": 0.4}
    assert {"seconds", "device", "torch", "finished", "valid_loss"} <= entry.keys()
    assert ledger.find("sweep path", "candi-sqrt")["points"] == 6
    assert ledger.find("sweep path", "mdlm") is None


def test_what_the_ledger_holds_is_not_done_again(whole, tmp_path, capfd):
    """On another machine: no run is there, but its points are."""
    before = _results(whole)
    main([*_flags(whole)[:5], str(tmp_path / "elsewhere"), *_flags(whole)[6:]])
    assert capfd.readouterr().err.count("done before") == 4
    assert not list((tmp_path / "elsewhere").glob("*/checkpoints"))
    assert _results(whole) == before


def test_killed_and_continued_it_gives_the_same_points(whole, tmp_path):
    """Killed after the first sweep of the first run, and again while the second run is under way."""
    command = [sys.executable, "-m", "candi", *_flags(tmp_path)]
    ledger = tmp_path / "results" / "text8-toy" / "ledger.jsonl"
    for stages in (2, 6):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 120
        while time.monotonic() < end and not (ledger.exists() and len(ledger.read_text().splitlines()) >= stages):
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in SWEEPS:
        mine, theirs = (read_lines(f / "results" / "text8-toy" / f"{name}.jsonl") for f in (tmp_path, whole))
        assert [(one["key"], one["measures"]) for one in mine] == [(one["key"], one["measures"]) for one in theirs]


def test_a_run_that_another_command_has_trained_is_helped_with_its_points(whole, tmp_path, capfd):
    shutil.copytree(whole / "work", tmp_path / "work")
    shutil.rmtree(tmp_path / "work" / "sweeps")
    toy, samples = read("text8", "toy"), tmp_path / "work" / "sweeps" / "mdlm" / "samples"
    helper = reproduce.Reproduction(toy, toy.data, tmp_path / "work", tmp_path / "results", "cpu")
    data = Corpus(toy.data).fingerprint
    helper._help("mdlm", data)
    assert len(list(samples.iterdir())) == len(list((whole / "work" / "sweeps" / "mdlm" / "samples").iterdir()))
    assert not helper.kept.ledger.entries()  # who has the run keeps its points
    helper._help_wanted("mdlm").touch()
    capfd.readouterr()
    helper.go(["mdlm"])
    assert "points" not in capfd.readouterr().err.replace("Points are in", "")  # none is made again
    assert not helper._help_wanted("mdlm").exists()
    assert read_lines(tmp_path / "results" / "methods.jsonl") == [
        line for line in read_lines(whole / "results" / "text8-toy" / "methods.jsonl") if line["card"]["run"] == "mdlm"
    ]


def test_points_that_were_lost_are_made_again(whole, tmp_path, capfd):
    """The ledger is not believed blindly."""
    shutil.copytree(whole / "results", tmp_path / "results")
    results = tmp_path / "results" / "text8-toy"
    (results / "path.jsonl").unlink()
    flags = [*_flags(tmp_path)[:5], str(whole / "work"), *_flags(tmp_path)[6:]]
    main(flags)
    assert capfd.readouterr().err.count("done before") == 2  # mdlm and ar are in no path
    assert (results / "path.jsonl").read_text() == (whole / "results" / "text8-toy" / "path.jsonl").read_text()
    for text in ("null", "[]", "{}", "5", "{"):
        (results / "ledger.jsonl").write_text(text + "\n")
        with pytest.raises(SystemExit):
            main(flags)
        assert "is damaged; restore it" in capfd.readouterr().err


def test_what_does_not_decide_the_weights_is_no_part_of_a_plan():
    experiment = read("text8", "toy")
    plans = [
        replace(experiment, runs={"mdlm": {**experiment.runs["mdlm"], **change}}).training_plan("mdlm", "data")
        for change in ({}, {"checkpoint_every": 3, "micro_batch": 2, "compile": True}, {"steps": 50}, {"seed": 1})
    ]
    assert plans[0] == plans[1]
    assert len(set(plans)) == 3


def test_a_tokenizer_that_is_elsewhere_is_asked_for_before_anything_is_trained(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("some text")
    with pytest.raises(SystemExit):
        main(["reproduce", "large", "--scale", "small", "--data", "text.txt", "--scorers", "run:judge"])
    assert "the tokenizer 'gpt2' is not here; say where it lies, --tokenizer FOLDER" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("reproduce txet8", "did you mean 'text8'?"),
        ("reproduce text8 --scale huge", "no scale 'huge'"),
        ("reproduce text8 --scale small", "give it with --data FILE"),
        ("reproduce text8 --scale toy --runs gpt", "no run 'gpt'"),
        ("reproduce text8 --scale toy --shared 0", "--shared must be at least 1"),
        ("reproduce text8 --scale toy --jobs 0", "--jobs must be at least 1"),
    ],
)
def test_a_wrong_command_is_refused_in_a_sentence(arguments, complaint, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit:
        main(arguments.split())
    assert exit.value.code == 2
    assert complaint in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", experiments())
@pytest.mark.parametrize("scale", SCALES)
def test_every_experiment_of_the_package_can_be_begun(name, scale, tmp_path):
    """Its settings are taken, its claims speak of curves that its sweeps have."""
    experiment = read(name, scale)
    for run in experiment.runs:
        settings = experiment.settings(run, "pydoc", tmp_path / run)
        assert settings.steps > 0
    for claim in experiment.claims:
        runs = experiment.grids[claim.sweep].runs
        assert claim.runs <= set(runs)
    assert experiment.claims


def test_the_page_is_made_of_the_results_alone(whole, tmp_path):
    first = write(whole / "results", tmp_path / "a").read_text()
    assert write(whole / "results", tmp_path / "b").read_text() == first
    unique = {
        (line["card"]["run"], line["card"]["steps"]): f"{line['measures']['unique_words']:.3f}"
        for line in read_lines(whole / "results" / "text8-toy" / "methods.jsonl")
        if line["card"]["temperature"] == 0.7
    }
    moved = ", ".join(f"{run} {unique[run, 2]} to {unique[run, 4]}" for run in ("candi", "mdlm"))
    assert f"At one temperature (0.7), 4 steps in the place of 2 change the unique words: {moved}. That" in first
    assert "candi reproduce text8 --scale toy" in first
    assert first.count("![") == 2 * len(SWEEPS) + 1  # the frontiers, over the steps; and the losses
    pictures = [{p.name: p.read_bytes() for p in (tmp_path / d / "figures").glob("*.svg")} for d in "ab"]
    assert pictures[0] == pictures[1]
    assert "One-hot" not in first  # it is no part of the toy
    assert "| not measured |" not in first
    entry = json.loads((whole / "results" / "text8-toy" / "ledger.jsonl").read_text().splitlines()[0])
    assert f"{entry['valid_loss']:.3f}" in first
    assert "between methods they do not compare" in first
    half = shutil.copytree(whole / "results" / "text8-toy", tmp_path / "results" / "text8-toy")
    lines = [line for line in read_lines(half / "methods.jsonl") if line["card"]["run"] != "mdlm"]
    write_lines(half / "methods.jsonl", lines)
    assert "| not measured |" in write(tmp_path / "results", tmp_path / "c").read_text()
