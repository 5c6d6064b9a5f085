"""An experiment from data to page: whole, done before, continued by another command, refused."""

import json
import shutil

import pytest
from candi_lab.cli import main
from candi_lab.report.page import claim_rows, read_results, write_page
from candi_lab.runner.experiment import read
from candi_lab.runner.ledger import Ledger
from candi_lab.runner.runner import Reproduction

from candi.data.corpus import Corpus
from candi.evaluation.points import read_points, write_points
from tests.lab.conftest import reproduce

pytestmark = pytest.mark.usefixtures("cache")
SWEEPS = ("methods", "inference")


def _results(folder):
    return {path.name: path.read_bytes() for path in (folder / "results" / "text8-toy").glob("*.jsonl*")}


def _points(folder, sweep):
    return read_points(folder / "results" / "text8-toy" / f"{sweep}.jsonl.xz")


def test_the_toy_scale_runs_from_data_to_figure(toy):
    experiment = read("text8", "toy")
    for name in SWEEPS:
        points = _points(toy, name)
        assert {point.cell.run for point in points} == set(experiment.grids[name].runs)
        assert all(set(point.columns) == {"known_words", "all_words", "unique_words"} for point in points)
        assert (toy / "work" / f"{name}.svg").stat().st_size > 1000
    diffusion = [point for point in _points(toy, "methods") if not point.cell.steps_fixed]
    assert len(diffusion) == 2 * 2 * 2  # candi and mdlm, 2 numbers of steps, 2 temperatures
    assert {point.cell.options["inference"] for point in _points(toy, "inference")} == {"exact", "approximate"}


def test_the_ledger_says_what_was_done_and_where(toy):
    ledger = Ledger(toy / "results" / "text8-toy" / "ledger.jsonl")
    entry = ledger.find("train", "candi")
    assert (entry["steps"], entry["tokens"]) == (20, 20 * 8 * 32)
    assert entry["settings"]["candi"] == {"rank_min": 0.1, "rank_max": 0.4}
    assert {"seconds", "device", "torch", "finished", "valid_loss"} <= entry.keys()
    assert ledger.find("sweep inference", "candi")["points"] == 8
    assert ledger.find("sweep inference", "mdlm") is None


def test_what_the_ledger_holds_is_not_done_again(toy, text, tmp_path, capfd):
    """On another machine: no run is there, but its points are."""
    before = _results(toy)
    main(reproduce("text8", toy, text, "--out", str(tmp_path / "elsewhere")))
    assert capfd.readouterr().err.count("done before") == 3
    assert not list((tmp_path / "elsewhere").glob("*/checkpoints"))
    assert _results(toy) == before


def test_a_run_that_another_command_has_trained_is_helped_with_its_points(toy, text, tmp_path, capfd):
    shutil.copytree(toy / "work", tmp_path / "work", ignore=shutil.ignore_patterns("sweeps"))
    samples = tmp_path / "work" / "sweeps" / "mdlm" / "samples"
    helper = Reproduction(read("text8", "toy"), str(text), tmp_path / "work", tmp_path / "results", "cpu")
    helper._help("mdlm", Corpus(str(text)).fingerprint)
    assert len(list(samples.iterdir())) == len(list((toy / "work" / "sweeps" / "mdlm" / "samples").iterdir()))
    assert not helper.kept.ledger.entries()  # the command that has the run keeps its points
    helper._help_wanted("mdlm").touch()
    capfd.readouterr()
    helper.go(["mdlm"])
    assert "points" not in capfd.readouterr().err  # none is made again
    assert not helper._help_wanted("mdlm").exists()
    assert helper.kept.points("methods") == [one for one in _points(toy, "methods") if one.cell.run == "mdlm"]


def test_points_that_were_lost_are_made_again(toy, text, tmp_path, capfd):
    """The ledger is not believed blindly."""
    shutil.copytree(toy / "results", tmp_path / "results")
    results = tmp_path / "results" / "text8-toy"
    (results / "inference.jsonl.xz").unlink()
    flags = reproduce("text8", tmp_path, text, "--out", str(toy / "work"))
    main(flags)
    assert capfd.readouterr().err.count("done before") == 2  # mdlm and ar are not in it
    assert _points(tmp_path, "inference") == _points(toy, "inference")
    for broken in ("null", "[]", "{}", "5", "{"):
        (results / "ledger.jsonl").write_text(broken + "\n")
        with pytest.raises(SystemExit):
            main(flags)
        assert "is damaged; restore it" in capfd.readouterr().err


