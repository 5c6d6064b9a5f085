"""The experiment of a large vocabulary at toy scale: judged by a run of its own."""

import subprocess
import sys
from dataclasses import replace

import pytest

from candi.cli import main
from candi.data.corpus import Corpus
from candi.errors import UserError
from candi.evaluation.compare import Axes, compare
from candi.evaluation.table import read_lines, write_lines
from candi.reproduce.experiment import read
from candi.reproduce.landmarks import SHUFFLED, TEXT
from candi.reproduce.ledger import Ledger
from candi.reproduce.page import write
from candi.reproduce.reproduce import Reproduction

pytestmark = pytest.mark.usefixtures("cache")


def _flags(folder):
    return ["reproduce", "large", "--scale", "toy", "--out", str(folder / "w"), "--results", str(folder / "r"),
            "--device", "cpu"]  # fmt: skip


def test_a_run_judges_paths_are_swept_and_commands_share_the_work(tmp_path, capsys):
    """Two commands, each with something to do: the judge is trained once, and so is every other run."""
    command = [sys.executable, "-m", "candi", *_flags(tmp_path), "--shared", "2"]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = [one.communicate(timeout=600)[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], told
    results = tmp_path / "r" / "large-toy"
    lines = read_lines(results / "methods.jsonl")
    assert {line["card"]["scorer"]["scorer"] for line in lines} == {"judge"}
    assert all(line["measures"]["perplexity"] > 1 for line in lines)
    assert all(set(line["columns"]) == {"entropy", "nats", "tokens"} for line in lines)
    paths = {line["card"]["options"].get("path") for line in read_lines(results / "path.jsonl")}
    assert paths == {None, "diagonal", "early", "late"}
    ledger = Ledger(results / "ledger.jsonl").entries()
    trained = [entry["run"] for entry in ledger if entry["stage"] == "train"]
    assert sorted(trained) == ["ar", "candi", "candi-free", "judge", "mdlm"]
    assert all(entry["shared"] == 2 for entry in ledger)
    assert all(sum(f"{run}: training" in text for text in told) == 1 for run in trained)
    others = [run for run in trained if run != "judge"]
    assert all(any(f"{run}: training" in text for run in others) for text in told)  # both had something to do
    assert all(entry["losses"][-1][0] == 30 for entry in ledger if entry["stage"] == "train")
    write(tmp_path / "r", tmp_path / "docs")
    assert (tmp_path / "docs" / "figures" / "large-toy-losses.svg").exists()
    marks = {entry["run"]: entry["measures"] for entry in ledger if entry["stage"] == "landmark"}
    assert list(marks) == [TEXT, SHUFFLED]
    assert marks[TEXT]["entropy"] == marks[SHUFFLED]["entropy"]
    assert marks[TEXT]["perplexity"] != marks[SHUFFLED]["perplexity"]
    before = {path.name: path.read_text() for path in results.glob("*.jsonl")}
    capsys.readouterr()
    main(_flags(tmp_path))  # one alone finds nothing left to do
    assert {path.name: path.read_text() for path in results.glob("*.jsonl")} == before
    assert (
        "perplexity per token of candi-free (early) / candi-free (diagonal) (ahead): 4 steps:"
        in capsys.readouterr().out
    )
    # on another machine, with nothing but the results: the same judge, so that points can be compared
    kept = [line for line in lines if line["card"]["run"] != "mdlm"]
    write_lines(results / "methods.jsonl", kept)
    main([*_flags(tmp_path)[:5], str(tmp_path / "elsewhere"), *_flags(tmp_path)[6:]])
    assert [path.parent.name for path in (tmp_path / "elsewhere").glob("*/run.json")] == ["mdlm"]
    again = read_lines(results / "methods.jsonl")
    assert len({line["card"]["scorer"]["content"] for line in again}) == 1
    assert [line["measures"] for line in again] == [line["measures"] for line in lines]


def test_a_run_that_judges_and_is_swept_is_waited_for_by_nobody_who_holds_it(tmp_path):
    """Whoever was to prepare it may be gone by the time that its own points are made."""
    toy = read("large", "toy")
    grids = {"methods": replace(toy.grids["methods"], runs=["judge"])}
    alone = Reproduction(replace(toy, grids=grids), "pydoc", tmp_path / "w", tmp_path / "r", "cpu")
    data = Corpus("pydoc").fingerprint
    with alone._lock("judge"):
        alone._finish("judge", data)
    assert alone.kept.missing("judge", data) == []


def test_texts_of_different_tokenizers_are_judged_alike(tmp_path, capfd):
    """Of each text the same number of characters; diversity by words, which no tokenizer changes."""
    main(["reproduce", "vocabulary", "--scale", "toy", "--out", str(tmp_path / "w"), "--results", str(tmp_path / "r"),
          "--device", "cpu"])  # fmt: skip
    lines = [line for v in ("27", "512") for line in read_lines(tmp_path / "r" / "vocabulary-toy" / f"v{v}.jsonl")]
    assert len({line["card"]["tokenizer"] for line in lines}) == 2
    assert {line["card"]["characters"] for line in lines} == {200}
    assert all(set(line["columns"]) == {"word_entropy", "nats", "tokens"} for line in lines)
    # the judge reads bytes, at most four to a character: never more than were left after the cut
    assert all(0 < max(line["columns"]["tokens"]) <= 800 for line in lines)
    assert compare(lines, Axes("word_entropy", "perplexity")).groups  # nothing stands in the way of comparing them
    page = write(tmp_path / "r", tmp_path / "docs").read_text()
    assert (tmp_path / "docs" / "figures" / "vocabulary-toy-overview.svg").exists()
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| mdlm |")
    ]
    assert [row[1] for row in rows][1:] == ["512"]
    assert all(row[-2:] == ["0.50", "0.50"] and set(row[2:-2]) <= {""} for row in rows)  # itself, alpha = 1 - t
    capfd.readouterr()
    main(["reproduce", "vocabulary", "--scale", "toy", "--out", str(tmp_path / "elsewhere"), "--results",
          str(tmp_path / "r"), "--device", "cpu"])  # fmt: skip
    assert capfd.readouterr().err.count("done before") == 5  # the judge too has nothing left to do


def test_an_experiment_without_points_is_not_on_the_page(tmp_path):
    """A judge is kept as soon as it is trained; the runs that it will judge may come another day."""
    Ledger(tmp_path / "r" / "large-small" / "ledger.jsonl").write("judge", "judge", "plan")
    page = write(tmp_path / "r", tmp_path / "docs").read_text()
    assert "vocabulary" not in page
    assert "In short" not in page


def test_what_lies_elsewhere_is_said_on_the_command_line(tmp_path):
    small = read("large", "small").adapted("/data/gpt2", ["/data/judge.gguf"])
    assert small.settings("candi", "pydoc", tmp_path).tokenizer == "/data/gpt2"
    assert small.settings("judge", "pydoc", tmp_path).tokenizer == "bpe:257"  # its own
    with pytest.raises(UserError, match="no run 'nope'"):
        small.adapted(None, ["run:nope"])
    assert small.scorers == ["/data/judge.gguf"]
    other = read("large", "small").adapted("/elsewhere/gpt2", ["/elsewhere/judge.gguf"])
    assert small.sweep_plan("candi", "methods", "x") == other.sweep_plan("candi", "methods", "x")
    assert read("large", "small").adapted(None, ()).scorers == ["smollm2", "run:judge"]
