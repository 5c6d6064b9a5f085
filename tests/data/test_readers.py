"""Each kind of file: what is read of it, where it stands, and the sentence that a bad one gets."""

import io
import json

import numpy as np
import pytest

from candi.base.errors import UserError
from candi.data.corpus import Corpus
from candi.data.files import on_disk
from candi.data.pieces import Place, Row
from candi.data.readers import READERS, Reader, register_reader
from tests.data.files import pieces, places, texts, write_lines, write_parquet


def _tokens(source, **options) -> list[list[int]]:
    return [piece.tokens.tolist() for piece in pieces(source, **options)]


def _given(source) -> list[list[bool] | None]:
    return [None if piece.given is None else piece.given.tolist() for piece in pieces(source)]


def test_a_reader_of_ones_own_is_a_function_and_a_line(tmp_path, monkeypatch):
    monkeypatch.setitem(READERS, ".words", None)  # it is taken out again
    (tmp_path / "a.words").write_text("one two")

    def words(file, columns):
        with file.text() as text:
            for number, word in enumerate(text.read().split(), 1):
                yield Row(Place(file.name, "word", number), {"text": word})

    register_reader(Reader(words), ".words")
    assert texts(tmp_path / "a.words") == ["one", "two"]
    assert places(tmp_path / "a.words") == ["a.words word 1", "a.words word 2"]


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.int64])
def test_rows_of_integers(tmp_path, dtype):
    np.save(tmp_path / "a.npy", np.array([[1, 2, 3], [4, 5, 6]], dtype))
    assert _tokens(tmp_path / "a.npy") == [[1, 2, 3], [4, 5, 6]]
    assert [piece.ends for piece in pieces(tmp_path / "a.npy")] == [True, True]
    assert places(tmp_path / "a.npy") == ["a.npy row 1", "a.npy row 2"]
    assert Corpus(str(tmp_path / "a.npy")).by_rows


def test_a_stream_of_integers_comes_in_parts_and_is_one_document(tmp_path, monkeypatch):
    monkeypatch.setattr("candi.data.readers.integers._CHUNK", 4)
    np.save(tmp_path / "a.npy", np.arange(10))
    assert _tokens(tmp_path / "a.npy") == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], []]
    assert [piece.ends for piece in pieces(tmp_path / "a.npy")] == [False, False, False, True]
    assert not Corpus(str(tmp_path / "a.npy")).by_rows


def test_a_large_array_is_not_read_into_memory(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 3), np.uint8))
    row = next(READERS[".npy"].rows(on_disk(tmp_path / "a.npy"), None))
    assert isinstance(row.values["tokens"], np.memmap)


@pytest.mark.parametrize("given", [np.array([1, 3]), np.array([[1, 0, 0], [1, 1, 1]])])
def test_npz_has_tokens_and_which_are_given(tmp_path, given):
    """As a count for each row, or as a mask."""
    np.savez(tmp_path / "a.npz", tokens=[[1, 2, 3], [4, 5, 6]], given=given)
    assert _tokens(tmp_path / "a.npz") == [[1, 2, 3], [4, 5, 6]]
    assert _given(tmp_path / "a.npz") == [[True, False, False], [True, True, True]]


def test_a_single_array_of_an_npz_needs_no_name(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", [[1, 2], [3, 4]])
    assert _tokens(tmp_path / "a.npz") == [[1, 2], [3, 4]]


def test_lists_of_integers_in_tables(tmp_path):
    rows = [{"tokens": [1, 2, 3], "given": 2}, {"tokens": [4], "given": 0}]
    for path in (write_lines(tmp_path / "a.jsonl", rows), write_parquet(tmp_path / "a.parquet", rows)):
        assert _tokens(path) == [[1, 2, 3], [4]]
        assert _given(path) == [[True, True, False], [False]]
    masks = [{"tokens": [1, 2, 3], "given": [0, 1, 0]}]
    assert _given(write_lines(tmp_path / "b.jsonl", masks)) == [[False, True, False]]
    assert _tokens(write_lines(tmp_path / "c.jsonl", [[1, 2], [3]])) == [[1, 2], [3]]
    assert places(tmp_path / "c.jsonl") == ["c.jsonl line 1", "c.jsonl line 2"]


@pytest.mark.parametrize(
    "text",
    ['[{"text": "a"}, {"text": "b"}]', '[\n {"text": "a"},\n {"text":\n  "b"}\n]\n', '{"text": "a"}\n{"text": "b"}\n'],
)
def test_json_may_be_a_list_on_one_line_or_many_or_lines(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    assert texts(tmp_path / "a.json") == ["a", "b"]


def test_one_object_over_several_lines_is_a_row(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"text": "a\nb"}, indent=2))
    assert texts(tmp_path / "a.json") == ["a\nb"]


