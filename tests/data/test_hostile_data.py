"""Tokenizers and stores that somebody has spoilt, or made to do harm: each is refused in one sentence."""

import json
import pickle
import shutil
import time

import numpy as np
import pytest
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from candi.base.errors import UserError
from candi.data import guarded
from candi.data.corpus import Corpus
from candi.data.guarded import guard_for
from candi.data.pieces import Piece
from candi.data.rows import load_documents
from candi.data.store import MANIFEST, Manifest, TokenStore
from candi.data.tokenizer import Tokenizer
from candi.evaluation.points import read_points
from candi.evaluation.samples import read_record
from candi.evaluation.wordfilter import WordFilter

pytestmark = pytest.mark.usefixtures("cache")
WORDS = {word: number for number, word in enumerate(("a", "b", "ab", " "))}


def _file(path, model, expression=None, **parts):
    made = Backend(model)
    if expression is not None:
        made.pre_tokenizer = pre_tokenizers.Split(Regex(expression), "isolated")
    for name, part in parts.items():
        setattr(made, name, part)
    made.save(str(path))
    return path


@pytest.fixture
def hurry(monkeypatch):
    monkeypatch.setattr(guarded, "SECONDS", 1.5)
    monkeypatch.setattr(guarded, "CHARACTERS", 10**6)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (r"(a+)+$", "a" * 40 + "b"),  # the library gives up in a panic
        (r"(a|a)+b", ("a" * 21 + "x") * 3000),  # it does not, and needs hours
    ],
)
def test_an_expression_that_never_ends_is_a_sentence(tmp_path, capfd, hurry, expression, text):
    tokenizer = Tokenizer.load(_file(tmp_path / "t.json", models.BPE(WORDS, []), expression))
    for encode in (tokenizer.encode, lambda text: tokenizer.encode_pieces([Piece(text, True)])):
        begun = time.monotonic()
        with pytest.raises(UserError, match="regular expression in its file takes too long or fails"):
            encode(text)
        assert time.monotonic() - begun < 10
    assert tokenizer.encode("ab").tolist() == [0, 1], "it works for the next one"
    assert capfd.readouterr().err == "", "and nothing else is said"


def test_nor_is_one_among_words_or_in_a_normalizer(tmp_path, hurry):
    words = Tokenizer.load(_file(tmp_path / "w.json", models.WordLevel(WORDS, unk_token="a"), r"(a|a)+b"))
    with pytest.raises(UserError, match="takes too long"):
        words.encode(("a" * 21 + "x") * 3000)
    replaced = normalizers.Replace(Regex(r"(a+)+$"), "b")
    normal = Tokenizer.load(_file(tmp_path / "n.json", models.BPE(WORDS, []), normalizer=replaced))
    with pytest.raises(UserError, match="takes too long or fails"):
        normal.encode("a" * 40 + "b")


def test_an_unknown_expression_that_ends_gives_the_same_tokens(tmp_path):
    path = _file(
        tmp_path / "t.json", models.BPE(WORDS, []), r"[ab]{1,2}|\s", decoder=decoders.Replace(Regex("b+"), "b")
    )
    ours, theirs = Tokenizer.load(path), Backend.from_file(str(path))
    text = "ab ba ab" * 50
    assert ours.encode(text).tolist() == theirs.encode(text).ids
    assert pickle.loads(pickle.dumps(ours._guard)).encode([text]) == [theirs.encode(text).ids]
    assert ours.decode([0, 1, 3]) == theirs.decode([0, 1, 3])
    assert ours.pieces([0, 1]) == ["a", "b"]


def test_known_expressions_need_no_process():
    """Those of large language models, and all that are made here."""
    three = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+"
    )
    made = Backend(models.BPE(WORDS, []))
    for expression, known in ((three, True), (three.replace("{1,3}", ""), True), (three + "|(a+)+", False)):
        made.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(expression), "isolated"), pre_tokenizers.ByteLevel(use_regex=False)]
        )
        assert (guard_for(made) is None) == known
    corpus = Corpus("pydoc")
    for spec in ("char", "bytes", "dna", "bpe:300"):
        assert Tokenizer.from_spec(spec, corpus)._guard is None
    assert Tokenizer.smiles([Piece("CCO", True)])._guard is None


