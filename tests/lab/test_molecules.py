"""The experiment of guided molecules at toy scale: classifiers, guidance, and measuring where there is RDKit."""

import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from candi_lab.cli import main
from candi_lab.report.page import read_results, verdict_lines, write_page
from candi_lab.runner.experiment import read
from candi_lab.runner.ledger import Ledger
from candi_lab.runner.runner import Reproduction

from candi.evaluation.compare import compare
from candi.evaluation.points import read_points
from tests.lab.conftest import reproduce
from tests.lab.made import MOLECULES

pytest.importorskip("rdkit")
pytestmark = pytest.mark.usefixtures("cache")
KINDS = ("qed-clean", "qed-transformer", "qed-bag", "qed-long")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    random = np.random.default_rng(0)
    chains = ["".join(random.choice(list("CCNO"), size)) for size in random.integers(1, 8, 60)]
    rings = ["C1" + "".join(random.choice(list("CCN"), size)) + "C1" for size in random.integers(1, 6, 60)]
    path = tmp_path_factory.mktemp("data") / "some.smi"
    path.write_text("\n".join(chains + rings) + "\n")
    return path


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory, cache):
    folder = tmp_path_factory.mktemp("whole")
    main(reproduce("molecules", folder, data))
    return folder / "results" / "molecules-toy"


def _cells(folder, name):
    return [point.cell for point in read_points(folder / f"{name}.jsonl.xz")]


def test_guided_points_of_every_weight_temperature_and_tilt(whole):
    cells = _cells(whole, "qed")
    seen = {(cell.run, cell.temperature, cell.guidance.weight) for cell in cells}
    assert seen == {(run, t, w) for run in ("candi", "mdlm") for t in (0.7, 1.0) for w in (0.0, 3.0)}
    assert {cell.guidance.noise for cell in cells} == {None, "mdlm"}  # clean, and noise-aware
    assert all({"is_molecule", "property"} == set(one.columns) for one in read_points(whole / "qed.jsonl.xz"))


def test_discrete_guidance_has_nothing_to_tilt_and_its_points_are_made_once(whole):
    cells = _cells(whole, "ways-rings")
    ways = Counter((cell.run, cell.options.get("order"), cell.guidance.reveal) for cell in cells)
    both = ("random", "confidence")
    assert ways == {("mdlm", None, 0.0): 2, **{("candi", order, reveal): 2 for order in both for reveal in (0.0, 1.0)}}


def test_classifiers_of_every_kind_and_none_guide_the_same_way(whole, tmp_path):
    points = read_points(whole / "kinds-qed.jsonl.xz")
    by = {(one.cell.run, one.cell.guidance.classifier, one.cell.guidance.weight) for one in points}
    assert by == {("candi", kind, w) for kind in KINDS for w in (0.0, 3.0)} | {
        ("candi-qed", None, w) for w in (0.0, 0.5, 1.0, 2.0, 4.0)
    }
    each = Ledger(whole / "ledger.jsonl").find("sweep kinds-qed", "candi")["each"]
    assert {(one["steps"], one["by"]) for one in each} == {(4, kind) for kind in KINDS}
    assert all(one["seconds"] > 0 for one in each)
    curves = {curve.label for curve in compare(points, MOLECULES, pooled=True).groups[0].curves}
    assert curves == {"candi-qed", *(f"candi ({kind})" for kind in KINDS)}


def test_the_page_of_a_guided_sweep(whole, tmp_path):
    (one,) = read_results(whole.parent)
    lines = verdict_lines(one)
    one_of = "CANDI (calibrated)"
    compared = f"qed of {one_of} (qed-long) minus that of {one_of} (qed-clean) (level within 0.01): 4 steps"
    assert any(compared in line for line in lines)
    assert not any(line.startswith("not measured") for line in lines)  # every claim finds its curves
    one = replace(one, sweeps={name: one.sweeps[name] for name in ("qed", "kinds-qed")})
    page = write_page([one], tmp_path).read_text()
    (row,) = [
        line.split(" | ")
        for line in page.splitlines()
        if line.startswith("| CANDI (calibrated), taught the label | 4 | ")
    ]
    assert float(row[-1].removesuffix(" |")) > 0  # milliseconds a molecule
    assert "temperatures on its frontier" in page
    # runs are shown at each temperature alone, ways to sample one run are not
    drawn = [path.stem for path in (tmp_path / "figures").glob("*-temperatures.svg")]
    assert drawn == ["molecules-toy-qed-temperatures"]
    assert "| qed-clean | recurrent | clean molecules | 5 | " in page
    assert "| qed-mdlm | transformer | noise of mdlm | 5 | " in page
    assert "| qed-udlm |" not in page  # no part of the toy


def test_samples_that_are_made_without_rdkit_are_measured_where_there_is_some(whole, data, tmp_path):
    """The same points, whether they were measured at once or set aside first."""
    shutil.copytree(whole.parents[1] / "work", tmp_path / "work", ignore=shutil.ignore_patterns("sweeps"))
    without = Reproduction(read("molecules", "toy"), str(data), tmp_path / "work", tmp_path / "r", "cpu", rdkit=False)
    without.go(["mdlm"])
    aside = sorted(path.name for path in (tmp_path / "r").glob("*.samples.jsonl"))
    assert aside == ["qed.mdlm.samples.jsonl", "ways-rings.mdlm.samples.jsonl"]
    assert not without.kept.points_file("qed").exists()
    replace(without, rdkit=True).go(["mdlm"])
    assert not list((tmp_path / "r").glob("*.samples.jsonl"))
    for name in ("qed", "ways-rings"):
        theirs = {one.key: one.measures for one in read_points(whole / f"{name}.jsonl.xz") if one.cell.run == "mdlm"}
        assert {one.key: one.measures for one in without.kept.points(name)} == theirs
    assert without.kept.ledger.find("sweep qed", "mdlm")["points"] == 4
