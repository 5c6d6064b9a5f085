"""How a file names curves, which points belong to its grids, and that its plans stay those of earlier ledgers."""

from dataclasses import replace

import pytest
from candi_lab.runner.experiment import SCALES, experiments, read
from candi_lab.runner.schema import CurveRef, Grid, Guided, find_curve

from candi.base.errors import UserError
from candi.evaluation.compare import compare
from tests.lab.made import MOLECULES, cell, guide, point


def test_a_curve_is_named_by_its_run_and_options():
    assert CurveRef.parse("candi", "x") == CurveRef("candi")
    ref = CurveRef.parse({"run": "candi", "order": "confidence", "reveal": 1}, "x")
    assert ref == CurveRef("candi", {"order": "confidence", "reveal": "1"})
    assert str(ref) == "candi (confidence, reveal 1)"
    assert str(CurveRef("candi", {"reveal": "0"})) == "candi"
    for wrong in (["candi"], {"order": "random"}, 7):
        with pytest.raises(UserError, match="claim 1: a curve is a run's name"):
            CurveRef.parse(wrong, "claim 1")


def test_no_tilt_is_an_option_like_any_other():
    points = [
        point(cell("candi", options={"order": order}, guidance=guide(1.0, reveal=reveal)),
              {"unique_molecules": 2.0, "property": 1.0}, {"is_molecule": [1, 1], "property": [1, 1]})
        for order in ("random", "confidence") for reveal in (0.0, 1.0)
    ]  # fmt: skip
    curves = compare(points, MOLECULES, pooled=True).groups[0].curves
    for order in ("random", "confidence"):
        for reveal in ("0", "1"):
            found = find_curve(CurveRef("candi", {"order": order, "reveal": reveal, "classifier": "q"}), curves)
            assert found is not None
            assert (found.options["order"], found.options.get("reveal", "0")) == (order, reveal)
    assert find_curve(CurveRef("candi", {"classifier": "other"}), curves) is None
    with pytest.raises(UserError, match="names several curves"):
        find_curve(CurveRef("candi", {"order": "random"}), curves)


GRID = Grid("x", runs=["a", "b", "c"], options={"order": ["random"]}, steps=[8], temperatures=[1.0],
            classifiers={"a": ["clean"]}, weights=[0.0, 2.0], reveals=[0.0], labels={"b": 1},
            label_weights=[1.0])  # fmt: skip


def test_points_that_left_the_grid_are_left_out():
    by, own = guide(2.0, classifier="clean"), guide(1.0, classifier=None)
    here = cell("a", n=4, options={"order": "random"}, guidance=by)
    kept = (here, replace(here, run="c", guidance=None), replace(here, run="b", guidance=own),
            replace(here, guidance=replace(by, noise="mdlm", reveal=1.0)))  # fmt: skip
    assert all(GRID.holds(one, 4) for one in kept)
    for left in (
        {"guidance": replace(by, weight=40.0)}, {"guidance": replace(by, reveal=1.0)}, {"guidance": None},
        {"guidance": replace(by, classifier="other")}, {"guidance": own}, {"options": {"order": "confidence"}},
        {"steps": 16}, {"n": 5}, {"run": "d"}, {"temperature": 0.5},
    ):  # fmt: skip
        assert not GRID.holds(replace(here, **left), 4), left


def test_a_run_is_guided_by_its_label_or_by_each_classifier_with_each_tilt(tmp_path):
    grid = replace(GRID, classifiers={"a": ["x", "y"]}, reveals=[0.0, 1.0])
    ways = [
        Guided([str(tmp_path / name)], [0.0, 2.0], tilt, dcbg=["first-order"]) for name in "xy" for tilt in (0.0, 1.0)
    ]
    assert list(grid.guides("a", tmp_path, tilts=True)) == ways
    assert list(grid.guides("a", tmp_path, tilts=False)) == ways[::2]
    assert list(grid.guides("b", tmp_path, tilts=True)) == [Guided(weights=[1.0], label=1)]
    assert list(grid.guides("c", tmp_path, tilts=True)) == [Guided()]


def test_plans_are_those_of_the_ledgers_that_are_kept():
    """Hashes of the settings by their first names: of another hash, all results would have to be made again."""
    text8, molecules, vocabulary = (read(name, "small") for name in ("text8", "molecules", "vocabulary"))
    assert text8.training_plan("candi", "x") == "0bc096df31366fab"
    assert read("text8", "paper").training_plan("mdlm", "x") == "6c4e9e622044a03b"
    assert text8.sweep_plan("candi", "methods", "x") == "0cb58c3ebf3d1466"
    assert molecules.classifier_plan("qed-clean", "x") == "c046f5d6c2502e01"
    assert molecules.sweep_plan("candi", "qed", "x") == "1cf5ae9a63fd2a52"
    assert vocabulary.sweep_plan("candi-27", "v27", "x") == "d6e2cbbc629b83e1"


def test_what_does_not_decide_the_weights_is_no_part_of_a_plan():
    experiment = read("text8", "toy")
    plans = [
        replace(experiment, runs={"mdlm": {**experiment.runs["mdlm"], **change}}).training_plan("mdlm", "data")
        for change in ({}, {"checkpoint_every": 3, "micro_batch_size": 2, "compile": True}, {"steps": 50}, {"seed": 1})
    ]
    assert plans[0] == plans[1]
    assert len(set(plans)) == 3


@pytest.mark.parametrize("name", experiments())
@pytest.mark.parametrize("scale", SCALES)
def test_every_experiment_of_the_lab_can_be_begun(name, scale, tmp_path):
    """Its settings are valid, its claims speak of runs that its sweeps have."""
    experiment = read(name, scale)
    for run in experiment.runs:
        assert experiment.settings(run, "pydoc", tmp_path / run).steps > 0
    assert experiment.claims
    for claim in experiment.claims:
        assert claim.runs <= set(experiment.grids[claim.sweep].runs)


def test_paths_of_a_machine_are_given_on_the_command_line(tmp_path):
    small = read("large", "small").adapted("/data/gpt2", ["/data/scorer.gguf"])
    assert small.settings("candi", "pydoc", tmp_path).tokenizer == "/data/gpt2"
    assert small.settings("judge", "pydoc", tmp_path).tokenizer == "bpe:257"  # its own
    with pytest.raises(UserError, match="no run 'nope'"):
        small.adapted(None, ["run:nope"])
    assert small.scorers == ["/data/scorer.gguf"]
    other = read("large", "small").adapted("/elsewhere/gpt2", ["/elsewhere/scorer.gguf"])
    assert small.sweep_plan("candi", "methods", "x") == other.sweep_plan("candi", "methods", "x")
    assert read("large", "small").adapted(None, ()).scorers == ["smollm2", "run:judge"]


def test_classifiers_read_their_data_as_the_run_does(tmp_path):
    small = read("molecules", "small")
    made = small.classifier("qed-bag", "candi", tmp_path, "qm9", tmp_path / "c")
    assert (made.skip_bad, made.kind, made.steps) == (True, "bag", 300)  # changed at this scale, for this one
    assert small.classifier("qed-long", "candi", tmp_path, "qm9", tmp_path / "c").steps == 2000
