"""Packings, archives, marks, line ends and folders: what of a path is text, and what is said of the rest."""

import bz2
import codecs
import gzip
import io
import lzma
import tarfile
from pathlib import Path

import numpy as np
import pyarrow
import pytest

from candi.base.errors import UserError
from candi.data.corpus import Corpus
from candi.data.files import DataFile, kind_of, suffixes
from tests.data.files import pieces, places, texts, write_lines, write_tar, write_zip

TEXT = "first line\nsecond liné\n" * 500
PACKINGS = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": lambda data: pyarrow.compress(data, "zstd", asbytes=True),
}


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("name", ["a.txt", "a"])
def test_packed_text(tmp_path, packing, name):
    path = tmp_path / f"{name}.{packing}"
    path.write_bytes(PACKINGS[packing](TEXT.encode()))
    assert texts(path) == [TEXT]
    assert texts(tmp_path) == [TEXT], "in a folder it is found too"


@pytest.mark.parametrize("packing", PACKINGS)
def test_every_kind_may_be_packed(tmp_path, packing):
    array, rows = io.BytesIO(), tmp_path / "rows.jsonl"
    np.save(array, np.array([[1, 2], [3, 4]]))
    files = {
        "a.fasta": b">x\nACGT\n",
        "a.jsonl": write_lines(rows, [{"text": "ACGT"}]).read_bytes(),
        "a.csv": b"text\nACGT\n",
        "a.smi": b"ACGT name\n",
    }
    for name, content in files.items():
        (tmp_path / f"{name}.{packing}").write_bytes(PACKINGS[packing](content))
        assert texts(tmp_path / f"{name}.{packing}") == ["ACGT"]
    (tmp_path / f"a.npy.{packing}").write_bytes(PACKINGS[packing](array.getvalue()))
    assert [piece.tokens.tolist() for piece in pieces(tmp_path / f"a.npy.{packing}")] == [[1, 2], [3, 4]]


def test_a_parquet_file_may_lie_in_an_archive(tmp_path):
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"text": "one"}, {"text": "two"}]), tmp_path / "a.parquet")
    write_tar(tmp_path / "a.tar.gz", {"a.parquet": (tmp_path / "a.parquet").read_bytes()})
    write_zip(tmp_path / "a.zip", {"a.parquet": (tmp_path / "a.parquet").read_bytes()})
    assert texts(tmp_path / "a.tar.gz") == texts(tmp_path / "a.zip") == ["one", "two"]
    assert places(tmp_path / "a.zip")[0] == "a.parquet row 1"


MEMBERS = {
    "data/a.txt": b"one",
    "data/b.py": b"print(2)\n",
    "data/c.jsonl": b'{"text": "three"}\n{"text": "four"}\n',
    "data/picture.png": b"\x89PNG\r\n\0\0",
    "data/model.bin": b"\0\1\2",
    "data/.hidden": b"no",
    "__MACOSX/data/._a.txt": b"no",
    "Makefile": b"all:\n",
}


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz", "a.zip"])
def test_archives_are_files_of_files(tmp_path, name):
    write = write_zip if name.endswith("zip") else write_tar
    path = write(tmp_path / name, MEMBERS)
    corpus = Corpus(str(path))
    assert texts(path) == ["one", "print(2)\n", "three", "four", "all:\n"]
    assert [str(piece.place) for piece in corpus.pieces() if piece.ends][2] == f"{path}/data/c.jsonl line 1"
    assert corpus.unread == "2 files inside archives hold no text and are not read (.png 1, .bin 1)."


@pytest.mark.parametrize("ending", ["xz", "bz2", "zst"])
def test_archives_in_any_packing(tmp_path, ending):
    plain = write_tar(tmp_path / "plain.tar", {"a.txt": b"one"}).read_bytes()
    (tmp_path / f"a.tar.{ending}").write_bytes(PACKINGS[ending](plain))
    assert texts(tmp_path / f"a.tar.{ending}") == ["one"]