@pytest.mark.parametrize(
    "model",
    [
        models.WordLevel(WORDS, unk_token="[UNK]"),
        models.WordPiece(WORDS, unk_token="[UNK]"),
        models.BPE(WORDS, [], unk_token="[UNK]"),
    ],
)
def test_a_vocabulary_without_its_unknown_word_is_refused_when_it_is_read(tmp_path, model):
    with pytest.raises(UserError, match=r"lacks its own unknown word '\[UNK\]'"):
        Tokenizer.load(_file(tmp_path / "t.json", model))


def test_strange_text_is_a_sentence_for_those_that_name_none(tmp_path):
    for model, complaint in (
        (models.Unigram([("a", -1.0), ("b", -2.0)]), "cannot read a text"),
        (models.WordLevel(WORDS), "has no 'c'"),
        (models.WordLevel({"ab": 0, "a": 1}), "has no 'c'"),
    ):
        tokenizer = Tokenizer.load(_file(tmp_path / "t.json", model))
        assert len(tokenizer.encode("a")) == 1
        with pytest.raises(UserError, match=complaint):
            tokenizer.encode("c")


@pytest.mark.parametrize("content", ["[" * 200_000, '{"model": ' + "9" * 10_000 + "}", "null", "{}"])
def test_files_that_are_no_tokenizers_are_refused(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(UserError, match="is not a tokenizer file"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    for name in ("tokenizer.json", "vocab.json"):
        (tmp_path / "merges.txt").touch()
        (tmp_path / name).symlink_to("/dev/zero")
        with pytest.raises(UserError, match=f"{name} is no file"):
            Tokenizer.load(tmp_path)
        (tmp_path / name).unlink()


def test_a_store_reads_files_of_its_folder_alone(tmp_path):
    (tmp_path / "a.txt").write_text("abba\nab\n")
    tokenizer = Tokenizer.characters([Piece("ab", True), Piece("b", True)])
    folder = load_documents(Corpus(str(tmp_path / "a.txt"), rows=True), tokenizer, 8, tmp_path / "c", skip_bad=False)
    shutil.copytree(folder.store.folder, tmp_path / "store")
    whole = json.loads((tmp_path / "store" / MANIFEST).read_text())
    assert np.asarray(TokenStore(tmp_path / "store", Manifest.read(tmp_path / "store")).tokens[:4]).size == 4
    for key in ("/dev/zero", "../../dev/zero", "..", "", None, 3):
        changed = whole | {"shards": [whole["shards"][0] | {"key": key}]}
        (tmp_path / "store" / MANIFEST).write_text(json.dumps(changed))
        with pytest.raises(UserError, match="names no shards"):
            Manifest.read(tmp_path / "store")
    for changes in ({"tokens": 10**30}, {"tokens": -1}, {"documents": "many"}, {"tokens": None}):
        changed = whole | {"shards": [whole["shards"][0] | changes]}
        (tmp_path / "store" / MANIFEST).write_text(json.dumps(changed))
        with pytest.raises(UserError):
            TokenStore(tmp_path / "store", Manifest.read(tmp_path / "store")).tokens  # noqa: B018
    shard = next((tmp_path / "store").glob("*.safetensors"))
    shard.unlink()
    shard.symlink_to("/dev/zero")
    (tmp_path / "store" / MANIFEST).write_text(json.dumps(whole))
    with pytest.raises(UserError, match="is no file"):
        TokenStore(tmp_path / "store", Manifest.read(tmp_path / "store")).tokens  # noqa: B018


@pytest.mark.parametrize("content", ["[" * 200_000, "9" * 10_000, "[1]", '{"hashes": 1000000000, "words": 1}', "{}\n"])
def test_results_and_word_filters_are_read_with_the_same_care(tmp_path, content):
    path = tmp_path / "file"
    path.write_text(content + "\n")
    for read in (read_points, WordFilter.read):
        with pytest.raises(UserError):
            read(path)
    if not content.startswith("{"):
        with pytest.raises(UserError, match="is damaged"):
            read_record(path)
    path.unlink()
    path.symlink_to("/dev/zero")
    for read in (read_points, WordFilter.read, read_record):
        with pytest.raises(UserError, match="is no file"):
            read(path)