def test_a_list_on_a_line_of_json_lines_is_of_rows(tmp_path):
    (tmp_path / "a.jsonl").write_text('[{"text": "a"}, {"text": "b"}]\n{"text": "c"}\n')
    assert texts(tmp_path / "a.jsonl") == ["a", "b", "c"]
    assert places(tmp_path / "a.jsonl")[:2] == ["a.jsonl line 1 item 1", "a.jsonl line 1 item 2"]


def test_csv_and_tsv(tmp_path):
    (tmp_path / "a.csv").write_text('text,n\n"one, two",1\n"three\nlines",2\n')
    (tmp_path / "a.tsv").write_text("n\ttext\n1\tone\n")
    assert texts(tmp_path / "a.csv") == ["one, two", "three\nlines"]
    assert list(Corpus(str(tmp_path / "a.csv")).table("n")) == ["1", "2"]
    assert texts(tmp_path / "a.tsv") == ["one"]
    assert texts(tmp_path / "a.csv", field="n") == ["1", "2"]


def test_fasta_headers_are_no_text_and_may_be_columns(tmp_path):
    (tmp_path / "a.fasta").write_text(">P1 length=5 a protein\nMKV\n\nLA\n; a remark\n>P2\nMA\n>empty\n")
    assert texts(tmp_path / "a.fasta") == ["MKVLA", "MA", ""]
    assert places(tmp_path / "a.fasta") == ["a.fasta line 1", "a.fasta line 6", "a.fasta line 8"]
    first = next(Corpus(str(tmp_path / "a.fasta")).table_rows()).values
    assert first == {"id": "P1", "length": "5", "description": "length=5 a protein", "sequence": "MKVLA"}


def test_the_words_of_a_title_never_take_the_place_of_the_sequence(tmp_path):
    (tmp_path / "a.fa").write_text(">P1 sequence=none id=7 text=no\nMKV\n")
    assert texts(tmp_path / "a.fa", field="sequence") == ["MKV"]
    assert next(Corpus(str(tmp_path / "a.fa")).table_rows()).values["id"] == "P1"


@pytest.mark.parametrize("ending", [".fa", ".fna", ".faa", ".ffn", ".frn"])
def test_fasta_by_any_name(tmp_path, ending):
    (tmp_path / f"a{ending}").write_text(">x\nACGT\n")
    assert texts(tmp_path / f"a{ending}") == ["ACGT"]


def test_fastq_has_qualities_of_its_own(tmp_path):
    (tmp_path / "a.fq").write_text("@r1 x=2\nACGT\n+\n@@@@\n\n@r2\nAC\n+r2\nII\n")
    assert texts(tmp_path / "a.fq") == ["ACGT", "AC"]
    assert places(tmp_path / "a.fq") == ["a.fq line 1", "a.fq line 6"]
    assert list(Corpus(str(tmp_path / "a.fq")).table("quality")) == ["@@@@", "II"]