def test_links_and_folders_of_an_archive_are_passed_over(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, kind in (("folder", tarfile.DIRTYPE), ("link.txt", tarfile.SYMTYPE)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd"
            archive.addfile(entry)
        entry = tarfile.TarInfo("a.txt")
        entry.size = 3
        archive.addfile(entry, io.BytesIO(b"one"))
    assert texts(tmp_path / "a.tar") == ["one"]


def test_shards_of_web_datasets(tmp_path):
    """Files of one name are a sample; a .json that only says what it is about is no document."""
    files = {}
    for number in range(3):
        files |= {
            f"{number:04}.jpg": b"\xff\xd8\xff\0",
            f"{number:04}.json": b'{"url": "https://example.org"}',
            f"{number:04}.txt": f"caption {number}".encode(),
            f"{number:04}.cls": b"7",
        }
    for shard in range(2):
        write_tar(tmp_path / f"shard-{shard}.tar", files)
    corpus = Corpus(str(tmp_path))
    assert texts(tmp_path) == [f"caption {number}" for _ in range(2) for number in range(3)]
    list(corpus.pieces())
    assert "18 files inside archives hold no text and are not read" in corpus.unread


def test_shards_whose_json_is_the_text(tmp_path):
    path = write_tar(tmp_path / "a.tar", {f"{n}.json": f'{{"text": "number {n}"}}'.encode() for n in range(3)})
    assert texts(path) == ["number 0", "number 1", "number 2"]


def test_an_archive_with_another_field_says_which_there_are(tmp_path):
    path = write_tar(tmp_path / "a.tar", {"0.json": b'{"body": "one"}'})
    with pytest.raises(UserError, match=r"0.json line 1 has no text in the field 'text'; set --text-field.*body"):
        pieces(path)
    assert texts(path, field="body") == ["one"]


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("utf-8", codecs.BOM_UTF8),
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-16-be", codecs.BOM_UTF16_BE),
        ("utf-32-le", codecs.BOM_UTF32_LE),
        ("utf-32-be", codecs.BOM_UTF32_BE),
    ],
)
def test_marks_at_the_beginning_say_the_encoding_and_are_no_text(tmp_path, encoding, mark):
    for name, text in (
        ("a.txt", "liné\n日本"),
        ("a.jsonl", '{"text": "liné\\n日本"}\n'),
        ("a.csv", 'text\n"liné\n日本"\n'),
    ):
        (tmp_path / name).write_bytes(mark + text.encode(encoding))
        assert texts(tmp_path / name) == ["liné\n日本"]
    assert len(texts(tmp_path)) == 3, "and in a folder they are text"


def test_windows_line_ends_are_line_ends(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    (tmp_path / "a.fasta").write_bytes(b">x y=1\r\nAC\r\nGT\r\n")
    (tmp_path / "a.fastq").write_bytes(b"@x\r\nAC\r\n+\r\nII\r\n")
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "one"}\r\n\r\n{"text": "two"}\r\n')
    (tmp_path / "a.csv").write_bytes(b"text,n\r\none,1\r\n")
    (tmp_path / "a.smi").write_bytes(b"CCO x\r\nCC\r\n")
    assert texts(tmp_path / "a.txt") == ["one\ntwo\n"]
    assert texts(tmp_path / "a.txt", rows=True) == ["one", "two"]
    assert texts(tmp_path / "a.fasta") == ["ACGT"]
    assert list(Corpus(str(tmp_path / "a.fasta")).table("y")) == ["1"]
    assert texts(tmp_path / "a.fastq") == ["AC"]
    assert texts(tmp_path / "a.jsonl") == ["one", "two"]
    assert texts(tmp_path / "a.csv") == ["one"]
    assert list(Corpus(str(tmp_path / "a.csv")).table("n")) == ["1"]
    assert texts(tmp_path / "a.smi") == ["CCO", "CC"]


@pytest.mark.parametrize("rows", [None, True])
def test_nul_bytes_are_refused_where_they_stand(tmp_path, rows):
    (tmp_path / "a.txt").write_bytes(b"one\ntw\0o\n")
    with pytest.raises(UserError, match=r"a\.txt.* holds NUL bytes, which are no text; take them out"):
        pieces(tmp_path / "a.txt", rows=rows)


