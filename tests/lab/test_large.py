"""Experiments whose runs are scored by a run of their own."""

from dataclasses import replace

import pytest
from candi_lab.cli import main
from candi_lab.report.page import read_results, write_page
from candi_lab.runner.experiment import read
from candi_lab.runner.runner import Reproduction

from candi.data.corpus import Corpus
from candi.evaluation.compare import Axes, compare
from candi.evaluation.points import read_points
from tests.lab.conftest import reproduce

pytestmark = pytest.mark.usefixtures("cache")


def test_a_run_that_is_scorer_and_swept_is_waited_for_by_no_command_that_holds_it(text, tmp_path):
    """The command that was to prepare it may be gone by the time that its own points are made."""
    toy = read("large", "toy")
    grids = {"methods": replace(toy.grids["methods"], runs=["judge"])}
    alone = Reproduction(replace(toy, grids=grids), str(text), tmp_path / "w", tmp_path / "r", "cpu")
    data = Corpus(str(text)).fingerprint
    with alone._lock("judge"):
        alone._finish("judge", data)
    assert alone.kept.missing("judge", data) == []


def test_texts_of_different_tokenizers_are_scored_alike(text, tmp_path, capfd):
    """Of each text the same number of characters; diversity by words, which no tokenizer changes."""
    main(reproduce("vocabulary", tmp_path, text))
    results = tmp_path / "results" / "vocabulary-toy"
    points = [point for v in ("27", "512") for point in read_points(results / f"v{v}.jsonl.xz")]
    assert len({point.cell.tokenizer for point in points}) == 2
    assert {point.provenance.characters for point in points} == {40}
    assert {point.provenance.scorer["scorer"] for point in points} == {"judge"}
    assert all(set(point.columns) == {"word_entropy", "nats", "tokens"} for point in points)
    # the scorer reads bytes, at most four to a character: never more than were left after the cut
    assert all(0 < max(point.columns["tokens"]) <= 160 for point in points)
    assert compare(points, Axes("word_entropy", "perplexity")).groups  # all of them can be compared
    page = write_page(read_results(tmp_path / "results"), tmp_path / "docs").read_text()
    assert (tmp_path / "docs" / "figures" / "vocabulary-toy-overview.svg").exists()
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| MDLM |")
    ]
    assert len(rows) == 2  # of each vocabulary
    assert all(row[-2:] == ["0.50", "0.50"] and set(row[2:-2]) <= {""} for row in rows)  # itself, alpha = 1 - t
    capfd.readouterr()
    main(reproduce("vocabulary", tmp_path, text, "--out", str(tmp_path / "elsewhere")))
    assert capfd.readouterr().err.count("done before") == 5  # the scorer too has nothing left to do
