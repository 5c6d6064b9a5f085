"""Stores: shards that survive, a manifest that is true, one process that makes them while others wait."""

import json
import os
import resource
import stat
import time
from pathlib import Path

import numpy as np
import pytest

from candi.base.errors import UserError
from candi.cli import main
from candi.data import prepare
from candi.data.cache import load_tokenizer
from candi.data.corpus import Corpus
from candi.data.datasets import load_dataset
from candi.data.prepare import prepared, store_of
from candi.data.store import MANIFEST, TOKENIZER, Manifest, TokenStore
from candi.data.tokenizer import Tokenizer
from tests.data.files import write_lines, write_tar
from tests.training.runs import Forked, finish

BYTES = Tokenizer.from_spec("bytes", Corpus("pydoc"))


@pytest.fixture
def small(monkeypatch):
    """Shards of 200 characters."""
    for module, name in (("prepare", "_SHARD"), ("prepare", "_BATCH"), ("corpus", "_PIECE")):
        monkeypatch.setattr(f"candi.data.{module}.{name}", 200)
    monkeypatch.setattr("candi.data.prepare._SMALL", 500)


def _text(seed: int, size: int = 1000) -> str:
    random = np.random.default_rng(seed)
    return "".join(random.choice(list("abcde \n"), size))


def _shards(folder: Path) -> dict[str, int]:
    """Files of tokens, and when they were written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.safetensors")}


def _expected(corpus: str, **options) -> list[int]:
    return np.concatenate(list(BYTES.encode_corpus(Corpus(corpus, **options)))).tolist()


def _made(corpus: object, out: Path, tokenizer: Tokenizer = BYTES, **options) -> TokenStore:
    return prepared(Corpus(str(corpus), **options), tokenizer, out)


def test_the_tokens_of_all_shards_are_those_of_the_corpus(tmp_path, small):
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text(_text(number))
    store = _made(folder, tmp_path / "store")
    assert len(store.shards) > 10
    assert store.tokens[:].tolist() == _expected(str(folder))
    assert store.ends.tolist() == [1001, 2002, 3003, 4004]
    assert store.unusable == 0


def test_documents_lie_across_shards_and_are_still_whole(tmp_path, small):
    rows = [{"text": _text(number, 30 + 17 * number % 90)} for number in range(50)]
    path = write_lines(tmp_path / "a.jsonl", rows)
    store = _made(path, tmp_path / "store")
    assert len(store.shards) > 5
    starts = [0, *store.ends[:-1].tolist()]
    found = [BYTES.decode(store.tokens[a:b].tolist()) for a, b in zip(starts, store.ends.tolist(), strict=True)]
    assert found == [row["text"] for row in rows]


@pytest.mark.parametrize(("size", "dtype"), [(256, "uint8"), (257, "uint16"), (2**16, "uint16"), (2**16 + 1, "uint32")])
def test_tokens_are_the_smallest_integers_that_hold_them(tmp_path, size, dtype):
    rows = np.array([[0, size - 1], [1, 2]])
    np.save(tmp_path / "a.npy", rows)
    tokenizer = Tokenizer.from_spec(f"integers:{size}", Corpus(str(tmp_path / "a.npy")))
    store = _made(tmp_path / "a.npy", tmp_path / "store", tokenizer)
    assert store.tokens[:].dtype == dtype
    assert store.manifest.dtype == dtype
    assert store.tokens[:].tolist() == rows.ravel().tolist()
    shard = next((tmp_path / "store").glob("*.safetensors"))
    assert shard.stat().st_size < 400 + 4 * np.dtype(dtype).itemsize + 16


def test_rows_are_mapped_and_may_be_more_than_files_that_can_be_open(tmp_path, small):
    (tmp_path / "a.txt").write_text(_text(0, 40_000))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    store = _made(tmp_path / "a.txt", tmp_path / "store")
    few = len(os.listdir("/proc/self/fd")) + 20
    assert len(store.shards) > few
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    try:
        tokens = store.tokens
        assert tokens[:].tolist() == _expected(str(tmp_path / "a.txt"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    part = tokens[:5]
    assert not part.flags.owndata
    assert not part.flags.writeable


def test_nothing_is_done_twice(tmp_path, small, monkeypatch):
    (tmp_path / "a.txt").write_text(_text(0))
    _made(tmp_path / "a.txt", tmp_path / "store")
    before = _shards(tmp_path / "store")
    monkeypatch.setattr(Tokenizer, "encode_pieces", lambda *_: pytest.fail("it encodes"))
    _made(tmp_path / "a.txt", tmp_path / "store")
    assert _shards(tmp_path / "store") == before


def test_a_store_is_made_anew_when_it_is_asked_for_in_another_way(tmp_path, capsys, cache):
    """The data is the same; tokenizer and rows are not."""
    (tmp_path / "a.txt").write_text("abc\nabc\n")
    ways = [
        (["--tokenizer", "char"], 4),
        (["--tokenizer", "char", "--rows"], 4),  # an end and no line's end
        (["--tokenizer", "bytes"], 257),
        (["--tokenizer", "bytes", "--rows"], 257),
    ]
    for arguments, size in ways:
        main(["prepare", "--data", str(tmp_path / "a.txt"), "--out", str(tmp_path / "store"), *arguments])
        documents = 2 if "--rows" in arguments else 1
        assert f"{documents} documents, " in capsys.readouterr().out
        manifest = Manifest.read(tmp_path / "store")
        assert manifest.rows == ("--rows" in arguments)
        tokenizer = Tokenizer.load(tmp_path / "store" / TOKENIZER)
        assert tokenizer.vocab_size == size
        assert manifest.tokenizer == tokenizer.fingerprint
        assert len(_shards(tmp_path / "store")) == 1, "shards that are not of it are gone"


def test_what_is_unknown_is_part_of_how_tokens_are_made(tmp_path):
    """Else a store with unknown tokens would serve those who have asked that they be refused."""
    (tmp_path / "a.txt").write_text("ACGT" * 50 + "E" * 9)
    dna = Tokenizer.from_spec("dna", Corpus("pydoc"))
    corpus = Corpus(str(tmp_path / "a.txt"))
    tokens = store_of(corpus, dna.tolerating(), tmp_path / "cache").tokens
    assert (tokens[200:209] == dna.unknown).all()
    with pytest.raises(UserError, match="no 'E'"):
        store_of(corpus, dna, tmp_path / "cache")


@pytest.fixture
def folder(tmp_path) -> Path:
    """Three large files and forty small ones."""
    made = tmp_path / "data"
    made.mkdir()
    for number in range(3):
        (made / f"large-{number}.txt").write_text(_text(number))
    for number in range(40):
        (made / f"small-{number:02}.txt").write_text(_text(100 + number, 40))
    return made


def test_a_changed_file_makes_its_own_shards_anew(tmp_path, folder, small):
    _made(folder, tmp_path / "store")
    before = _shards(tmp_path / "store")
    (folder / "large-1.txt").write_text(_text(9))
    store = _made(folder, tmp_path / "store")
    after = _shards(tmp_path / "store")
    kept = [name for name in before if after.get(name) == before[name]]
    assert len(before) > 15
    assert len(before) - len(kept) in range(3, 7), "a thousand characters, some two hundred a shard"
    assert store.tokens[:].tolist() == _expected(str(folder))


@pytest.mark.parametrize("change", ["more", "less", "first"])
def test_a_small_file_more_or_less_changes_its_own_bundle(tmp_path, folder, small, change, monkeypatch):
    monkeypatch.setattr("candi.data.prepare._PARTING", 64)  # every fourth file ends a bundle
    _made(folder, tmp_path / "store")
    before = _shards(tmp_path / "store")
    if change == "less":
        (folder / "small-20.txt").unlink()
    else:
        (folder / ("small-20b.txt" if change == "more" else "small-00a.txt")).write_text("x" * 40)
    store = _made(folder, tmp_path / "store")
    after = _shards(tmp_path / "store")
    assert store.tokens[:].tolist() == _expected(str(folder))
    assert sum(after.get(name) == time for name, time in before.items()) >= len(before) - 3


def test_what_is_left_over_is_swept(tmp_path, folder, small):
    store = tmp_path / "store"
    _made(folder, store)
    (folder / "large-0.txt").write_text(_text(5))
    for name in (".0123.safetensors.99.writing", ".manifest.json.7.writing", "0123.safetensors"):
        (store / name).write_bytes(b"half")
    _made(folder, store)
    assert {path.suffix for path in store.iterdir()} == {".json", ".lock", ".safetensors"}
    assert len(_shards(store)) == len(Manifest.read(store).shards)


SLOWLY = """
import time
import candi.data.corpus as corpus, candi.data.prepare as prepare
prepare._SHARD = prepare._BATCH = corpus._PIECE = 200
prepare._SMALL = 500
real = prepare.write_shard
def slow(*arguments):
    real(*arguments)
    with open({log!r}, "a") as log:
        log.write("a shard is written\\n")
    time.sleep({pause})
