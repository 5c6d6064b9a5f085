"""Suites: text as people write it, numbers by hand, and what decides them stamped."""

import json
import math

import pytest

from candi.cli import main
from candi.data.corpus import Corpus
from candi.data.datasets import load_sequences
from candi.data.detokenize import detokenizer
from candi.evaluation.likelihood import likelihood
from candi.evaluation.suites import ZERO_SHOT, zero_shot
from candi.hub.loading import load
from tests.training.runs import train_here

pytestmark = pytest.mark.usefixtures("cache")
PTB = "the company said it does n't expect N % more . \n it 's a <unk> \\/ b\n" * 30


@pytest.fixture(scope="module")
def run(tmp_path_factory, cache):
    return train_here(tmp_path_factory.mktemp("suites") / "run", steps=10, method="mdlm").parent.parent


@pytest.fixture
def corpora(tmp_path):
    (tmp_path / "ptb.txt").write_text(PTB)
    rows = [json.dumps({"article": f"We show , in section {n} , that ( x ) holds ."}) for n in range(40)]
    (tmp_path / "arxiv.jsonl").write_text("\n".join(rows) + "\n")
    (tmp_path / "notes.md").write_text("nothing of a suite")
    return tmp_path


@pytest.mark.parametrize(
    ("rule", "published", "written"),
    [
        ("none", "a , b", "a , b"),
        ("wikitext", ' = A title = \n He said " no " : 1 @,@ 000 @-@ year', '= A title =\n He said "no": 1,000-year'),
        ("ptb", "it does n't cost $ N or N % , mr. <unk> 's", "it doesn't cost $1 or 1%, mr. ?'s"),
        ("lm1b", "see http : / / a.b , and / or it 's ( so )", "see http://a.b, and/or it's (so)"),
        ("lambada", "“ yes , ” she said . ''", '"yes," she said. "'),
        ("papers", "the model [ 3 ] works ; see fig . 2 .", "the model [3] works; see fig. 2."),
    ],
)  # fmt: skip
def test_marks_stand_where_people_write_them(rule, published, written):
    assert detokenizer(rule)(published) == written


def test_every_corpus_has_a_rule():
    assert {one.rule for one in ZERO_SHOT.values()} <= {"none", "wikitext", "ptb", "lm1b", "lambada", "papers"}


def test_numbers_are_those_of_the_text_as_it_is_written(run, corpora, tmp_path):
    """Perplexities by hand from the bits; words are those that were published, in proportion to the bytes."""
    model = load(run, "cpu")
    (score,) = zero_shot(model, ["ptb"], corpora, sequences=8, times=2)
    text = detokenizer("ptb")(PTB)
    assert "doesn't expect 1% more." in text
    (tmp_path / "written.jsonl").write_text(json.dumps({"text": text}) + "\n")
    data = load_sequences(Corpus(str(tmp_path / "written.jsonl")), model.tokenizer, 16, rows=False)
    found = likelihood(model, data.first(8), times=2)
    assert score.bits_per_token == pytest.approx(found.bits_per_token, rel=1e-6)
    assert score.perplexity == pytest.approx(2**found.bits_per_token)
    words = len(PTB.split()) * found.bytes / len(text.encode())
    assert score.words == pytest.approx(words, abs=0.1)
    assert math.log2(score.word_perplexity) == pytest.approx(found.bits_per_token * found.tokens / words, rel=1e-3)
    assert (score.context, score.stride, score.detokenised, score.suite) == (16, 16, "ptb 1", "zero-shot 1")
    assert score.tokenizer == model.tokenizer.fingerprint
    (again,) = zero_shot(model, ["ptb"], corpora, sequences=8, times=2)
    assert again == score


def test_the_command_takes_what_is_there(run, corpora, capsys):
    suite = ["evaluate", str(run), "--suite", "zero-shot", "--sequences", "4", "--times", "1", "--device", "cpu"]
    main([*suite, "--corpora-in", str(corpora), "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["corpus"] for row in rows] == ["ptb", "arxiv"]
    assert rows[0]["text"] != rows[1]["text"]
    main([*suite, "--corpora-in", str(corpora), "--corpora", "ptb"])
    told = capsys.readouterr().out
    assert "perplexity at most" in told
    assert "windows of 16 that do not overlap, rule ptb 1" in told
    (corpora / "lm1b.txt").write_text("\n")
    for wrong, complaint in (
        (["--corpora", "books"], "no corpus 'books'; choose one of"),
        (
            ["--corpora", "text8", "--corpora-in", str(corpora)],
            "text8 is at no known place of the hub; give --corpora-in",
        ),
        (["--corpora-in", str(corpora / "ptb.txt")], "is no folder"),
        (["--corpora", "lm1b", "--corpora-in", str(corpora)], "holds no text"),
        (["--suite", "few-shot"], "no suite 'few-shot'"),
        (["--data", "pydoc"], "Say what to evaluate"),
    ):
        with pytest.raises(SystemExit) as exit:
            main([*suite, *wrong])
        assert exit.value.code == 2
        assert complaint in capsys.readouterr().err


def test_the_generative_suite_is_a_pair_with_its_frontier(run, capsys):
    suite = ["evaluate", str(run), "--suite", "generative", "--n", "4", "--steps", "3", "--device", "cpu"]
    ar = train_here(run.parent / "scorer", steps=5, method="ar").parent.parent
    main([*suite, "--scorers", str(ar), "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["provenance"]["temperature"] for row in rows] == [0.7, 0.8, 0.9, 1.0]
    assert all(row["measures"]["perplexity"] > 1 and row["measures"]["entropy"] > 0 for row in rows)
    main([*suite, "--scorers", str(ar)])
    told = capsys.readouterr().out
    assert told.count("perplexity") == 4
    assert "4 samples of 16 tokens in 3 steps, draws in float64" in told
    with pytest.raises(SystemExit):
        main([*suite, "--scorers", "none"])
    assert "needs a scorer" in capsys.readouterr().err