def test_a_long_document_of_a_table_comes_in_pieces_unless_it_is_a_row(tmp_path, monkeypatch):
    """A chromosome is one line of a FASTA file."""
    monkeypatch.setattr("candi.data.corpus._PIECE", 10)
    (tmp_path / "a.fa").write_text(">x\n" + "ACGT" * 10 + "\n>y\nAC\n")
    found = pieces(tmp_path / "a.fa")
    assert max(len(piece.text) for piece in found) <= 10
    assert texts(tmp_path / "a.fa") == ["ACGT" * 10, "AC"]
    assert [len(piece.text) for piece in pieces(tmp_path / "a.fa", rows=True)] == [40, 2]


def test_rows_of_a_text_file_are_its_lines(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo  \n   \nthree")
    assert texts(tmp_path / "a.txt", rows=True) == ["one", "two  ", "three"]
    assert places(tmp_path / "a.txt", rows=True) == ["a.txt line 1", "a.txt line 3", "a.txt line 5"]
    assert texts(tmp_path / "a.txt") == ["one\n\ntwo  \n   \nthree"]


def _bytes_of(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.npy", _bytes_of(np.zeros(3)), r"holds float64 \[3\]; integers \[N\] or \[N, L\] are expected"),
        ("a.npy", _bytes_of(np.zeros((2, 2, 2), int)), r"int64 \[2x2x2\]"),
        ("a.npy", _bytes_of(np.array([{}], object)), "no array of integers"),
        ("a.npy", _bytes_of(np.arange(100))[:300], "no array of integers"),
        ("a.npy", b"not numpy", "save one with numpy.save"),
        ("a.npy", _bytes_of(np.array([[1, -2]])), r"row 1 holds the token -2"),
        ("a.npy", _bytes_of(np.array([[1, 2], [1, 2**40]])), f"row 2 holds the token {2**40}"),
        ("a.npz", b"PK no zip", "no array of integers"),
        ("a.jsonl", b'{"tokens": [1, 2.5]}', "line 1: tokens is no list of integers"),
        ("a.jsonl", b'{"tokens": [1, "b"]}', "line 1: tokens is no list of integers"),
        ("a.jsonl", b'{"tokens": [1, 2], "given": 3}', "line 1: given says how many of the 2 tokens"),
        ("a.jsonl", b'{"tokens": [1, 2], "given": [0, 2]}', "line 1: given says how many"),
        ("a.jsonl", b"7\n", "line 1 is no object"),
        ("a.jsonl", b'"text"\n', "line 1 is no object"),
        ("a.jsonl", b'{"text": "a"}\n{"text": 5}\n', "line 2 has no text in the field 'text'"),
        ("a.json", b'[{"text": "a"}, 3]', "is no object"),
        ("a.json", b'{"text": "a"\n, "b": }', "line 2 is not JSON"),
        ("a.json", b"[" * 100_000, "nested too deeply"),
        ("a.jsonl", b"[" + b"1" * 5000 + b"]", "number that is too long"),
        ("a.fasta", b"ACGT\n>x\nACGT\n", "line 1 stands before the first title"),
        ("a.fastq", b"@x\nACGT\n+\nII\n", "line 1 begins no FASTQ record"),
        ("a.fastq", b"@x\nAC\n+\nII\n@y\nAC\n", "line 5 begins no FASTQ record"),
        ("a.csv", b"a,b\n1,2\n", "no text in the field 'text'; set --text-field to one of: a, b"),
        ("a.csv", b'text\n"' + b"x" * (1 << 25), "field larger than field limit"),
    ],
)
def test_a_bad_file_is_one_sentence_that_names_it(tmp_path, name, content, complaint):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=complaint) as error:
        pieces(tmp_path / name)
    message = str(error.value)
    assert str(tmp_path / name) in message
    assert "\n" not in message
    assert message.count(str(tmp_path)) == 1, "it names the file once"


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"a": [[1]], "b": [[2]]}, "has no array 'tokens'; it has: a, b"),
        ({"tokens": [[1, 2]], "given": [1, 1]}, "it says how many of each row, or which"),
        ({"tokens": [[1, 2]], "given": [3]}, "given says how many of the 2 tokens"),
    ],
)
def test_a_bad_npz_too(tmp_path, arrays, complaint):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(UserError, match=complaint):
        pieces(tmp_path / "a.npz")
