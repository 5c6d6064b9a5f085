import json

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from candi.base.errors import UserError
from candi.data import vocabularies
from candi.data.cache import load_tokenizer, load_tokens
from candi.data.corpus import Corpus, Piece
from candi.data.datasets import load_dataset
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


def _made(spec: str) -> Tokenizer:
    return Tokenizer.from_spec(spec, Corpus("pydoc"))


def test_bytes_are_any_text_in_any_script():
    tokenizer = _made("bytes")
    text = "naïve 日本語 🎉\r\n\tعربى\x00"
    assert tokenizer.vocab_size == 257
    assert tokenizer.encode(text).tolist() == list(text.encode())
    assert tokenizer.decode(tokenizer.encode(text)) == text
    (found,) = tokenizer.encode_pieces([Piece("ab", True)])
    assert found.tokens.tolist() == [97, 98, 256]


@pytest.mark.parametrize("text", ["acgtn", "ACGTN"])
def test_dna_in_lower_case_is_the_same(text):
    """Genomes have repeats in lower case."""
    tokenizer = _made("dna")
    assert tokenizer.encode(text).tolist() == [0, 1, 2, 3, 4]
    assert tokenizer.decode(tokenizer.encode(text)) == "ACGTN"
    assert tokenizer.backend.encode(text).ids == [0, 1, 2, 3, 4], "the numpy table does what the file says"
    assert tokenizer.eos == 5


def test_a_letter_for_some_of_the_bases_is_read_as_any():
    tokenizer = _made("dna")
    for text in ("RYSWKMBDHV", "ryswkmbdhv"):
        assert tokenizer.decode(tokenizer.encode(text)) == "N" * 10
        assert tokenizer.backend.encode(text).ids == [4] * 10


def test_proteins():
    tokenizer = _made("protein")
    text = "ACDEFGHIKLMNPQRSTVWYXBJOUZ*-"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.encode(text.lower())) == text


@pytest.mark.parametrize(("spec", "strange"), [("dna", "E"), ("dna", "é"), ("dna", "日"), ("protein", "1")])
def test_a_letter_of_no_alphabet_is_refused_or_any(spec, strange):
    tokenizer = _made(spec)
    with pytest.raises(UserError, match=rf"has no '{strange}'.*--unknown token"):
        tokenizer.encode("AC" + strange)
    assert tokenizer.decode(tokenizer.tolerating().encode("AC" + strange)) == {"dna": "ACN", "protein": "ACX"}[spec]
    with pytest.raises(UserError):
        tokenizer.encode("AC" + strange)  # the one that was there stays strict


def test_rare_characters_teach_what_is_unknown(tmp_path):
    """In training they are its token; elsewhere what is unknown is refused, unless it is asked for."""
    (tmp_path / "a.txt").write_text("hello world " * 50 + "Ω")
    data = load_dataset(str(tmp_path / "a.txt"), "char+unknown", 8, valid_fraction=0, cache=tmp_path / "cache")
    assert data.train.tokens[600:601].tolist() == [data.tokenizer.unknown]
    path = tmp_path / "tokenizer.json"
    path.write_text(data.tokenizer.json)
    kept = Tokenizer.load(path)
    with pytest.raises(UserError, match="--unknown token"):
        kept.encode("日")
    assert kept.tolerating().encode("h日").tolist() == [kept.encode("h")[0], kept.unknown]
    again = load_dataset(str(tmp_path / "a.txt"), kept, 8, valid_fraction=0, cache=tmp_path / "cache")
    assert again.train.tokens[:].tolist() == data.train.tokens[:].tolist(), "a run that is continued has the same"


def test_a_vocabulary_without_a_token_for_it_says_what_to_train_with():
    with pytest.raises(UserError, match=r"char\+unknown, bytes or bpe:N"):
        _characters("abc").tolerating()
    assert _made("bytes").tolerating().encode("日").tolist() == list("日".encode())


def _integers(tmp_path, array, spec: str = "integers") -> Tokenizer:
    np.save(tmp_path / "a.npy", np.asarray(array))
    return Tokenizer.from_spec(spec, Corpus(str(tmp_path / "a.npy")))


def test_integers_of_rows_of_one_length_need_no_end(tmp_path):
    tokenizer = _integers(tmp_path, [[0, 1], [2, 5]])
    assert (tokenizer.vocab_size, tokenizer.eos) == (6, None)
    assert tokenizer.decode([5, 0]) == "5 0"
    assert tokenizer.encode("5 0").tolist() == [5, 0]
    assert _integers(tmp_path, [[0, 1]], "char").vocab_size == 2, "what holds integers needs no other word"


def test_integers_of_different_lengths_have_an_end(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"tokens": [1, 2]}\n{"tokens": [3]}\n')
    tokenizer = Tokenizer.from_spec("integers", Corpus(str(tmp_path / "a.jsonl")))
    assert (tokenizer.vocab_size, tokenizer.eos) == (5, 4)


