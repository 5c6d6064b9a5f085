"""Every command and every line of code of docs/chemist.md, on a small file and for a few steps."""

import csv
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from candi.cli import main

pytest.importorskip("rdkit")
pytestmark = pytest.mark.usefixtures("cache")
DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "chemist.md").read_text(encoding="utf-8")
SMALL = ["--model.width", "32", "--model.blocks", "1", "--model.heads", "2"]
FEWER = {  # what each command is given beside what the page says: later flags win
    "train": [*SMALL, "--steps", "150", "--batch-size", "16", "--sample-every", "0", "--validate-every", "0",
              "--device", "cpu"],
    "train-classifier": [*SMALL, "--steps", "40", "--batch-size", "32", "--device", "cpu"],
    "sample": ["--steps", "4", "--device", "cpu"],
    "guide": ["--steps", "4", "--n", "12", "--device", "cpu"],
    "frontier": ["--steps", "4", "--n", "16", "--device", "cpu"],
    "export": [],
}  # fmt: skip


def _blocks(kind: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", page, re.S)


def _commands() -> list[list[str]]:
    lines = [line for block in _blocks("sh") for line in block.splitlines()]
    assert [line for line in lines if not line.startswith("candi ")] == ["pip install -e '.[molecules]'"]
    return [shlex.split(line)[1:] for line in lines if line.startswith("candi ")]


def _write(path: Path) -> None:
    """As the page spells it, its own example among them; the number of carbons is the activity."""
    random = np.random.default_rng(0)
    chains = ["".join(random.choice(list("CCNO"), size)) for size in random.integers(2, 9, 150)]
    rings = ["C1" + "".join(random.choice(list("CCN"), size)) + "C1" for size in random.integers(2, 7, 150)]
    example = re.search(r"```\n(smiles .*?)```", PAGE, re.S)[1]
    path.write_text(example + "\n".join(f"{text} {text.count('C')}" for text in chains + rings) + "\n")


def test_every_command_of_the_tutorial_works_in_its_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _write(tmp_path / "mine.smi")
    commands = _commands()
    assert {command[0] for command in commands} == set(FEWER)
    for command in commands:
        main([*command, *FEWER[command[0]]])
    valid = []
    for folder in ("guided", "grown", "filled", "again"):
        table = list(csv.DictReader((tmp_path / folder / "molecules.csv").open()))
        assert len(table) == 12
        valid += [row for row in table if row["smiles"]]
        assert (tmp_path / folder / "molecules.html").exists()
    labelled = list(csv.DictReader((tmp_path / "labelled" / "molecules.csv").open()))
    assert len(labelled) == 12
    assert valid
    assert all(0 <= float(row["liked"]) <= 1 and 0 < float(row["qed"]) < 1 for row in valid)
    grown = csv.DictReader((tmp_path / "grown" / "molecules.csv").open())
    assert all(row["sample"].startswith("C1CC") for row in grown)
    for folder in ("temperatures", "weights"):
        assert (tmp_path / "runs" / folder / "report.html").exists()
    assert "area under the curve" in capsys.readouterr().err
    (code,) = _blocks("python")
    exec(code, {})
    assert len(capsys.readouterr().out.splitlines()) == 8
    (code,) = _blocks("python", (DOCS / "molecules.md").read_text(encoding="utf-8"))
    exec(code, {})  # it guides the run of this page
