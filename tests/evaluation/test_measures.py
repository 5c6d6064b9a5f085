"""Measures against values worked out by hand, and what they do with samples that hold nothing."""

import math
import zlib
from dataclasses import replace

import numpy as np
import pytest

from candi.base.errors import UserError
from candi.data.corpus import Corpus
from candi.evaluation.measures import MEASURES, compression, measure_named
from candi.evaluation.points import Point, Scored, measure_point
from candi.evaluation.provenance import check_match
from candi.evaluation.samples import Samples
from candi.evaluation.words import WordList, words_of
from tests.evaluation.test_compare import CELL, PROVENANCE

CHANGES = {"temperature": 0.9, "seed": 1, "checkpoint": "other"}


def _point(texts, nats=None, tokens=None, entropy=None):
    samples = Samples(PROVENANCE, texts, entropy or [0.0] * len(texts), 1.0)
    scores = {} if nats is None else {"scorer": Scored({}, nats, tokens)}
    return measure_point(samples, scores, WordList(frozenset({"the", "cat", "a"})))


def test_measures_of_three_texts_by_hand():
    texts = ["the cat", "the the dgo", "a"]
    point = _point(texts, nats=[6.0, 3.0, 0.0], tokens=[2, 1, 0], entropy=[1.0, 2.0, 3.0])
    found = point.measures
    assert found["perplexity"] == pytest.approx(math.exp(9 / 3))
    assert found["entropy"] == pytest.approx(2.0)
    assert found["valid_words"] == pytest.approx(5 / 6)
    assert found["unique_words"] == pytest.approx((1 + 2 / 3 + 1) / 3)
    data = b"the cat\nthe the dgo\na"
    assert found["compression"] == pytest.approx(len(zlib.compress(data, 9)) / len(data))
    assert point.columns["known_words"] == [2, 2, 1]
    assert point.columns["all_words"] == [2, 3, 1]


def test_a_measure_of_chosen_samples_is_that_of_their_sums():
    columns = {"nats": [6.0, 3.0, 0.0], "tokens": [2, 1, 0]}
    twice, nothing = MEASURES["perplexity"].bootstrap(columns, np.array([[0, 0, 1], [2, 2, 2]]))
    assert twice == pytest.approx(math.exp(15 / 5))
    assert math.isnan(nothing)


@pytest.mark.parametrize("texts", [["", "", ""], ["a"], [" ", "\n"]])
def test_samples_that_hold_nothing_have_no_perplexity_but_a_point(texts):
    point = _point(texts, nats=[0.0] * len(texts), tokens=[0] * len(texts))
    assert point.measures["perplexity"] is None
    assert math.isnan(compression([""]))


def test_identical_samples_compress_better_than_different_ones():
    assert compression(["the cat sat"] * 20) < 0.2 < compression(["qzxjk", "vbnmp", "plokij"])


def test_a_text_that_nothing_can_be_made_of_costs_infinitely_much_not_an_error():
    point = _point(["x"], nats=[5000.0], tokens=[1])
    assert point.measures["perplexity"] is None


def test_words_across_two_pieces_of_a_corpus(tmp_path, monkeypatch):
    monkeypatch.setattr("candi.data.corpus._PIECE", 4)
    (tmp_path / "a.txt").write_text("the cattle sat")
    assert words_of(Corpus(str(tmp_path / "a.txt"))) == {"the", "cattle", "sat"}


def test_names_of_measures_and_the_key_of_a_cell():
    with pytest.raises(UserError, match="did you mean 'entropy'"):
        measure_named("entropie", True)
    with pytest.raises(UserError):
        measure_named("perplexity", True)
    keys = {CELL.key, *(replace(CELL, **{name: value}).key for name, value in CHANGES.items())}
    assert len(keys) == 1 + len(CHANGES)
    assert replace(CELL, run="renamed").key == CELL.key
    assert replace(CELL, steps_fixed=True).key == CELL.key


def test_points_that_disagree_are_refused_by_the_name_of_the_field():
    made = [PROVENANCE, replace(PROVENANCE, cell=replace(CELL, run="b", seed=1))]
    check_match(made, ("n",))
    with pytest.raises(UserError, match="a and b cannot be compared: their seed differs \\(0 and 1\\)"):
        check_match(made, ("n", "seed"))


def test_unique_words_do_not_depend_on_how_many_samples_there_are():
    """The same texts once and four times: their own shares stay, that of all together would fall by four."""
    texts = ["a b b", "a c d"]
    once, often = (_point(texts * many).measures["unique_words"] for many in (1, 4))
    assert once == often == pytest.approx((2 / 3 + 1) / 2)


def test_points_of_the_first_version_keep_their_measure_under_another_name():
    """Then it was the share of all samples together, which is not compared with the new one."""
    point = _point(["a b b", "a c d"])
    old = point.to_json()
    old["columns"] = {name: some for name, some in old["columns"].items() if name != "unique_words"}
    read = Point.from_json(old | {"measures": {**old["measures"], "unique_words": 0.5}})
    assert read.measures["unique_words_pooled"] == 0.5
    assert "unique_words" not in read.measures
    assert Point.from_json(point.to_json()).measures == point.measures
