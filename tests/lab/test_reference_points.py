"""The data, measured as samples are."""

import numpy as np
import pytest
import torch
from candi_lab.report.run_tables import measured_text, reference_marks
from candi_lab.runner.experiment import read
from candi_lab.runner.ledger import Ledger
from candi_lab.runner.reference_points import SHUFFLED, TEXT, keep_reference_points, reference_points
from candi_lab.runner.schema import REFERENCE
from candi_lab.runner.store import Results

from candi.base.errors import UserError
from candi.data.datasets import load_dataset
from candi.evaluation.compare import compare
from candi.evaluation.scorers import Scores
from candi.views.plots import frontiers
from tests.lab.made import PERPLEXITY, curve_points

pytestmark = pytest.mark.usefixtures("cache")


class _Scorer:
    """Gives every letter two nats, and remembers what it has read."""

    identity: dict = {"scorer": "made up"}  # noqa: RUF012

    def __init__(self) -> None:
        self.read: list[list[str]] = []

    def score(self, texts):
        self.read.append(list(texts))
        return Scores(torch.tensor([2.0 * len(text) for text in texts]), torch.tensor([len(text) for text in texts]))


def test_they_are_of_text_that_was_kept_from_training_and_of_the_same_tokens_shuffled(text, tmp_path):
    settings, scorer = read("large", "toy").settings("candi", str(text), tmp_path), _Scorer()
    found = reference_points(settings, {"a": scorer, "/b/other": scorer}, 4, None)
    assert list(found) == [TEXT, SHUFFLED]
    assert found[TEXT] == found[SHUFFLED]  # this scorer does not look at the order, and neither does entropy
    assert found[TEXT]["perplexity"] == found[TEXT]["perplexity:other"] == pytest.approx(np.exp(2))
    kept = load_dataset(str(text), settings.tokenizer, settings.length, valid_fraction=settings.valid_fraction)
    held_out = kept.tokenizer.decode(np.concatenate(kept.valid.first(1000)))
    real, shuffled = scorer.read[0], scorer.read[2]
    assert len(real) == len(shuffled) == 4
    assert all(one in held_out for one in real)
    assert not any(one in held_out for one in shuffled)
    assert [sorted(one) for one in real] == [sorted(one) for one in shuffled]


def test_where_tokenizers_differ_there_is_nothing_to_shuffle(text, tmp_path):
    settings, scorer = read("vocabulary", "toy").settings("candi-27", str(text), tmp_path), _Scorer()
    found = reference_points(settings, {"a": scorer}, 4, 50)
    assert list(found) == [TEXT]
    assert all(len(one) == 50 for one in scorer.read[0])
    assert 0 < found[TEXT]["word_entropy"] < np.log(50)


def test_they_are_kept_once_and_a_scorer_that_is_missing_stops_nothing(text, tmp_path, capsys):
    toy, scorer = read("large", "toy"), _Scorer()
    kept, settings = Results(toy, tmp_path / "r"), toy.settings("candi", str(text), tmp_path)
    given = ("plan", settings, ["nobody"], torch.device("cpu"), lambda seconds: {"device": "here"})

    def missing(source, device):
        raise UserError(f"Nobody is called {source}.")

    keep_reference_points(kept, *given, missing)
    assert f"{TEXT}: Nobody is called nobody." in capsys.readouterr().err
    assert kept.ledger.entries() == []
    keep_reference_points(kept, *given, lambda source, device: scorer)
    first = kept.ledger.entries()
    assert [(entry["run"], entry["device"]) for entry in first] == [(TEXT, "here"), (SHUFFLED, "here")]
    keep_reference_points(kept, *given, missing)
    assert len(scorer.read) == 2  # the text and its tokens shuffled, once each
    assert kept.ledger.entries() == first


def test_the_words_of_the_data_are_valid(text, tmp_path):
    settings = read("text8", "toy").settings("candi", str(text), tmp_path)
    found = reference_points(settings, {}, 8, None, words=True)
    # a word may be cut at either end of a sequence, and a window of the toy holds few of them
    assert 1 > found[TEXT]["valid_words"] > 0.8 > found[SHUFFLED]["valid_words"] > 0
    assert 0 < found[TEXT]["unique_words"] <= found[SHUFFLED]["unique_words"] <= 1


def test_the_page_names_them_and_the_figure_marks_them(tmp_path):
    ledger, experiment = Ledger(tmp_path / "ledger.jsonl"), read("large", "toy")
    assert measured_text(experiment, ledger) == []
    assert reference_marks(experiment, ledger) == {}
    values = {"entropy": 4.67, "perplexity": 20.55, "perplexity:judge": 3.21}
    ledger.write(REFERENCE, TEXT, "plan", measures=values)
    ledger.write(REFERENCE, SHUFFLED, "plan", measures=values | {"perplexity": 1974.2})
    (sentence,) = measured_text(experiment, ledger)
    assert f"{TEXT}: entropy of a sample (nats) 4.67, generative perplexity 20.6, 3.21 by judge; " in sentence
    assert f"{SHUFFLED}: entropy of a sample (nats) 4.67, generative perplexity 1,974, 3.21 by judge." in sentence
    assert reference_marks(experiment, ledger, "perplexity:nobody") == {}
    assert reference_marks(experiment, ledger, "perplexity:judge") == {TEXT: (4.67, 3.21), SHUFFLED: (4.67, 3.21)}
    marks = reference_marks(experiment, ledger)
    assert marks == {TEXT: (4.67, 20.55), SHUFFLED: (4.67, 1974.2)}
    for panel in frontiers(compare(list(curve_points("a", 1)), PERPLEXITY), marks).axes:
        drawn = [(*line.get_xdata(), *line.get_ydata()) for line in panel.get_lines() if line.get_marker() in "*x"]
        assert drawn == [(4.67, 20.55), (4.67, 1974.2)]
