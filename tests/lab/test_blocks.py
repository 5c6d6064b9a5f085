"""The page on blocks: bits per character by the size of the block, and windows of samples longer than in training."""

import json

import pytest
from candi_lab.cli import main as lab
from candi_lab.report.blocks import write_blocks
from candi_lab.report.readme import BEGIN, END

from tests.training.runs import train_here

pytestmark = pytest.mark.usefixtures("cache")


def _kept(folder, name: str, method: str, block: int | None, bits: float) -> None:
    model = {"blocks": 2, "width": 96}
    settings = {"method": method, "block": block, "length": 256, "steps": 4000, "batch_size": 8, "model": model}
    found = {"bits_per_character": bits, "low": bits - 0.02, "high": bits + 0.02, "exact": method == "ar",
             "tokens": 100, "characters": 100, "sequences": 256}  # fmt: skip
    (folder / name).mkdir(parents=True)
    (folder / name / "run.json").write_text(json.dumps({"settings": settings}))
    (folder / name / "bits.json").write_text(json.dumps(found))


def test_windows_of_long_samples_and_the_page(tmp_path, capsys):
    """Three windows of samples of runs that were trained on one; text that nobody wrote stands beside them."""
    for name, changes in ("blocks", {"block": 4}), ("plain", {}), ("reader", {"method": "ar"}):
        train_here(tmp_path / name, steps=4, validate_every=0, **changes)
    runs, kept = [str(tmp_path / name) for name in ("blocks", "plain", "reader")], tmp_path / "kept"
    lab(
        [
            "figures",
            "windows",
            "--runs",
            *runs[:2],
            "--scorer",
            runs[2],
            "--text",
            "pydoc",
            "--n",
            "5",
            "--out",
            str(kept),
        ]
    )
    rows = [json.loads(line) for line in (kept / "windows.jsonl").read_text().splitlines()]
    assert [(row["source"], row["window"]) for row in rows] == [
        (name, window) for name in ("blocks", "plain", "held-out text") for window in (1, 2, 3, 4)
    ]
    assert all(0 < row["nats"] < 8 and row["samples"] == 5 and row["length"] == 16 for row in rows)
    for name, method, block, bits in (
        ("a", "mdlm", 16, 2.5),
        ("b", "ar", None, 2.0),
        ("c", "mdlm", None, 2.7),
        ("d", "mdlm", 4, 2.2),
    ):
        _kept(kept, name, method, block, bits)
    page = tmp_path / "docs" / "blocks.md"
    page.parent.mkdir()
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_blocks(kept, page)
    text = page.read_text()
    assert text.startswith("before")
    assert text.endswith("after\n")
    assert "old" not in text
    places = [
        text.index(part) for part in ("token by token", "blocks of 4 ", "blocks of 16 ", "the window of 256 at once")
    ]
    assert places == sorted(places)
    assert "at most 2.500 ± 0.020" in text
    assert "| 2.000 ± 0.020" in text
    assert "5 samples each, four times as long as the 16 characters" in text
    assert (page.parent / "figures" / "blocks-windows.svg").stat().st_size > 1000
    capsys.readouterr()


def test_nothing_is_written_where_nothing_was_kept(tmp_path):
    write_blocks(tmp_path / "none", tmp_path / "page.md")
    assert not (tmp_path / "page.md").exists()