prepare.write_shard = slow
"""


def _preparing(data: Path, out: Path, log: Path, pause: float = 0.0) -> Forked:
    """A process that tells of each shard in a file, and may rest after it."""
    before = SLOWLY.format(log=str(log), pause=pause)
    return Forked(["prepare", "--data", str(data), "--tokenizer", "bytes", "--out", str(out)], before)


def _written(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


def _wait_for(log: Path, shards: int) -> None:
    begun = time.monotonic()
    while _written(log) < shards:
        assert time.monotonic() - begun < 60, "it writes no shards"
        time.sleep(0.005)


def test_what_a_kill_leaves_is_gone_on_with_shard_by_shard(tmp_path, folder, cache):
    """After SIGKILL the same command makes the rest alone, and the tokens are those of one that was never killed."""
    out = tmp_path / "store"
    process = _preparing(folder, out, tmp_path / "first", 0.02)
    _wait_for(tmp_path / "first", 7)
    process.kill()
    process.communicate()
    left = _shards(out)
    assert len(left) >= 7
    assert not Manifest.read(out).finished
    known = len(Manifest.read(out).shards)
    with pytest.raises(UserError, match=r"is not finished; run the same candi prepare again"):
        load_dataset(str(out), length=8)
    finish(_preparing(folder, out, tmp_path / "second"))
    after = _shards(out)
    assert sum(after.get(name) == time for name, time in left.items()) == known
    assert _written(tmp_path / "second") == len(after) - known, "it made the rest and no more"
    assert TokenStore(out, Manifest.read(out)).tokens[:].tolist() == _expected(str(folder))


def test_a_kill_while_a_shard_is_written_leaves_no_half_shard(tmp_path, folder, small, monkeypatch):
    """What is written aside has no name of its own yet, and the next command sweeps it."""
    real = os.replace
    monkeypatch.setattr("candi.base.files.os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)  # a killed process tidies nothing
    with pytest.raises(KeyboardInterrupt):
        _made(folder, tmp_path / "store")
    monkeypatch.undo()
    assert list((tmp_path / "store").glob(".*.writing"))
    assert os.replace is real
    assert not _shards(tmp_path / "store")
    _made(folder, tmp_path / "store")
    assert not list((tmp_path / "store").glob(".*.writing"))


def test_one_process_prepares_and_the_other_waits_with_a_word(tmp_path, folder, cache):
    out = tmp_path / "store"
    first = _preparing(folder, out, tmp_path / "first", 0.05)
    _wait_for(tmp_path / "first", 1)
    said = finish(_preparing(folder, out, tmp_path / "second"))
    finish(first)
    assert f"Waiting for another process that turns {folder} into tokens." in said
    assert _written(tmp_path / "second") == 0, "the second one made shards too"


def test_who_waits_for_one_that_is_killed_goes_on(tmp_path, folder, cache):
    out = tmp_path / "store"
    first = _preparing(folder, out, tmp_path / "first", 0.3)
    _wait_for(tmp_path / "first", 1)
    second = _preparing(folder, out, tmp_path / "second")
    time.sleep(0.5)  # it waits by now
    assert second.poll() is None
    first.kill()
    first.communicate()
    finish(second)
    assert _written(tmp_path / "second") > 10
    assert TokenStore(out, Manifest.read(out)).tokens[:].tolist() == _expected(str(folder))


@pytest.mark.parametrize(("mode", "wanted"), [(0o2770, 0o060), (0o755, 0o040), (0o700, 0)])
def test_files_are_as_open_to_a_group_as_their_folder(tmp_path, mode, wanted):
    (tmp_path / "a.txt").write_text("abc\n" * 9)
    around = tmp_path / "shared"
    around.mkdir()
    around.chmod(mode)
    old = os.umask(0o077)
    try:
        _made(tmp_path / "a.txt", around / "stores" / "one")
    finally:
        os.umask(old)
    for path in (around / "stores" / "one").iterdir():
        assert path.stat().st_mode & 0o070 == wanted, path.name
    folder = (around / "stores" / "one").stat().st_mode
    assert folder & 0o060 == wanted
    assert bool(folder & stat.S_ISGID) == bool(mode & stat.S_ISGID)


def test_a_store_is_read_from_a_path_that_nobody_writes_to(tmp_path, cache, monkeypatch):
    """Root writes anywhere, so it is asked what is opened for writing, or made."""
    path = write_lines(tmp_path / "a.jsonl", [{"prompt": "ab", "completion": "c"}] * 60)
    main(["prepare", "--data", str(path), "--out", str(tmp_path / "store")])
    path.unlink()  # it is not needed any more
    for one in (tmp_path / "store").iterdir():
        one.chmod(0o444)
    (tmp_path / "store").chmod(0o555)
    before = {one.name: one.stat().st_mtime_ns for one in (tmp_path / "store").iterdir()}
    for name in ("write_bytes", "whole_file", "make_folder", "waiting_lock"):
        monkeypatch.setattr(f"candi.base.files.{name}", lambda *_: pytest.fail("it writes"))
    monkeypatch.setattr(prepare, "waiting_lock", lambda *_: pytest.fail("it waits"))
    data = load_dataset(str(tmp_path / "store"), length=8, cache=tmp_path / "none")
    assert data.tokenizer.decode(data.train.windows(np.arange(1))[0], rows=True) == "abc"
    assert data.train.given(np.arange(1))[0].tolist() == [True] * 2 + [False] * 6
    assert {one.name: one.stat().st_mtime_ns for one in (tmp_path / "store").iterdir()} == before
    assert not (tmp_path / "none").exists()
    (tmp_path / "store").chmod(0o755)


def test_documents_of_a_store_that_are_too_long_are_named_by_number(tmp_path, cache):
    (tmp_path / "a.txt").write_text("ab\nabcdefgh\nabc\n" * 20)
    main(["prepare", "--data", str(tmp_path / "a.txt"), "--rows", "--out", str(tmp_path / "store")])
    with pytest.raises(UserError, match=r"20 of 60 documents cannot be used: document 2 is too long \(9 tokens\)") as e:
        load_dataset(str(tmp_path / "store"), length=6)
    assert "--length 9 holds all of them" in str(e.value)


def test_a_length_that_does_not_fit_is_refused_with_the_one_that_does(tmp_path):
    (tmp_path / "a.txt").write_text("ab\nabcdefgh\nabc\n" * 20)
    with pytest.raises(UserError, match=r"a\.txt line 2 \(abcdefgh\) is too long \(9 tokens\)") as error:
        load_dataset(str(tmp_path / "a.txt"), length=6, rows=True, cache=tmp_path / "cache")
    assert "--length 9 holds all of them, or leave them out with --skip-bad" in str(error.value)
    np.save(tmp_path / "a.npy", np.arange(60).reshape(20, 3) % 7)
    with pytest.raises(UserError, match="have 3 tokens and nothing to fill longer ones with; give --length 3"):
        load_dataset(str(tmp_path / "a.npy"), length=8, cache=tmp_path / "cache")
    assert load_dataset(str(tmp_path / "a.npy"), length=3, cache=tmp_path / "cache").length == 3


def test_what_is_left_out_is_counted(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("ab\nabcdefgh\nabc\n" * 20)
    data = load_dataset(str(tmp_path / "a.txt"), length=6, rows=True, skip_bad=True, valid_fraction=0, cache=tmp_path)
    assert data.train.size == "40 documents"
    assert "20 of 60 documents are left out, 20 of them because they are too long." in capsys.readouterr().err


def test_many_small_files_are_looked_at_a_few_times_each(tmp_path, monkeypatch, cache):
    """What stands for 20,000: each is opened to see whether it is text, for its hash, and to be read; and twice more

    for the vocabulary. There are few shards, not one a file.
    """
    folder = tmp_path / "code"
    folder.mkdir()
    for number in range(600):
        (folder / f"{number:04}.py").write_text(f"x = {number}\n")
    opened: dict[str, int] = {}
    real = Path.open
    monkeypatch.setattr(Path, "open", lambda self, *a, **k: opened.update({str(self): opened.get(str(self), 0) + 1})
                        or real(self, *a, **k))  # fmt: skip
    corpus = Corpus(str(folder))
    store = prepared(corpus, load_tokenizer("char", corpus, tmp_path / "cache"), tmp_path / "store")
    times = [count for name, count in opened.items() if name.endswith(".py")]
    assert len(times) == 600
    assert max(times[1:]) <= 4
    assert len(store.shards) < 20
    assert len(store.ends) == 600


def test_a_log_is_told_the_pace_and_what_is_left(tmp_path, folder, small, capsys, monkeypatch):
    monkeypatch.setattr("candi.data.prepare._SECONDS", -1.0)
    _made(folder, tmp_path / "store")
    said = capsys.readouterr().err
    assert f"Turning {folder} into tokens; they are kept in {tmp_path / 'store'}." in said
    assert "43 files are read (.txt 43)." in said
    assert " MB/s, 0:00:0" in said
    assert " left" in said


def test_files_of_archives_that_were_not_read_are_told(tmp_path, capsys):
    write_tar(tmp_path / "a.tar", {"a.txt": b"one two three", "b.png": b"\x89PNG\0"})
    _made(tmp_path / "a.tar", tmp_path / "store")
    assert "1 files inside archives hold no text and are not read (.png 1)." in capsys.readouterr().err


def test_a_plain_text_is_one_document_that_can_be_used(tmp_path, cache, capsys):
    """Its last piece is empty where it ends with a line's end."""
    (tmp_path / "a.txt").write_text("one two\n")
    main(["prepare", "--data", str(tmp_path / "a.txt"), "--out", str(tmp_path / "store")])
    assert "1 documents, 8 tokens of 7, " in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["cut", "gone", "other", "manifest", "version"])