def test_a_tokenizer_that_is_elsewhere_is_missed_before_anything_is_trained(text, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["reproduce", "large", "--scale", "small", "--data", str(text), "--scorers", "run:judge", "--out",
              str(tmp_path / "w"), "--results", str(tmp_path / "r")])  # fmt: skip
    assert "the tokenizer 'gpt2' is not here; give its place, --tokenizer FOLDER" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("reproduce txet8", "did you mean 'text8'?"),
        ("reproduce text8 --scale huge", "no scale 'huge'"),
        ("reproduce text8 --scale small", "give it with --data FILE"),
        ("reproduce text8 --scale toy --runs gpt", "no run 'gpt'"),
        ("reproduce text8 --scale toy --shared 0", "--shared must be at least 1"),
        ("reproduce text8 --scale toy --jobs 0", "--jobs must be at least 1"),
        ("reproduse", "did you mean 'reproduce'?"),
        ("results --root .", "is missing; give the repository with --root"),
    ],
)
def test_a_wrong_command_is_refused_in_a_sentence(arguments, complaint, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(arguments.split())
    error = capsys.readouterr().err
    assert stopped.value.code == 2
    assert complaint in error
    assert error.startswith("candi-lab: ")
    assert not list(tmp_path.iterdir())


def test_the_page_is_made_of_the_results_alone(toy, tmp_path):
    """Claims, verdicts and numbers of the points; and the same again from the same files."""
    (one,) = read_results(toy / "results")
    page = write_page([one], tmp_path).read_text()
    unique = {
        (point.cell.run, point.cell.steps): f"{point.measures['unique_words']:.3f}"
        for point in _points(toy, "methods") if point.cell.temperature == 1.0
    }  # fmt: skip
    names = {"candi": "CANDI (calibrated)", "mdlm": "MDLM"}
    changes = ", ".join(f"{name} {unique[run, 2]} to {unique[run, 4]}" for run, name in names.items())
    assert f"At one temperature (1), 4 steps instead of 2 change the unique words: {changes}. That" in page
    assert "candi-lab reproduce text8 --scale toy" in page
    assert "(exact) / CANDI (calibrated) (approximate) (level within 2%): 2 steps:" in page
    assert "One-hot" not in page  # it is no part of the toy
    assert "| not measured |" not in page
    entry = json.loads((toy / "results" / "text8-toy" / "ledger.jsonl").read_text().splitlines()[0])
    assert f"{entry['valid_loss']:.3f}" in page
    assert "between methods they do not compare" in page
    shown = {name for name in page.replace("(figures/", "\n").splitlines() if ".svg)" in name}
    drawn = {path.name for path in (tmp_path / "figures").glob("*.svg")}
    assert {name.partition(")")[0] for name in shown} == drawn  # every figure is on the page, no other is drawn
    assert {"text8-toy-losses.svg", "text8-toy-methods.svg", "text8-toy-inference-steps.svg"} <= drawn


def test_a_claim_without_points_is_not_measured(toy, tmp_path):
    half = shutil.copytree(toy / "results" / "text8-toy", tmp_path / "results" / "text8-toy")
    kept = [point for point in _points(toy, "methods") if point.cell.run != "mdlm"]
    write_points(half / "methods.jsonl.xz", kept)
    (half / "inference.jsonl.xz").unlink()
    (one,) = read_results(tmp_path / "results")
    assert one.sweeps.keys() == {"methods"}
    rows = claim_rows(one)
    assert len(rows) > 1
    assert {row.verdict for row in rows} == {"not measured"}


def test_an_experiment_without_points_is_not_on_the_page(tmp_path):
    """A scorer run is kept as soon as it is trained; the runs that it scores may come another day."""
    Ledger(tmp_path / "r" / "large-small" / "ledger.jsonl").write("judge", "judge", "plan")
    assert read_results(tmp_path / "r") == []
    assert "In short" not in write_page([], tmp_path / "docs").read_text()