def test_integers_may_have_names(tmp_path):
    (tmp_path / "names.txt").write_text("rest\nC4\nD4\n")
    tokenizer = _integers(tmp_path, [[0, 1], [1, 2]], f"integers:{tmp_path / 'names.txt'}")
    assert tokenizer.decode([1, 2, 0]) == "C4 D4 rest"
    assert tokenizer.encode("C4  D4").tolist() == [1, 2]
    with pytest.raises(UserError, match="has no 'E4'"):
        tokenizer.encode("C4 E4")
    (tmp_path / "names.json").write_text('["a", "b", "c"]')
    assert _integers(tmp_path, [[2]], f"integers:{tmp_path / 'names.json'}").decode([2]) == "c"


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ("a\na\nb\n", "must differ"),
        ("a b\nc\nd\n", "white space"),
        ("a\nb\n", "holds the integer 2, but the vocabulary has only 2"),
        ("", "has only 0"),
    ],
)
def test_names_that_do_not_fit_are_refused(tmp_path, names, complaint):
    (tmp_path / "names.txt").write_text(names)
    with pytest.raises(UserError, match=complaint):
        _integers(tmp_path, [[0, 1, 2]], f"integers:{tmp_path / 'names.txt'}")


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("integers:2", "holds the integer 2, but the vocabulary has only 2"),
        ("integers:nowhere.txt", "cannot be read as names of integers"),
    ],
)
def test_a_stated_vocabulary_that_is_too_small_is_refused(tmp_path, spec, complaint):
    with pytest.raises(UserError, match=complaint):
        _integers(tmp_path, [[0, 1, 2]], spec)


def test_integers_of_data_that_is_prepared_otherwise_are_refused_once(tmp_path):
    tokenizer = _integers(tmp_path, [[0, 1, 2]])
    np.save(tmp_path / "b.npy", np.array([1, 2, 3]))
    with pytest.raises(UserError, match=r"b\.npy: The integer 3 is beyond the vocabulary, which has 3") as error:
        load_tokens(Corpus(str(tmp_path / "b.npy")), tokenizer, tmp_path / "cache")
    assert str(error.value).count("b.npy") == 1


def test_tokens_that_another_tokenizer_has_made_may_hold_its_ends(tmp_path):
    """As arrays of GPT-2's tokens do."""
    np.save(tmp_path / "a.npy", np.array([97, 256, 98]))
    tokens = load_tokens(Corpus(str(tmp_path / "a.npy")), _made("bytes"), tmp_path / "cache")
    assert tokens[:].tolist() == [97, 256, 98, 256]


def test_words_for_integers_and_text_do_not_mix(tmp_path):
    with pytest.raises(UserError, match="holds text and no integers"):
        _made("integers")
    np.save(tmp_path / "a.npy", np.array([[1, 2]]))
    with pytest.raises(UserError, match="holds integers and no characters"):
        Tokenizer.from_spec("char+unknown", Corpus(str(tmp_path / "a.npy")))


def test_the_ends_of_documents_are_seen_in_a_stream_and_not_in_a_row():
    tokenizer = _characters("ab", "c")
    ids = [0, 1, 3, 2, 3]
    assert tokenizer.show(ids) == f"ab{EOS}c{EOS}"
    assert tokenizer.show(ids, rows=True) == tokenizer.decode(ids, rows=True) == "ab"
    assert tokenizer.decode(ids) == "abc"
    assert tokenizer.pieces(ids) == ["a", "b", EOS, "c", EOS]
    assert tokenizer.pieces(ids, rows=True) == ["a", "b", "", "c", ""]


@pytest.mark.parametrize("spec", ["bytes", "bpe"])
def test_a_character_of_several_tokens_is_shown_at_the_first_of_them(spec):
    tokenizer = _made("bytes") if spec == "bytes" else Tokenizer.train_bpe([Piece("ab " * 50, True)], 260)
    ids = tokenizer.encode("é日b").tolist()
    assert len(ids) == 6
    assert tokenizer.pieces(ids) == ["é", "", "日", "", "", "b"]


def test_bytes_that_make_no_character_are_shown_as_such():
    tokenizer = _made("bytes")
    assert tokenizer.pieces([97, 0xE6, 0x97, 98]) == ["a", "⟨e6⟩", "⟨97⟩", "b"]
    ids = [*"日".encode()[:2], -1, 98]
    assert tokenizer.pieces(ids) == ["⟨e6⟩", "⟨97⟩", "", "b"], "a place that is still open parts what stands around it"
    assert "\ufffd" not in "".join(tokenizer.pieces(list(range(256))))


def test_pieces_of_sentencepiece_vocabularies():
    vocab = {f"<0x{byte:02X}>": byte for byte in range(256)} | {"▁the": 256, "▁": 257, "<unk>": 258}
    tokenizer = Tokenizer(Backend(models.BPE(vocab, [], byte_fallback=True, unk_token="<unk>")))
    assert tokenizer.pieces([256, 257, *"é".encode()]) == [" the", " ", "é", ""]


def test_a_text_without_white_space_is_learned_in_parts():
    """A merge of a word looks at all of it: 200 kB of DNA as one word took half a minute."""
    dna = "".join(np.random.default_rng(0).choice(list("ACGT"), 5000))
    words = [word for part in vocabularies._cut(dna) for word in part.split()]
    assert "".join(words) == dna
    assert max(map(len, words)) <= 256
    text = "words with spaces " * 100
    assert list(vocabularies._cut(text)) == [text], "other text is not cut"
    tokenizer = Tokenizer.train_bpe([Piece(dna, True)], 300)
    assert tokenizer.decode(tokenizer.encode(dna)) == dna
    assert len(tokenizer.encode(dna)) < len(dna) / 1.5