def test_a_damaged_store_is_one_sentence(tmp_path, folder, damage):
    store = _made(folder, tmp_path / "store")
    shard = tmp_path / "store" / f"{store.shards[0].key}.safetensors"
    manifest = tmp_path / "store" / MANIFEST
    if damage == "cut":
        shard.write_bytes(shard.read_bytes()[:-10])
    elif damage == "gone":
        shard.unlink()
    elif damage == "other":
        _made(folder / "small-00.txt", tmp_path / "other")
        shard.write_bytes(next((tmp_path / "other").glob("*.safetensors")).read_bytes())
    elif damage == "manifest":
        manifest.write_text(manifest.read_text()[:50])
    else:
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format": 99}))
    with pytest.raises(UserError) as error:
        load_dataset(str(tmp_path / "store"), length=8)
    assert str(tmp_path / "store") in str(error.value)
    assert "\n" not in str(error.value)


def test_a_store_is_of_one_vocabulary(tmp_path, folder):
    _made(folder, tmp_path / "store")
    with pytest.raises(UserError, match="holds tokens of another vocabulary"):
        load_dataset(str(tmp_path / "store"), Tokenizer.from_spec("dna", Corpus("pydoc")), 8)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--data", "STORE", "--out", "OTHER"], "is prepared already; train with it"),
        (["--data", "TEXT", "--out", "HOME"], "holds other things; choose another --out"),
        (["--data", "nowhere", "--out", "OTHER"], "no file or folder"),
        (["--data", "TEXT"], "required"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, cache, capsys, arguments, complaint):
    (tmp_path / "a.txt").write_text("abc\n")
    _made(tmp_path / "a.txt", tmp_path / "store")
    capsys.readouterr()
    names = {"STORE": tmp_path / "store", "OTHER": tmp_path / "other", "TEXT": tmp_path / "a.txt", "HOME": tmp_path}
    with pytest.raises(SystemExit) as stopped:
        main(["prepare", *(str(names.get(word, word)) for word in arguments)])
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_the_same_data_under_a_cache_is_found_by_its_place(tmp_path, folder, small):
    """A file that changes keeps the folder of its store, and with it the shards that are still true."""
    corpus = Corpus(str(folder))
    first = store_of(corpus, BYTES, tmp_path / "cache").folder
    (folder / "large-2.txt").write_text(_text(7))
    time.sleep(0.01)
    assert store_of(Corpus(str(folder)), BYTES, tmp_path / "cache").folder == first
