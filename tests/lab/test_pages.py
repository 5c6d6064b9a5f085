"""The pages and results that are committed belong together."""

from pathlib import Path

import pytest
from candi_lab.report.readme import BEGIN, END
from candi_lab.runner.experiment import SCALES, experiments, read
from candi_lab.runner.ledger import Ledger
from candi_lab.runner.schema import LEDGER, SWEEPS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "lab" / "results"


def _kept():
    every = (read(name, scale) for name in experiments() for scale in SCALES)
    return [one for one in every if (RESULTS / one.label).is_dir()]


def test_every_figure_is_on_a_page():
    pages = "".join(page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    figures = [path.name for path in (ROOT / "docs" / "figures").glob("*.svg")]
    assert len(figures) > 20
    assert [name for name in figures if f"figures/{name}" not in pages] == []


@pytest.mark.parametrize("experiment", _kept(), ids=lambda one: one.label)
def test_the_page_of_results_has_every_claim_and_every_sweep(experiment):
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    section = page.partition(f"## {experiment.title} ({experiment.size})\n")[2].partition("\n## ")[0]
    assert all(f"| {claim.paper} |" in section for claim in experiment.claims)
    for name in experiment.grids:
        swept = (RESULTS / experiment.label / f"{name}.jsonl.xz").exists()
        assert (f"](figures/{experiment.label}-{name}.svg)" in section) == swept


@pytest.mark.parametrize("experiment", _kept(), ids=lambda one: one.label)
def test_the_ledger_names_the_sweeps_that_are_kept(experiment):
    """Without counting: to unpack all points takes seconds."""
    folder = RESULTS / experiment.label
    swept = {entry["stage"].removeprefix("sweep ") for entry in Ledger(folder / f"{LEDGER}.jsonl").entries()
             if entry["stage"].startswith("sweep ")}  # fmt: skip
    assert swept == {path.name.removesuffix(".jsonl.xz") for path in folder.glob("*.jsonl.xz")} != set()
    assert not (folder / SWEEPS).exists()


def test_results_are_small_and_the_readme_has_one_table():
    assert sum(path.stat().st_size for path in RESULTS.rglob("*") if path.is_file()) < 12e6
    between = (ROOT / "README.md").read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert sum(line.startswith("| ---") for line in between.splitlines()) == 1
    assert "docs/results.md" in between
