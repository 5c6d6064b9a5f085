"""An experiment that is a file of one's own: changed plans, mistakes, runs that fail or are trained again."""

import datetime
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from candi.cli import main
from candi.errors import UserError
from candi.evaluation.table import read_lines
from candi.reproduce import reproduce
from candi.reproduce.experiment import experiments, read
from candi.reproduce.ledger import Ledger
from candi.training import loop

pytestmark = pytest.mark.usefixtures("cache")
METHODS = {"title": "one", "runs": ["mdlm"]}
CLAIM = {"paper": "x", "sweep": "methods", "first": "mdlm", "second": "mdlm (random, off)"}


def _command(path: str, folder: Path, work: str = "work") -> list[str]:
    return ["reproduce", path, "--scale", "toy", "--out", str(folder / work), "--results", str(folder / "results"),
            "--device", "cpu"]  # fmt: skip


@pytest.fixture
def mine(tmp_path):
    """A file of one's own, as a table to be changed."""
    values = yaml.safe_load(experiments()["text8"].read_text())
    values["runs"] = {"mdlm": {"method": "mdlm"}}
    values["sweeps"] = {"methods": {"title": "one", "runs": ["mdlm"]}}
    values["claims"] = values["advice"] = []
    values["scales"] = {"toy": {**values["scales"]["toy"], "runs": ["mdlm"], "sweeps": ["methods"]}}
    values["scales"]["toy"]["train"]["steps"] = 10

    def file(changes={}):  # noqa: B006 - never written to
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.dump({**values, **changes}))
        return str(path), values

    return file


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_does_not_take_half_a_training_for_a_whole_one(mine, tmp_path, number):
    path, values = mine()
    values["scales"]["toy"]["train"] |= {"steps": 4000, "checkpoint_every": 4000}
    mine()
    command = [sys.executable, "-m", "candi", *_command(path, tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    metrics, end = tmp_path / "work" / "mdlm" / "metrics.csv", time.monotonic() + 120
    while time.monotonic() < end and not (metrics.exists() and metrics.read_text().count("\n") > 1):
        time.sleep(0.02)
    process.send_signal(number)
    assert "interrupted" in process.communicate(timeout=120)[1]
    assert process.returncode == 130
    folder = tmp_path / "results" / "mine-toy"
    assert not (folder / "ledger.jsonl").exists()
    (saved,) = (tmp_path / "work" / "mdlm" / "checkpoints").glob("step-*")
    assert 0 < int(saved.name.removeprefix("step-")) < 4000  # from here the same command goes on


def test_a_run_that_had_to_be_trained_again_is_told_anew(mine, tmp_path):
    """Its points are of the second training, and so is what the ledger says of it."""
    path, _ = mine({"overview": {"against": "mdlm", "families": {"mdlm": ["mdlm"]}},
                    "sweeps": {name: {"title": name, "runs": ["mdlm"]} for name in ("methods", "path")},
                    "scales": {"toy": {**mine()[1]["scales"]["toy"], "sweeps": ["methods", "path"]}}})  # fmt: skip
    results = tmp_path / "results" / "mine-toy"
    ledger = Ledger(results / "ledger.jsonl")

    def go(work):
        main(_command(path, tmp_path, work))

    go("work")
    first, predicted = ledger.find("train", "mdlm"), ledger.find("predict", "mdlm")
    ledger.write(**{**first, "device": "another"})
    ledger.write(**{**predicted, "device": "another"})
    (results / "methods.jsonl").unlink()
    go("work")
    assert ledger.find("train", "mdlm")["device"] == ledger.find("predict", "mdlm")["device"] == "another"
    ledger.write(**{**predicted, "plan": "of other weights", "device": "another"})
    (results / "methods.jsonl").unlink()
    go("elsewhere")
    entry = ledger.find("train", "mdlm")
    assert (entry["device"], entry["swept_before"]) == (first["device"], ["path"])  # whose points are kept
    assert ledger.find("predict", "mdlm")["device"] == first["device"]
    assert "swept_before" not in first


def test_a_file_of_one_s_own_and_a_changed_plan(mine, tmp_path, capfd):
    path, values = mine()
    flags = ["--scale", "toy", "--out", str(tmp_path / "w"), "--results", str(tmp_path / "r"), "--device", "cpu"]
    main(["reproduce", path, *flags])
    results = tmp_path / "r" / "mine-toy" / "methods.jsonl"
    assert {line["card"]["temperature"] for line in read_lines(results)} == {0.3, 0.7, 1.0}
    values["scales"]["toy"]["temperatures"] = [0.5]
    mine()
    capfd.readouterr()
    main(["reproduce", path, *flags])
    assert "done before" not in capfd.readouterr().err
    assert {line["card"]["temperature"] for line in read_lines(results)} == {0.5}
    values["scales"]["toy"]["train"] |= {"steps": 5}
    mine()
    with pytest.raises(SystemExit):
        main(["reproduce", path, *flags])
    assert "was trained for 10 steps, more than the 5 of the experiment" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"titel": "x"}, "no field 'titel'; did you mean 'title'?"),
        ({"quality": "beauty"}, "beauty"),
        ({"runs": {"mdlm": {"method": "mdml"}}}, "did you mean 'mdlm'?"),
        ({"runs": {"mdlm": {"method": "mdlm", "stesp": 3}}}, "did you mean 'steps'?"),
        ({"runs": {"mdlm": {"method": "mdlm", "steps": "many"}}}, "steps must be a whole number"),
        ({"runs": {"other": {"method": "mdlm"}}}, "no run 'mdlm'"),
        ({"sweeps": {}}, "no sweep 'methods'"),
        ({"scales": {"small": {}}}, "no scale 'toy'"),
        ({"claims": [{"paper": "x"}]}, "claim 1: sweep is missing"),
        ({"advice": [{"where": "x", "sweep": "nope", "runs": {}}]}, "advice 1: There is no sweep 'nope'"),
        ({"advice": [{"where": "x", "sweep": "methods", "runs": {"nope": "No"}}]}, "advice 1: There is no run 'nope'"),
        ({"advice": [{"where": "x", "sweep": "methods", "runs": {"mdlm": "M"}}]}, "nothing to choose from"),
        ({"claims": [CLAIM | {"second": "nope"}]}, "no run 'nope'"),
        ({"claims": [CLAIM | {"sweep": "nope"}]}, "no sweep 'nope'"),
        ({"claims": [CLAIM | {"margin": -2}]}, "a margin of at least 0"),
        ({"claims": [CLAIM | {"second": "mdlm"}]}, "two different curves"),
        ({"runs": {"mdlm": None}}, "the run mdlm must be a table"),
        ({"runs": {"mdlm": {"method": ["mdlm"]}}}, "no method"),
        ({7: 1}, "the name 7 must be text"),
        ({"runs": {"mdlm": {"length": datetime.date(2020, 1, 1)}}}, "length must be a whole number"),
        ({"quality": "perplexity", "diversity": "entropy"}, "perplexity needs scorers"),
        ({"sweeps": {"methods": {"title": "one", "runs": ["nope"]}}}, "no run 'nope'"),
        ({"runs": {"mdlm": {"method": "mdlm", "devices": 2}}}, "a run uses one device"),
        ({"runs": {"mdlm": {"method": "mdlm"}, "sweeps": {"method": "mdlm"}}}, "cannot be called 'sweeps'"),
        ({"classifiers": {"mdlm": {"label": "qed:top"}}}, "'mdlm' is the name of two"),
        ({"sweeps": {"methods": METHODS | {"trap": ["mdlm", "nope"]}}}, "trap: There is no run 'nope'"),
        ({"sweeps": {"methods": METHODS | {"trap": ["mdlm"]}}}, "a trap is shown of 2 to 4 different curves"),
        ({"sweeps": {"methods": METHODS | {"trap": ["mdlm", "mdlm"]}}}, "a trap is shown of 2 to 4 different curves"),
        ({"sweeps": {"methods": METHODS | {"labels": {"mdlm": 1}}}}, "knows labels"),
        ({"sweeps": {"methods": METHODS | {"classifiers": {"mdlm": ["nobody"]}}}}, "no classifier 'nobody'"),
        ({"sweeps": {"methods": METHODS | {"classifiers": {"nope": []}}}}, "no run 'nope'"),
        ({"overview": {"against": "ar", "families": {"mdlm": ["mdlm"]}}}, "no family 'ar'"),
        ({"overview": {"against": "mdlm", "families": {"mdlm": ["nope"]}}}, "no run 'nope'"),
        ({"overview": {"against": "a", "families": {"a": ["mdlm"], "b": []}}}, "as many runs as a"),
        ({"overview": {"against": "a", "families": {"a": ["mdlm"]}, "longer": {"mdlm": "more"}}}, "no run 'more'"),
        ({"sweeps": {"methods": METHODS | {"options": {"order": ["rising"]}}}}, "no order 'rising'"),
        ({"sweeps": {"methods": METHODS | {"property": "beauty"}}}, "no property 'beauty'"),
        ({"sweeps": {"ledger": METHODS, "methods": METHODS}}, "cannot be called 'ledger'"),
        (
            {"runs": {"mdlm": {"method": "udlm"}}, "overview": {"against": "a", "families": {"a": ["mdlm"]}}},
            "predicts nothing of UDLM",
        ),
    ],
)
def test_a_file_with_a_mistake_is_refused_in_a_sentence(mine, tmp_path, capsys, change, complaint):
    path, _ = mine(change)
    with pytest.raises(SystemExit) as exit:
        main(["reproduce", path, "--scale", "toy", "--out", str(tmp_path / "w"), "--results", str(tmp_path / "r")])
    told = capsys.readouterr().err
    assert exit.value.code == 2
    assert complaint in told
    assert told.count("\n") <= 2  # the sentence, and at most a line that training begins


