"""Labels of any kind: classes by name, numbers by rule, several at once; what is asked for them."""

import json

import numpy as np
import pytest

from candi.base.errors import UserError
from candi.base.labels import Label, class_numbers
from candi.data.corpus import Corpus
from candi.data.datasets import load_dataset
from candi.data.labels import Labels, Rule
from candi.data.properties import kind_of, properties
from candi.data.tokenizer import Tokenizer

ROWS = [("AAKK", "base", 10), ("DDEE", "acid", 9), ("KRKA", "base", 2), ("GGGG", "none", 1)]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "peptides.fasta"
    path.write_text("".join(f">p{n} family={f} binds={b}\n{s}\n" for n, (s, f, b) in enumerate(ROWS)))
    return Corpus(str(path), rows=True)


def test_a_column_names_classes_and_a_rule_makes_two(corpus, tmp_path):
    found = Labels.of("family, binds>=9,charge>=2", corpus, "protein", tmp_path)
    assert found.taught == (
        Label("family", ("acid", "base", "none")), Label("binds>=9", ("no", "yes")), Label("charge>=2", ("no", "yes"))
    )  # fmt: skip
    assert found.numbers.tolist() == [[1, 1, 1], [0, 1, 0], [1, 0, 1], [2, 0, 0]]


def test_classes_that_are_numbers_stand_in_their_order(tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": "x", "year": year}) + "\n" for year in (10, 9, 100)))
    assert Labels.of("year", Corpus(str(tmp_path / "a.jsonl")), "text", tmp_path).taught[0].classes == (
        "9",
        "10",
        "100",
    )


def test_another_corpus_is_labelled_by_the_same_rules(corpus, tmp_path):
    found = Labels.of("family,binds:top", corpus, "protein", tmp_path)
    (tmp_path / "b.fasta").write_text(">q family=none binds=9.9\nAAAA\n>r family=acid binds=9\nAAAA\n")
    other = Corpus(str(tmp_path / "b.fasta"), rows=True)
    # the top decile of 1, 2, 9, 10 begins at 9.7, of its own values it would begin at 9.81
    assert found.of_other(other, "protein", tmp_path).tolist() == [[2, 1], [0, 0]]
    (tmp_path / "c.fasta").write_text(">q family=new binds=1\nAAAA\n")
    with pytest.raises(UserError, match="has the family 'new', which what is learned from has not"):
        found.of_other(Corpus(str(tmp_path / "c.fasta"), rows=True), "protein", tmp_path)


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("colour", "has no column 'colour'"),
        ("charge", "charge is a number; give a rule, as charge:top"),
        ("family>=2", "holds something that is no number .* for classes by name give family alone"),
        ("family,family", "names a label twice"),
        ("family,", "is no label"),
        ("id", "too many for classes"),
    ],
)
def test_what_is_no_label_is_refused(corpus, tmp_path, monkeypatch, spec, complaint):
    monkeypatch.setattr("candi.data.labels._MOST", 3)
    with pytest.raises(UserError, match=complaint):
        Labels.of(spec, corpus, "protein", tmp_path)


def test_a_class_that_all_have_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "x", "mood": "good"}\n' * 2)
    with pytest.raises(UserError, match="Every document has the mood 'good'; there is nothing to tell apart"):
        Labels.of("mood", Corpus(str(tmp_path / "a.jsonl")), "text", tmp_path)


FAMILY, TOP = Label("family", ("acid", "base", "a=b,c")), Label("binds:top")


@pytest.mark.parametrize(
    ("labels", "asked", "numbers"),
    [
        ([FAMILY], "base", [1]),
        ([FAMILY], 1, [1]),
        ([FAMILY], "1", [1]),
        ([FAMILY], "family=base", [1]),
        ([FAMILY], "a=b,c", [2]),
        ([FAMILY, TOP], "family=a=b,c,binds=yes", [2, 1]),
        ([FAMILY, TOP], "binds:top=no", [3, 0]),  # no family: the last vector of that label stands for none
        ([FAMILY, TOP], {"family": "acid"}, [0, 2]),
        ([FAMILY, TOP], {"family": 2, "binds": 1}, [2, 1]),
    ],
)
def test_what_is_asked_for_is_found(labels, asked, numbers):
    assert class_numbers(labels, asked) == numbers


