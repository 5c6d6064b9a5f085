"""The experiment of a large vocabulary at toy scale: judged by a run of its own."""

import pytest

from candi.cli import main
from candi.evaluation.compare import Axes, compare
from candi.evaluation.table import read_lines
from candi.reproduce.experiment import read

pytestmark = pytest.mark.usefixtures("cache")


def test_a_run_judges_the_others_and_paths_are_swept(tmp_path, capsys):
    main(["reproduce", "large", "--scale", "toy", "--out", str(tmp_path / "w"), "--results", str(tmp_path / "r"),
          "--device", "cpu"])  # fmt: skip
    results = tmp_path / "r" / "large-toy"
    lines = read_lines(results / "methods.jsonl")
    assert {line["card"]["scorer"]["scorer"] for line in lines} == {"ar"}
    assert all(line["measures"]["perplexity"] > 1 for line in lines)
    assert all(set(line["columns"]) == {"entropy", "nats", "tokens"} for line in lines)
    paths = {line["card"]["options"].get("path") for line in read_lines(results / "path.jsonl")}
    assert paths == {None, "diagonal", "early", "late"}
    told = capsys.readouterr().out
    assert (
        "perplexity of candi-free (ddim, exact, early) / candi-free (ddim, exact, diagonal) (ahead): 2 steps:" in told
    )


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
    capfd.readouterr()
    main(["reproduce", "vocabulary", "--scale", "toy", "--out", str(tmp_path / "elsewhere"), "--results",
          str(tmp_path / "r"), "--device", "cpu"])  # fmt: skip
    assert capfd.readouterr().err.count("done before") == 5  # the judge too has nothing left to do


def test_what_lies_elsewhere_is_said_on_the_command_line(tmp_path):
    small = read("large", "small").adapted("/data/gpt2", ["/data/judge.gguf"])
    assert small.settings("candi", "pydoc", tmp_path).tokenizer == "/data/gpt2"
    assert small.scorers == ["/data/judge.gguf"]
    other = read("large", "small").adapted("/elsewhere/gpt2", ["/elsewhere/judge.gguf"])
    assert small.sweep_plan("candi", "methods", "x") == other.sweep_plan("candi", "methods", "x")
    assert read("large", "small").adapted(None, ()).scorers == ["smollm2"]
