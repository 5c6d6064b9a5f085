"""The experiment of guided molecules at toy scale: classifiers, guidance, and measuring where there is RDKit."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest

from candi.cli import main
from candi.data.corpus import Corpus
from candi.data.labels import Label
from candi.evaluation.compare import Axes, compare
from candi.evaluation.table import read_lines
from candi.reproduce import reproduce, results
from candi.reproduce.declared import Grid
from candi.reproduce.experiment import read
from candi.reproduce.ledger import Ledger
from candi.reproduce.page import _planned, write

pytest.importorskip("rdkit")
pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    random = np.random.default_rng(0)
    chains = ["".join(random.choice(list("CCNO"), size)) for size in random.integers(1, 8, 150)]
    rings = ["C1" + "".join(random.choice(list("CCN"), size)) + "C1" for size in random.integers(1, 6, 150)]
    path = tmp_path_factory.mktemp("data") / "some.smi"
    path.write_text("\n".join(chains + rings) + "\n")
    return path


def _reproduce(folder, data):
    main(["reproduce", "molecules", "--scale", "toy", "--data", str(data), "--out", str(folder / "work"), "--results",
          str(folder / "results"), "--device", "cpu"])  # fmt: skip
    return folder / "results" / "molecules-toy"


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory, cache):
    return _reproduce(tmp_path_factory.mktemp("whole"), data)


def test_guided_points_of_every_weight_temperature_and_tilt(whole):
    lines = read_lines(whole / "qed.jsonl")
    seen = {(c["run"], c["temperature"], c["guidance"]["weight"]) for c in (line["card"] for line in lines)}
    assert seen == {(run, t, w) for run in ("candi", "mdlm") for t in (0.7, 1.0) for w in (0.0, 3.0)}
    assert {line["card"]["guidance"]["noise"] for line in lines} == {None, "mdlm"}  # clean, and noise-aware
    assert {line["card"]["guidance"]["reveal"] for line in read_lines(whole / "tilted-qed.jsonl")} == {0.0, 1.0}
    assert all({"is_molecule", "property"} == set(line["columns"]) for line in lines)


def test_discrete_guidance_has_nothing_to_tilt_and_its_points_are_made_once(whole):
    lines = read_lines(whole / "ways-rings.jsonl")
    ways = Counter((c["run"], c["options"].get("order"), c["guidance"]["reveal"]) for c in (x["card"] for x in lines))
    both = ("random", "confidence")
    assert ways == {("mdlm", None, 0.0): 4, **{("candi", order, reveal): 4 for order in both for reveal in (0.0, 1.0)}}


def test_classifiers_of_every_kind_and_none_guide_the_same_way(whole, tmp_path):
    lines = read_lines(whole / "kinds-qed.jsonl")
    by = {(c["run"], c["guidance"]["classifier"], c["guidance"]["weight"]) for c in (line["card"] for line in lines)}
    kinds = ("qed-clean", "qed-transformer", "qed-bag", "qed-long")
    assert by == {("candi", kind, w) for kind in kinds for w in (0.0, 3.0)} | {
        ("candi-qed", None, w) for w in (0.0, 0.5, 1.0, 2.0, 4.0)
    }
    each = Ledger(whole / "ledger.jsonl").find("sweep kinds-qed", "candi")["each"]
    assert {(one["steps"], one["by"]) for one in each} == {(4, kind) for kind in kinds}
    assert all(one["seconds"] > 0 for one in each)
    curves = {
        curve.label for curve in compare(lines, Axes("unique_molecules", "property"), pooled=True).groups[0].curves
    }
    assert curves == {"candi-qed", *(f"candi ({kind} 1)" for kind in kinds)}
    page = write(whole.parent, tmp_path).read_text()
    (row,) = [line.split(" | ") for line in page.splitlines() if line.startswith("| candi-qed | 4 | ")]
    assert float(row[-1].removesuffix(" |")) > 0  # milliseconds a molecule
    assert "temperatures on its frontier" in page
    # runs are shown at each temperature alone, ways to sample one run are not
    assert [path.stem for path in (tmp_path / "figures").glob("*-temperatures.svg")] == [
        "molecules-toy-qed-temperatures"
    ]
    assert "| qed-clean | recurrent | clean molecules | 30 | " in page
    assert "| qed-mdlm | transformer | noise of mdlm | 30 | " in page
    assert "| qed-udlm |" not in page  # no part of the toy


def test_what_is_made_without_rdkit_is_measured_where_there_is_some(whole, data, tmp_path, monkeypatch, capfd):
    """The same points, whether they were measured at once or set aside first."""
    for module in (reproduce, results):
        monkeypatch.setattr(module, "HAS_RDKIT", False)
    shutil.copytree(whole.parents[1] / "work", tmp_path / "work", ignore=shutil.ignore_patterns("sweeps"))
    folder = _reproduce(tmp_path, data)  # nothing can be compared yet, and the command says so
    told = capfd.readouterr()
    assert "Set aside until the same command is run where there is RDKit: kinds-qed.candi-qed.samples.jsonl" in told.err
    assert told.out.count("not measured: ") == told.out.count("\n") > 2
    aside = sorted(path.name for path in folder.glob("*.samples.jsonl"))
    assert aside == [
        "kinds-qed.candi-qed.samples.jsonl", "kinds-qed.candi.samples.jsonl", "qed.candi.samples.jsonl",
        "qed.mdlm.samples.jsonl", "tilted-qed.candi.samples.jsonl", "ways-rings.candi.samples.jsonl",
        "ways-rings.mdlm.samples.jsonl",
    ]  # fmt: skip
    assert not (folder / "qed.jsonl").exists()
    for module in (reproduce, results):
        monkeypatch.setattr(module, "HAS_RDKIT", True)
    _reproduce(tmp_path, data)
    assert not list(folder.glob("*.samples.jsonl"))
    for name in ("qed", "tilted-qed", "kinds-qed"):
        mine, theirs = (
            {line["key"]: line["measures"] for line in read_lines(f / f"{name}.jsonl")} for f in (folder, whole)
        )
        assert mine == theirs
    assert Ledger(folder / "ledger.jsonl").find("sweep qed", "mdlm")["points"] == 4


def test_classifiers_read_their_data_as_the_run_does(tmp_path):
    made = read("molecules", "small").classifier("qed-bag", "candi", tmp_path, "qm9", tmp_path / "c")
    assert made.skip_bad
    assert made.kind == "bag"
    assert made.steps == 300  # changed at this scale, for this one
    assert read("molecules", "small").classifier("qed-long", "candi", tmp_path, "qm9", tmp_path / "c").steps == 2000


def test_a_column_of_the_table_goes_before_rdkit(tmp_path):
    """So that labels can be made on a machine that has no RDKit."""
    (tmp_path / "t.csv").write_text("text,qed\nCC,0.9\nCCC,0.1\nCCO,0.2\n")
    labels, _ = Label.of("qed>=0.5").of_corpus(Corpus(str(tmp_path / "t.csv")), tmp_path)
    assert labels.tolist() == [1, 0, 0]
    rows = [{"text": "CC", "rings": 3}, {"text": "C", "rings": 0}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert Label.of("rings>=1").of_corpus(Corpus(str(tmp_path / "t.jsonl")), tmp_path)[0].tolist() == [1, 0]
    assert not Corpus(str(tmp_path / "t.csv")).has("rings")
    assert not Corpus("pydoc").has("qed")


def test_points_that_left_the_grid_are_left_out():
    grid = Grid("x", runs=["a", "b", "c"], options={"order": ["random"]}, steps=[8], temperatures=[1.0],
                classifiers={"a": ["clean"]}, weights=[0.0, 2.0], reveals=[0.0], labels={"b": 1},
                label_weights=[1.0])  # fmt: skip
    card = {"run": "a", "n": 4, "steps_fixed": False, "steps": 8, "temperature": 1.0, "options": {"order": "random"}}
    by = {"classifier": "clean", "weight": 2.0, "reveal": 0.0, "noise": None}
    assert _planned({**card, "guidance": by}, grid, 4)
    assert _planned({**card, "run": "c"}, grid, 4)
    assert _planned({**card, "run": "b", "guidance": {**by, "classifier": None, "weight": 1.0}}, grid, 4)
    assert _planned({**card, "guidance": {**by, "noise": "mdlm", "reveal": 1.0}}, grid, 4)
    for left in (
        {"guidance": {**by, "weight": 40.0}}, {"guidance": {**by, "reveal": 1.0}}, {"guidance": None},
        {"guidance": {**by, "classifier": "other"}}, {"guidance": {**by, "classifier": None, "weight": 1.0}},
        {"guidance": by, "options": {"order": "confidence"}}, {"guidance": by, "steps": 16}, {"guidance": by, "n": 5},
    ):  # fmt: skip
        assert not _planned({**card, **left}, grid, 4), left