@pytest.mark.parametrize(
    ("labels", "asked", "complaint"),
    [
        ([FAMILY], "salt", r"family has no label salt; it has 0 \(acid\), 1 \(base\)"),
        ([FAMILY], 3, "has no label 3"),
        ([FAMILY, TOP], "acid", "does not say which label is meant; write for example family=a=b,c,binds=yes"),
        ([FAMILY, TOP], {"colour": 1}, "no labels called 'colour'; it has family, binds:top"),
        ([Label("a>=1"), Label("a>=2")], {"a": 1}, "several labels called 'a'"),
        ([], "acid", "it was trained without --label"),
    ],
)
def test_what_is_not_there_is_told(labels, asked, complaint):
    with pytest.raises(UserError, match=complaint):
        class_numbers(labels, asked)


def test_properties_of_sequences_by_hand():
    found = {name: properties(["KRD", "GG"], name, "protein").tolist() for name in ("length", "charge", "hydropathy")}
    assert found["length"] == [3, 2]
    assert found["charge"] == [1, 0]
    assert found["hydropathy"] == pytest.approx([(-3.9 - 4.5 - 3.5) / 3, -0.4])
    assert properties(["GG"], "weight", "protein").tolist() == pytest.approx([132.12], abs=0.01)  # glycylglycine
    assert properties(["GCNA", "ATTT", "N"], "gc", "dna").tolist()[:2] == pytest.approx([2 / 3, 0])
    assert np.isnan(properties(["N"], "gc", "dna")[0])
    assert properties(["two words"], "words", "text").tolist() == [2]


def test_a_vocabulary_tells_the_kind_of_its_sequences():
    nothing = Corpus("pydoc")
    assert [kind_of(Tokenizer.from_spec(spec, nothing)) for spec in ("protein", "dna", "bytes")] == [
        "protein", "dna", "text"
    ]  # fmt: skip
    assert kind_of(Tokenizer.smiles(nothing.pieces())) == "molecules"


def test_integers_have_columns_too(tmp_path):
    rng = np.random.default_rng(0)
    key = np.array(["major", "minor"] * 20)
    np.savez(tmp_path / "a.npz", tokens=rng.integers(0, 9, (40, 6)), key=key, tempo=np.arange(40.0))
    data = load_dataset(str(tmp_path / "a.npz"), "integers", 6, label="key,tempo>=30", cache=tmp_path / "cache")
    assert data.labels == (Label("key", ("major", "minor")), Label("tempo>=30"))
    rows = np.load(tmp_path / "a.npz")["tokens"].tolist()
    for number in range(30):
        at = np.array([number])
        row, label = data.train.windows(at)[0].tolist(), data.train.labels(at)[0].tolist()
        where = rows.index(row)
        assert label == [where % 2, int(where >= 30)]


def test_a_rule_is_spelled_as_it_was_given():
    assert [str(Rule.of(spec)) for spec in ("qed:top", "rings>=2", " family ")] == ["qed:top", "rings>=2", "family"]


def test_a_table_that_cannot_be_read_is_a_sentence(tmp_path):
    (tmp_path / "a.csv").write_bytes("text,kind\ncaf\xe9,x\n".encode("latin-1"))
    with pytest.raises(UserError, match="is not UTF-8 text"):
        Labels.of("kind", Corpus(str(tmp_path / "a.csv"), rows=True), "text", tmp_path)


def test_another_manifest_makes_no_store(tmp_path):
    (tmp_path / "manifest.json").write_text('{"name": "an extension", "manifest_version": 3}')
    assert Corpus(str(tmp_path)).prepared is None