def test_a_scale_may_sweep_less_than_others(mine):
    _, values = mine()
    toy = {**values["scales"]["toy"], "changes": {"methods": {"temperatures": [0.7]}}}
    path, _ = mine({"scales": {"toy": toy}})
    assert read(path, "toy").grids["methods"].temperatures == [0.7]
    for change, complaint in (({"runs": ["nobody"]}, "nobody"), ({"temperatures": [0]}, "a temperature above 0")):
        path, _ = mine({"scales": {"toy": {**toy, "changes": {"methods": change}}}})
        with pytest.raises(UserError, match=complaint):
            read(path, "toy")


def test_a_table_s_own_column_holds_the_text_and_the_words(mine, tmp_path):
    table = tmp_path / "rows.jsonl"
    table.write_text("\n".join(json.dumps({"content": "a b b a " * 60}) for _ in range(20)) + "\n")
    path, values = mine()
    values["train"]["text_field"] = "content"
    values["scales"]["toy"]["data"] = str(table)
    mine()
    main(_command(path, tmp_path))
    (line, *_) = read_lines(tmp_path / "results" / "mine-toy" / "methods.jsonl")
    assert line["card"]["words"]["words"] == 2  # a and b


def test_a_run_that_fails_does_not_stop_the_others(mine, tmp_path, capsys, monkeypatch):
    path, _ = mine({
        "runs": {"first": {"method": "mdlm"}, "second": {"method": "ar"}},
        "sweeps": {"methods": {"title": "two", "runs": ["first", "second"]}},
    })  # fmt: skip
    text = yaml.safe_load(Path(path).read_text())
    text["scales"]["toy"]["runs"] = ["first", "second"]
    Path(path).write_text(yaml.dump(text))

    def train(settings):
        if settings.out.name == "first":
            raise UserError("The loss is not finite.")
        return loop.train(settings)

    monkeypatch.setattr(reproduce, "train", train)
    with pytest.raises(SystemExit) as stopped:
        main(_command(path, tmp_path))
    assert stopped.value.code == 2
    assert "candi: first: The loss is not finite." in capsys.readouterr().err
    assert Ledger(tmp_path / "results" / "mine-toy" / "ledger.jsonl").find("sweep methods", "second")["points"] > 0
