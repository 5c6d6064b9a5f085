"""An experiment that is a file of one's own: changed plans, mistakes, runs that fail or are trained again."""

import datetime
import json
from pathlib import Path

import pytest
import yaml
from candi_lab.cli import main
from candi_lab.runner import runner
from candi_lab.runner.experiment import experiments, read
from candi_lab.runner.ledger import Ledger

from candi.base.errors import UserError
from candi.evaluation.points import read_points
from candi.training import fit
from tests.lab.conftest import reproduce

pytestmark = pytest.mark.usefixtures("cache")
METHODS = {"title": "one", "runs": ["mdlm"]}
ADVICE = {"where": "x", "sweep": "methods"}
CLAIM = {"paper": "x", "sweep": "methods", "first": "mdlm", "second": {"run": "mdlm", "order": "random"}}


@pytest.fixture
def mine(tmp_path):
    """A file of one's own, as a table to be changed."""
    values = yaml.safe_load(experiments()["text8"].read_text())
    values["runs"] = {"mdlm": {"method": "mdlm"}}
    values["sweeps"] = {"methods": {"title": "one", "runs": ["mdlm"]}}
    values["claims"], values["advice"], values["names"] = [], [], {}
    values["scales"] = {"toy": {**values["scales"]["toy"], "runs": ["mdlm"], "sweeps": ["methods"]}}
    values["scales"]["toy"]["train"]["steps"] = 10
    values["scales"]["toy"]["train"]["validate_every"] = 0

    def file(changes={}):  # noqa: B006 - never written to
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.dump({**values, **changes}))
        return str(path), values

    return file


def test_a_run_that_had_to_be_trained_again_is_recorded_anew(mine, text, tmp_path):
    """Its points are of the second training, and so is what the ledger says of it."""
    path, _ = mine({"overview": {"against": "mdlm", "families": {"mdlm": ["mdlm"]}},
                    "sweeps": {name: {"title": name, "runs": ["mdlm"]} for name in ("methods", "path")},
                    "scales": {"toy": {**mine()[1]["scales"]["toy"], "sweeps": ["methods", "path"]}}})  # fmt: skip
    results = tmp_path / "results" / "mine-toy"
    ledger = Ledger(results / "ledger.jsonl")

    def go(work):
        main(reproduce(path, tmp_path, text, "--out", str(tmp_path / work)))

    go("work")
    first, predicted = ledger.find("train", "mdlm"), ledger.find("predict", "mdlm")
    ledger.write(**{**first, "device": "another"})
    ledger.write(**{**predicted, "device": "another"})
    (results / "methods.jsonl.xz").unlink()
    go("work")
    assert ledger.find("train", "mdlm")["device"] == ledger.find("predict", "mdlm")["device"] == "another"
    ledger.write(**{**predicted, "plan": "of other weights", "device": "another"})
    (results / "methods.jsonl.xz").unlink()
    go("elsewhere")
    entry = ledger.find("train", "mdlm")
    assert (entry["device"], entry["swept_before"]) == (first["device"], ["path"])  # whose points are kept
    assert ledger.find("predict", "mdlm")["device"] == first["device"]
    assert "swept_before" not in first


def test_a_file_of_one_s_own_and_a_changed_plan(mine, text, tmp_path, capfd):
    path, values = mine()
    flags = reproduce(path, tmp_path, text)
    main(flags)
    results = tmp_path / "results" / "mine-toy" / "methods.jsonl.xz"
    assert {point.cell.temperature for point in read_points(results)} == {0.5, 1.0}
    values["scales"]["toy"]["temperatures"] = [0.7]
    mine()
    capfd.readouterr()
    main(flags)
    assert "done before" not in capfd.readouterr().err
    assert {point.cell.temperature for point in read_points(results)} == {0.7}
    values["scales"]["toy"]["train"] |= {"steps": 5}
    mine()
    with pytest.raises(SystemExit):
        main(flags)
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
        ({"advice": [{"where": "x", "sweep": "nope", "runs": []}]}, "advice 1: There is no sweep 'nope'"),
        ({"advice": [ADVICE | {"runs": [{"curve": "nope", "name": "No"}]}]}, "advice 1: There is no run 'nope'"),
        ({"advice": [ADVICE | {"runs": [{"curve": "mdlm", "name": "M"}]}]}, "nothing to choose from"),
        ({"advice": [ADVICE | {"runs": [{"run": "mdlm", "name": "M"}]}]}, "advice 1: There is no field 'run'"),
        ({"claims": [CLAIM | {"first": ["mdlm"]}]}, "claim 1: a curve is a run's name or a table"),
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
        ({"sweeps": {"methods": METHODS | {"labels": {"mdlm": 1}}}}, "trained with labels"),
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
def test_a_file_with_a_mistake_is_refused_in_a_sentence(mine, text, tmp_path, capsys, change, complaint):
    path, _ = mine(change)
    with pytest.raises(SystemExit) as stopped:
        main(reproduce(path, tmp_path, text))
    error = capsys.readouterr().err
    assert stopped.value.code == 2
    assert complaint in error
    assert error.count("\n") == 1
    assert not (tmp_path / "work").exists()  # before anything is trained


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
    mine()
    main(reproduce(path, tmp_path, table))
    first = read_points(tmp_path / "results" / "mine-toy" / "methods.jsonl.xz")[0]
    assert first.provenance.words["words"] == 2  # a and b


def test_a_run_that_fails_does_not_stop_the_others(mine, text, tmp_path, capsys, monkeypatch):
    path, _ = mine({
        "runs": {"first": {"method": "mdlm"}, "second": {"method": "ar"}},
        "sweeps": {"methods": {"title": "two", "runs": ["first", "second"]}},
    })  # fmt: skip
    values = yaml.safe_load(Path(path).read_text())
    values["scales"]["toy"]["runs"] = ["first", "second"]
    Path(path).write_text(yaml.dump(values))

    def train(settings):
        if settings.out.name == "first":
            raise UserError("The loss is not finite.")
        return fit.train(settings)

    monkeypatch.setattr(runner, "train", train)
    with pytest.raises(SystemExit) as stopped:
        main(reproduce(path, tmp_path, text))
    assert stopped.value.code == 2
    assert "candi-lab: first: The loss is not finite." in capsys.readouterr().err
    assert Ledger(tmp_path / "results" / "mine-toy" / "ledger.jsonl").find("sweep methods", "second")["points"] > 0
