"""The data, measured as samples are."""

import numpy as np
import pytest
import torch

from candi import plots
from candi.data.cache import default_folder, load_tokenizer, load_tokens
from candi.data.corpus import Corpus
from candi.errors import UserError
from candi.evaluation.compare import Axes
from candi.evaluation.scorers import Scores
from candi.reproduce import landmarks as module
from candi.reproduce.declared import LANDMARK
from candi.reproduce.experiment import read
from candi.reproduce.landmarks import SHUFFLED, TEXT, keep_landmarks, landmarks
from candi.reproduce.ledger import Ledger
from candi.reproduce.of_runs import measured_text, places
from candi.reproduce.results import Results
from tests.evaluation.test_single_temperature import _curve, compare

pytestmark = pytest.mark.usefixtures("cache")


class _Judge:
    """Thinks one nat of every letter, and remembers what it has read."""

    def __init__(self) -> None:
        self.read: list[list[str]] = []

    def score(self, texts):
        self.read.append(list(texts))
        return Scores(torch.tensor([2.0 * len(text) for text in texts]), torch.tensor([len(text) for text in texts]))


@pytest.fixture
def judge(monkeypatch):
    one = _Judge()
    monkeypatch.setattr(module, "load_scorer", lambda source, device: one)
    return one


def test_they_are_of_text_that_nobody_was_trained_on_and_of_the_same_tokens_in_another_order(judge, tmp_path):
    settings = read("large", "toy").settings("candi", "pydoc", tmp_path)
    found = landmarks(settings, ["a", "/b/other"], 4, None, "cpu")
    assert list(found) == [TEXT, SHUFFLED]
    assert found[TEXT] == found[SHUFFLED]  # this judge does not look at the order, and neither does entropy
    assert found[TEXT]["perplexity"] == found[TEXT]["perplexity:other"] == pytest.approx(np.exp(2))
    corpus = Corpus("pydoc")
    tokenizer = load_tokenizer(settings.tokenizer, corpus, default_folder())
    tokens = load_tokens(corpus, tokenizer, default_folder())
    held_out = tokenizer.decode(tokens[len(tokens) - int(len(tokens) * settings.valid_fraction) :].astype(np.int64))
    real, shuffled = judge.read[:2]
    assert len(real) == len(shuffled) == 4
    assert all(text in held_out for text in real)
    assert not any(text in held_out for text in shuffled)
    assert [sorted(text) for text in real] == [sorted(text) for text in shuffled]


def test_where_tokenizers_differ_there_is_nothing_to_shuffle(judge, tmp_path):
    settings = read("vocabulary", "toy").settings("candi-27", "pydoc", tmp_path)
    found = landmarks(settings, ["a"], 4, 50, "cpu")
    assert list(found) == [TEXT]
    assert all(len(text) == 50 for text in judge.read[0])
    assert 0 < found[TEXT]["word_entropy"] < np.log(50)


def test_they_are_kept_once_and_a_judge_that_is_not_there_stops_nothing(judge, tmp_path, monkeypatch, capsys):
    toy = read("large", "toy")
    kept, settings = Results(toy, tmp_path / "r"), toy.settings("candi", "pydoc", tmp_path)
    given = ("plan", settings, ["nobody"], torch.device("cpu"), lambda seconds: {"device": "here"})
    with monkeypatch.context() as absent:
        absent.setattr(module, "load_scorer", _nobody)
        keep_landmarks(kept, *given)
    assert f"{TEXT}: Nobody is called nobody." in capsys.readouterr().err
    assert kept.ledger.entries() == []
    keep_landmarks(kept, *given)
    first = kept.ledger.entries()
    assert [(entry["run"], entry["device"]) for entry in first] == [(TEXT, "here"), (SHUFFLED, "here")]
    keep_landmarks(kept, *given)
    assert len(judge.read) == 2  # the text and its tokens shuffled, once each
    assert kept.ledger.entries() == first


def _nobody(source, device):
    raise UserError(f"Nobody is called {source}.")


def test_of_words_those_of_the_data_are_valid(tmp_path):
    settings = read("text8", "toy").settings("candi", "pydoc", tmp_path)
    found = landmarks(settings, [], 8, None, "cpu", words=True)
    # a word may be cut at either end of a sequence, and a window of the toy holds few of them
    assert found[TEXT]["valid_words"] > 0.7 > found[SHUFFLED]["valid_words"]
    assert 0 < found[TEXT]["unique_words"] <= found[SHUFFLED]["unique_words"] <= 1


def test_the_page_tells_them_and_the_figure_marks_them(tmp_path):
    ledger, experiment = Ledger(tmp_path / "ledger.jsonl"), read("large", "toy")
    assert measured_text(experiment, ledger) == []
    assert places(experiment, ledger) == {}
    values = {"entropy": 4.67, "perplexity": 20.55, "perplexity:judge": 3.21}
    ledger.write(LANDMARK, TEXT, "plan", measures=values)
    ledger.write(LANDMARK, SHUFFLED, "plan", measures=values | {"perplexity": 1974.2})
    (told,) = measured_text(experiment, ledger)
    assert f"{TEXT}: entropy of a sample (nats) 4.67, generative perplexity 20.6, 3.21 by judge; " in told
    assert f"{SHUFFLED}: entropy of a sample (nats) 4.67, generative perplexity 1,974, 3.21 by judge." in told
    assert places(experiment, ledger, "perplexity:nobody") == {}
    assert places(experiment, ledger, "perplexity:judge") == {TEXT: (4.67, 3.21), SHUFFLED: (4.67, 3.21)}
    marks = places(experiment, ledger)
    assert marks == {TEXT: (4.67, 20.55), SHUFFLED: (4.67, 1974.2)}
    panels = plots.frontiers(compare(list(_curve("a", 1)), Axes("entropy", "perplexity")), marks).axes
    for panel in panels:
        drawn = [(*line.get_xdata(), *line.get_ydata()) for line in panel.get_lines() if line.get_marker() in "*x"]
        assert drawn == [(4.67, 20.55), (4.67, 1974.2)]
