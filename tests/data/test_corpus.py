import gzip
import json
import lzma

import pytest

from candi.base.errors import UserError
from candi.data.corpus import Corpus


def _text(source, **options) -> str:
    return "".join(piece.text for piece in Corpus(str(source), **options).pieces())


def _documents(source, **options) -> int:
    return sum(piece.ends for piece in Corpus(str(source), **options).pieces())


def test_the_manual_every_python_carries():
    text = _text("pydoc")
    assert len(text) > 300_000
    assert "assert" in text


def test_plain_and_packed_files_hold_the_same_text(tmp_path):
    text = "first line\nsecond liné\n" * 1000
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    with lzma.open(tmp_path / "b.xz", "wt", encoding="utf-8") as file:
        file.write(text)
    with gzip.open(tmp_path / "c.txt.gz", "wt", encoding="utf-8") as file:
        file.write(text)
    assert {_text(tmp_path / name) for name in ("a.txt", "b.xz", "c.txt.gz")} == {text}


def test_large_files_come_in_pieces_cut_between_words(tmp_path, monkeypatch):
    monkeypatch.setattr("candi.data.corpus._PIECE", 10)
    (tmp_path / "a.txt").write_text("one two three four five six")
    pieces = [piece.text for piece in Corpus(str(tmp_path / "a.txt")).pieces()]
    assert "".join(pieces) == "one two three four five six"
    assert len(pieces) > 2
    assert all(piece.endswith(" ") for piece in pieces[:-1])


def test_rows_of_json_lines_and_parquet_are_documents(tmp_path):
    import pyarrow
    import pyarrow.parquet

    rows = [{"body": f"document {i}", "other": i} for i in range(5)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    expected = "".join(f"document {i}" for i in range(5))
    for name in ("a.jsonl", "a.parquet"):
        assert _text(tmp_path / name, field="body") == expected
        assert _documents(tmp_path / name, field="body") == 5
        with pytest.raises(UserError, match="--text-field"):
            _text(tmp_path / name)


def test_a_folder_is_read_in_order_and_other_files_are_left_alone(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.txt").write_text("two ")
    (tmp_path / "a.md").write_text("one ")
    (tmp_path / "sub" / "c.txt").write_text("three")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    assert _text(tmp_path) == "one two three"
    assert _documents(tmp_path) == 3


def test_a_data_set_of_the_hub_is_read_from_its_files(tmp_path, monkeypatch):
    """What the hub's client downloads is an ordinary folder; a split picks among its files."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train-00000.jsonl").write_text('{"text": "learn"}\n')
    (tmp_path / "data" / "test-00000.jsonl").write_text('{"text": "check"}\n')
    asked = {}
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download", lambda name, **kw: asked.update(name=name, **kw) or tmp_path
    )
    assert _text("hf:someone/something:train") == "learn"
    assert asked["name"] == "someone/something"
    assert asked["repo_type"] == "dataset"
    assert not any(pattern.endswith(".py") for pattern in asked["allow_patterns"])
    assert _text("hf:someone/something") == "checklearn"


def test_fingerprints_follow_content(tmp_path):
    for name, text in (("a.txt", "same"), ("b.txt", "same"), ("c.txt", "other")):
        (tmp_path / name).write_text(text)
    a, b, c = (Corpus(str(tmp_path / name)).fingerprint for name in ("a.txt", "b.txt", "c.txt"))
    assert a == b != c


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("latin.txt", "caf\xe9".encode("latin-1"), "not UTF-8"),
        ("cut.xz", lzma.compress(b"text" * 10_000)[:-40], "cut short"),
        ("fake.gz", b"no gzip", "cannot be read or unpacked"),
        ("broken.gz", gzip.compress(b"text" * 10_000, mtime=0)[:20] + b"rubbish" * 20, "damaged"),
        ("broken.bz2", b"BZh9rubbish", "damaged"),
        ("latin.jsonl", '{"text": "caf\xe9"}'.encode("latin-1"), "not UTF-8"),
        ("bad.jsonl", b'{"text": "fine"}\n{oops\n', "line 2"),
        ("bad.parquet", b"no parquet", "Parquet"),
    ],
)
def test_unreadable_files_are_named(tmp_path, name, content, complaint):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=complaint) as error:
        _text(tmp_path / name)
    assert name in str(error.value)


def test_missing_and_empty_places(tmp_path):
    with pytest.raises(UserError, match="no file or folder"):
        _text(tmp_path / "nothing.txt")
    with pytest.raises(UserError, match="holds no text"):
        _text(tmp_path)


def test_a_mark_at_the_beginning_of_a_file_is_no_text(tmp_path):
    (tmp_path / "a.txt").write_text("hello", encoding="utf-8-sig")
    (tmp_path / "a.jsonl").write_text('{"text": "hello"}', encoding="utf-8-sig")
    assert _text(tmp_path / "a.txt") == _text(tmp_path / "a.jsonl") == "hello"


def test_hidden_folders_are_not_read(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref")
    (tmp_path / "a.txt").write_text("hello")
    assert _text(tmp_path) == "hello"


def test_columns_of_parquet_are_columns(tmp_path):
    import pyarrow
    import pyarrow.parquet

    rows = [{"text": "CCO", "activity": 6.5}, {"text": "CC", "activity": 2.0}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    corpus = Corpus(str(tmp_path / "a.parquet"))
    assert corpus.has("activity")
    assert not corpus.has("qed")
    assert list(corpus.table("activity")) == ["6.5", "2.0"]
    with pytest.raises(UserError, match="row 1 has no column 'qed'"):
        list(corpus.table("qed"))


def test_rows_without_text_are_named(tmp_path):
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.Table.from_pylist([{"text": "a"}, {"text": None}])
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": null}\n')
    for name, where in (("a.parquet", "row 2"), ("a.jsonl", "line 2")):
        with pytest.raises(UserError, match=f"{where} has nothing in the field 'text'"):
            _text(tmp_path / name)


def test_half_a_character_is_refused_with_its_line(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "ab"}\n{"text": "ab\\ud83d cd"}\n')
    with pytest.raises(UserError, match=r"line 2 holds '\\ud83d', which is half a character"):
        _text(tmp_path / "a.jsonl")


def test_the_manual_has_a_place():
    assert [str(piece.place) for piece in Corpus("pydoc").pieces()][:1] == ["Python's manual"]
