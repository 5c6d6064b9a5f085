"""What the documents show works."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from candi import plots
from candi.evaluation.table import read_lines
from candi.reproduce.page import write
from candi.shipped import shipped

DOCS = Path(__file__).parents[1] / "docs"
pytestmark = pytest.mark.usefixtures("cache")


def _blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.S)


def _run(*arguments: object) -> str:
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_guide_s_walk_with_the_exact_posterior(tmp_path):
    (tmp_path / "walk.py").write_text(_blocks("guide.md")[-1])
    share = float(re.search(r"[\d.]+", _run(tmp_path / "walk.py").removeprefix("tensor("))[0])
    assert abs(share - 0.5) < 0.08  # 1,000 samples: a standard error of 0.016, and little noise is left out


def test_the_method_of_one_s_own_trains_samples_and_is_exact(tmp_path):
    method, proof = _blocks("add-a-method.md")
    assert 30 < len([line for line in method.splitlines() if line.strip()]) < 60
    (tmp_path / "cosine.py").write_text(method)
    (tmp_path / "proof.py").write_text(method + proof)
    _run(tmp_path / "proof.py")
    plugin, run = f"--plugin={tmp_path}/cosine.py", tmp_path / "run"
    small = ["--preset", "tiny", "--data", "pydoc", "--steps", "60", "--validate_every", "20"]
    _run("-m", "candi", "train", plugin, "--method", "cosine", *small, "--out", run)
    rows = (run / "metrics.csv").read_text().splitlines()
    valid = [float(row.split(",")[2]) for row in rows[1:] if row.split(",")[2]]
    assert valid[-1] < valid[0]
    assert _run("-m", "candi", "sample", run, plugin, "--steps", "4", "--prompt", "The ").startswith("The ")
    told = _run("-m", "candi", "evaluate", run, plugin, "--data", "pydoc")
    assert 3 < float(re.search(r"at most ([\d.]+) bits per token", told)[1]) < 9


def test_links_between_documents_lead_somewhere():
    root = DOCS.parent
    for page in [*root.glob("*.md"), *DOCS.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_page_on_performance_is_written_from_the_results():
    """And so are the numbers in it: the page is what its script makes of the committed files."""
    script = DOCS / "performance.py"
    told = subprocess.run(
        [sys.executable, "-c", f"import runpy; print(runpy.run_path({str(script)!r})['page'](), end='')"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout == (DOCS / "performance.md").read_text(encoding="utf-8")


def test_the_page_of_results_is_written_from_the_results(tmp_path, monkeypatch):
    """make results changes nothing: the page is what the committed points make of it, and its figures are there.

    They are not drawn, which would take as long as all the rest; other tests draw them from points of their own.
    """
    made = set()
    for name in ("frontiers", "by_temperature", "by_another_judge", "over_steps", "over_vocabulary", "choices",
                 "losses", "single_temperatures"):  # fmt: skip
        monkeypatch.setattr(plots, name, lambda *arguments: None)
    monkeypatch.setattr(plots, "save", lambda figure, stem: made.add(f"{stem.name}.svg"))
    readme = tmp_path / "README.md"
    readme.write_bytes((DOCS.parent / "README.md").read_bytes())
    page = write(DOCS.parent / "results", tmp_path, readme)
    assert page.read_text(encoding="utf-8") == (DOCS / "results.md").read_text(encoding="utf-8")
    assert readme.read_bytes() == (DOCS.parent / "README.md").read_bytes()  # its advice is theirs too
    assert "**27 characters" in readme.read_text(encoding="utf-8")
    assert "text8-small-methods.svg" in made
    assert made <= {path.name for path in (DOCS / "figures").glob("*.svg")}


def test_the_functions_of_the_page_on_identifiability():
    names: dict = {}
    exec(_blocks("identifiability.md")[0], names)  # our own page
    for name in re.findall(
        r"`(\w+)`", re.search(r"\| function.*?\n\n", (DOCS / "identifiability.md").read_text(), re.S)[0]
    ):
        assert hasattr(names["ident"], name), name


@pytest.mark.parametrize("rule", ["rings", "qed"])
def test_the_points_behind_the_figures_of_molecules_rise_with_the_weight(rule):
    """What docs/molecules.md says of the model that ships, in the file that `make molecules` wrote, and in its card."""
    lines = read_lines(DOCS / "figures" / f"qm9-{rule}.jsonl")
    weights = [line["card"]["guidance"]["weight"] for line in lines]
    means = [line["measures"]["property"] for line in lines]
    assert weights == sorted(weights)
    assert len(weights) >= 4
    assert means == sorted(means)
    assert {line["card"]["property"] for line in lines} == {rule}
    assert {line["card"]["n"] for line in lines} == {512}
    card = json.loads((shipped()["qm9"] / "card.json").read_text(encoding="utf-8"))
    assert {line["card"]["checkpoint"] for line in lines} == {card["sha256"]}
    told = {row["weight"]: row[f"mean_{rule}"] for row in card["measures"] if row["guided"] == f"{rule}:top"}
    assert told == dict(zip(weights, (round(mean, 4) for mean in means), strict=True))