def test_utf_16_without_a_mark_is_not_taken_for_text(tmp_path):
    (tmp_path / "a.txt").write_bytes("hello".encode("utf-16-le"))
    with pytest.raises(UserError, match="NUL bytes"):
        pieces(tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.7z", b"7z\xbc\xaf\x27\x1c\0\4", "holds no text, and its ending names no kind of data"),
        ("a.bin", b"\0\1\2\3\xff", "holds no text, and its ending names no kind of data"),
        ("a.log", "caf\xe9".encode("latin-1"), "not UTF-8 text; convert it first"),
        ("a.zip", b"no zip at all", "cannot be read or unpacked"),
        ("a.tar", b"no tar at all", "cannot be read or unpacked"),
        ("a.tgz", b"no gzip", "cannot be read or unpacked"),
        ("a.zst", b"no zstd", "cannot be read or unpacked"),
        ("a.zst", PACKINGS["zst"](TEXT.encode())[:-9], "cannot be read or unpacked|cut short"),
        ("a.tar.gz", gzip.compress(b"x" * 20_000, mtime=0), "cannot be read or unpacked"),
        ("a.npy.gz", gzip.compress(b"x" * 20, mtime=0), "no array of integers"),
        ("a.fasta.gz", gzip.compress(b">x\nACGT\n", mtime=0)[:-9], "cannot be read or unpacked"),
    ],
)
def test_what_is_no_text_is_one_sentence(tmp_path, name, content, complaint):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=complaint) as error:
        pieces(tmp_path / name)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_an_archive_that_is_cut_is_not_half_a_corpus(tmp_path):
    whole = write_tar(tmp_path / "whole.tar", {f"{n}.txt": b"x" * 5000 for n in range(9)}).read_bytes()
    (tmp_path / "a.tar").write_bytes(whole[:20_000])
    with pytest.raises(UserError, match="cannot be read or unpacked"):
        pieces(tmp_path / "a.tar")


def test_a_folder_of_source_code_is_text_and_the_rest_is_named(tmp_path):
    for name in ("a.py", "b.rs", "c.f90", "Makefile", "d.yaml"):
        (tmp_path / name).write_text(f"# {name}\n")
    (tmp_path / "logo.png").write_bytes(b"\x89PNG\0")
    (tmp_path / "program").write_bytes(b"\x7fELF\0\xff\xfe")
    (tmp_path / "old.f").write_bytes("caf\xe9".encode("latin-1"))
    corpus = Corpus(str(tmp_path))
    assert texts(tmp_path) == ["# Makefile\n", "# a.py\n", "# b.rs\n", "# c.f90\n", "# d.yaml\n"]
    assert "5 files are read (" in corpus.survey
    assert ".py 1" in corpus.survey
    assert "3 hold no text and are not (logo.png, old.f, program)" in corpus.survey


def test_what_is_text_by_its_name_is_not_passed_over_when_it_is_damaged(tmp_path):
    """A .txt that is not UTF-8 is a mistake that somebody wants to know of."""
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.txt").write_bytes("caf\xe9".encode("latin-1"))
    with pytest.raises(UserError, match=r"b\.txt is not UTF-8"):
        pieces(tmp_path)


def test_a_mixed_folder_of_kinds_is_read_whole(tmp_path):
    (tmp_path / "a.txt").write_text("one")
    write_lines(tmp_path / "b.jsonl", [{"text": "two"}])
    (tmp_path / "c.fasta").write_text(">x\nACGT\n")
    (tmp_path / "d.csv").write_text("text\nthree\n")
    write_zip(tmp_path / "e.zip", {"a.txt": b"four"})
    assert texts(tmp_path) == ["one", "two", "ACGT", "three", "four"]


def test_files_are_opened_a_few_times_each_and_never_as_often_as_there_are_files(tmp_path, monkeypatch):
    """20,000 small files must not cost a second each: opens are counted, three hundred stand for them."""
    for number in range(300):
        (tmp_path / f"{number:04}.py").write_text(f"x = {number}\n")
    opened = []
    real = DataFile.unpacked
    monkeypatch.setattr(DataFile, "unpacked", lambda self: opened.append(self.name) or real(self))
    corpus = Corpus(str(tmp_path))
    assert len(texts(tmp_path)) == 300
    assert len(opened) == 600, "once to see whether it is text, once to read it"
    opened.clear()
    next(iter(corpus.pieces()))
    assert len(opened) == 301, "a beginning reads no more than it needs"


def test_endings():
    assert suffixes(Path("notes.TXT.GZ")) == (".txt", ".gz")
    assert suffixes(Path("a.tgz")) == (".tar", ".gz")
    assert suffixes(Path("a.tzst")) == (".tar", ".zst")
    assert kind_of(Path("folder.d/README")) == ""
