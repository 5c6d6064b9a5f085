import json

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from candi.base.errors import UserError
from candi.data.cache import load_tokenizer, load_tokens
from candi.data.corpus import Corpus, Piece
from candi.data.tokenizer import EOS, Tokenizer

TEXT = 'A line, "quoted".\n\n\tAnother – with ünïcode 🎉 and  spaces.\n' * 20


def _characters(*documents: str) -> Tokenizer:
    return Tokenizer.characters(Piece(text, True) for text in documents)


def test_characters_round_trip_and_agree_with_the_library():
    tokenizer = _characters(TEXT)
    assert tokenizer.vocab_size == len(set(TEXT))
    ids = tokenizer.encode(TEXT)
    assert tokenizer.decode(ids) == TEXT
    assert ids.tolist() == tokenizer.backend.encode(TEXT).ids  # the numpy table does what the file says


def test_text8_has_27_characters_and_no_end_token():
    tokenizer = _characters("the quick brown fox jumps over the lazy dog")
    assert (tokenizer.vocab_size, tokenizer.eos) == (27, None)


def test_several_documents_are_told_apart(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "ab"}\n{"text": "c"}\n')
    tokenizer = Tokenizer.from_spec("char", Corpus(str(path)))
    ids = np.concatenate(list(tokenizer.encode_corpus(Corpus(str(path))))).tolist()
    assert ids == [0, 1, 3, 2, 3]
    assert tokenizer.eos == 3
    assert tokenizer.decode(ids) == "abc"


def test_strange_characters_are_named():
    with pytest.raises(UserError, match=r"'x'.*'日'"):
        _characters("abc").encode("axb日")


def test_bpe_is_trained_to_size_and_round_trips_any_text():
    tokenizer = Tokenizer.train_bpe([Piece(TEXT, True)], 300)
    assert tokenizer.vocab_size == 300
    assert tokenizer.backend.id_to_token(tokenizer.eos) == EOS
    assert tokenizer.decode(tokenizer.encode("Never seen: Ж\n\n ok")) == "Never seen: Ж\n\n ok"
    assert len(tokenizer.encode(TEXT)) < len(TEXT.encode()) / 2


@pytest.mark.parametrize("names", [("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt")])
def test_gpt2_files(tmp_path, names):
    """The two files of GPT-2's release, in both of their names."""
    trained = Tokenizer.train_bpe([Piece(TEXT, True)], 300)
    trained.backend.model.save(str(tmp_path))
    vocab = json.loads((tmp_path / "vocab.json").read_text()) | {EOS: trained.eos}
    merges = (tmp_path / "merges.txt").read_text()
    folder = tmp_path / "gpt2"
    folder.mkdir()
    (folder / names[0]).write_text(json.dumps(vocab))
    (folder / names[1]).write_text(merges)
    loaded = Tokenizer.load(folder)
    assert (loaded.vocab_size, loaded.eos) == (300, trained.eos)
    assert loaded.encode(TEXT).tolist() == trained.encode(TEXT).tolist()


def test_save_and_load(tmp_path):
    for tokenizer in (_characters(TEXT, "b"), Tokenizer.train_bpe([Piece(TEXT, True)], 300)):
        (tmp_path / "tokenizer.json").write_text(tokenizer.json, encoding="utf-8")
        again = Tokenizer.load(tmp_path)
        assert again.fingerprint == tokenizer.fingerprint
        assert again.encode(TEXT).tolist() == tokenizer.encode(TEXT).tolist()


@pytest.mark.parametrize("spec", ["bpe:", "bpe:many", "bpe:10", "nowhere.json"])
def test_impossible_specs_are_refused(spec):
    with pytest.raises(UserError):
        Tokenizer.from_spec(spec, Corpus("pydoc"))


def test_damaged_files_are_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text('{"half')
    with pytest.raises(UserError, match="not a tokenizer"):
        Tokenizer.load(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="neither"):
        Tokenizer.load(tmp_path / "empty")


def test_the_cache_is_keyed_by_content_and_tokenizer(tmp_path):
    path, cache = tmp_path / "a.txt", tmp_path / "cache"
    path.write_text("abcabc" * 100)
    characters = load_tokenizer("char", Corpus(str(path)), cache)
    first = load_tokens(Corpus(str(path)), characters, cache)
    assert not first[:6].flags.owndata  # it lies on disk
    assert first[:6].tolist() == [0, 1, 2, 0, 1, 2]
    bpe = load_tokenizer("bpe:260", Corpus(str(path)), cache)
    assert len(load_tokens(Corpus(str(path)), bpe, cache)) < len(first)
    path.write_text("cba" * 100)
    second = load_tokens(Corpus(str(path)), load_tokenizer("char", Corpus(str(path)), cache), cache)
    assert second[:3].tolist() == [2, 1, 0]


def test_a_failed_encoding_leaves_no_cache_file(tmp_path):
    path, cache = tmp_path / "a.txt", tmp_path / "cache"
    path.write_text("abcd")
    with pytest.raises(UserError, match="'d'"):
        load_tokens(Corpus(str(path)), _characters("abc"), cache)
    assert not list(cache.rglob("*.safetensors"))
    assert not list(cache.rglob("manifest.json"))


def test_empty_text_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(UserError, match="no text"):
        load_tokenizer("char", Corpus(str(tmp_path / "a.txt")), tmp_path / "cache")


def test_the_beginning_of_a_corpus_is_of_as_many_documents_as_it_takes(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps({"text": text}) for text in ("", "abc", "cab", "bca")) + "\n")
    tokenizer = Tokenizer.from_spec("char", Corpus(str(path)))
    assert tokenizer.decode(tokenizer.encode_beginning(Corpus(str(path)), 5)) == "abcca"
    assert tokenizer.decode(tokenizer.encode_beginning(Corpus(str(path)), 100)) == "abccabbca"
    (tmp_path / "some.smi").write_text("CCCl\nCCBr\nCO\n")
    molecules = Tokenizer.from_spec("smiles", Corpus(str(tmp_path / "some.smi")))
    assert len(molecules.encode_beginning(Corpus(str(tmp_path / "some.smi")), 5)) == 6  # two whole ones


def test_what_somebody_s_batches_needed_does_not_cut_a_text(tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat " * 30)
    tokenizer = Tokenizer.from_spec("bpe:260", Corpus(str(tmp_path / "text.txt")))
    whole = tokenizer.encode("the cat sat on the mat")
    tokenizer.backend.enable_truncation(4)
    tokenizer.backend.enable_padding(length=64)
    (tmp_path / "tokenizer.json").write_text(tokenizer.json)
    assert Tokenizer.load(tmp_path / "tokenizer.json").encode("the cat sat on the mat").tolist() == whole.tolist()


def test_ids_may_have_holes(tmp_path):
    backend = Backend(models.WordLevel({"A": 1, "C": 2, "D": 7}))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.save(str(tmp_path / "tokenizer.json"))
    assert Tokenizer.load(tmp_path / "tokenizer.json").vocab_size == 8


def test_half_a_character_in_a_prompt_is_refused():
    tokenizer = Tokenizer.from_spec("char", Corpus("pydoc"))
    with pytest.raises(UserError, match="half a character"):
        tokenizer.encode("ab\ud83d")
