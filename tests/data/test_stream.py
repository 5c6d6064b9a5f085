"""A corpus that is read as it is needed: what is seen, in which order, and that it is a function of seed and number."""

import json

import numpy as np
import pytest

from candi.base.errors import UserError
from candi.data import stream as streams
from candi.data.corpus import Corpus
from candi.data.stream import Stream, streamed
from candi.data.tokenizer import Tokenizer
from tests.training.runs import train_here

BYTES = Tokenizer.from_spec("bytes", Corpus("pydoc"))


@pytest.fixture
def corpus(tmp_path):
    """Three files of documents, each with a number."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in range(3):
        rows = (json.dumps({"text": f"{name}-{n} " * (1 + n % 5)}) for n in range(40))
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    return str(folder)


def _stream(corpus: str, tmp_path, name: str = "cache", rows: bool | None = None, **options) -> Stream:
    options = {"length": 16, "seed": 3, "block": 8} | options
    return Stream(Corpus(corpus, rows=rows, streamed=True), BYTES, folder=tmp_path / name, **options)


def _tokens_of(path: str, order: list[int]) -> np.ndarray:
    return np.concatenate([
        np.append(BYTES.encode(piece.text), BYTES.eos) for file in order for piece in Corpus(path).pieces_of(file)
    ])  # fmt: skip


def test_an_epoch_is_every_token_once_in_the_order_of_its_files(corpus, tmp_path):
    """Cut into windows that are shuffled within their block alone."""
    stream = _stream(corpus, tmp_path)
    order = streams._order(3, -1, 3).tolist()
    expected = _tokens_of(corpus, order)
    blocks = len(expected) // (16 * 8)
    for block in range(blocks):
        seen = stream.windows(np.arange(block * 8, block * 8 + 8))
        wanted = expected[block * 128 : block * 128 + 128].reshape(8, 16)
        assert sorted(map(tuple, seen.tolist())) == sorted(map(tuple, wanted.tolist()))
    shuffled = [stream.windows(np.arange(b * 8, b * 8 + 8)).ravel().tolist() for b in range(4)]
    assert shuffled != [expected[b * 128 : b * 128 + 128].tolist() for b in range(4)]


def test_the_next_epoch_reads_the_files_in_another_order(corpus, tmp_path):
    orders = {tuple(streams._order(3, -1 - epoch, 3).tolist()) for epoch in range(6)}
    assert len(orders) > 1
    stream = _stream(corpus, tmp_path)
    one = _tokens_of(corpus, streams._order(3, -1, 3).tolist())
    two = _tokens_of(corpus, streams._order(3, -2, 3).tolist())
    expected = np.concatenate([one, two])
    last = len(expected) // 128 - 1
    wanted = expected[last * 128 : last * 128 + 128].reshape(8, 16)
    seen = stream.windows(np.arange(last * 8, last * 8 + 8))
    assert sorted(map(tuple, seen.tolist())) == sorted(map(tuple, wanted.tolist()))


@pytest.mark.parametrize("rows", [None, True])
def test_any_place_can_be_asked_for_first(corpus, tmp_path, rows, monkeypatch):
    """As a run that is continued does: with what is known of the blocks' beginnings, and without."""
    options = {"rows": rows, "length": 40 if rows else 16}
    numbers = np.arange(150, 190)
    through = _stream(corpus, tmp_path, **options)
    for start in range(0, 150, 10):
        through.windows(np.arange(start, start + 10))
    wanted = through.windows(numbers)
    read = []
    real = Corpus.pieces_of
    monkeypatch.setattr(Corpus, "pieces_of", lambda self, n: read.append(n) or real(self, n))
    known = _stream(corpus, tmp_path, **options).windows(numbers)
    few = len(read)
    unknown = _stream(corpus, tmp_path, "another", **options).windows(numbers)
    assert np.array_equal(known, wanted)
    assert np.array_equal(unknown, wanted)
    assert few < len(read) - few, "what is known saves reading from the beginning"


def test_another_seed_is_another_order(corpus, tmp_path):
    one, two = (_stream(corpus, tmp_path, seed=seed).windows(np.arange(32)) for seed in (3, 4))
    assert not np.array_equal(one, two)


def test_rows_of_a_stream_are_whole_documents_and_long_ones_are_named_or_left_out(corpus, tmp_path):
    texts = {piece.text for piece in Corpus(corpus).pieces()}
    stream = _stream(corpus, tmp_path, rows=True, length=40)
    seen = [BYTES.decode(row, rows=True) for row in stream.windows(np.arange(120))]
    assert sorted(seen) == sorted(piece.text for piece in Corpus(corpus).pieces())
    with pytest.raises(UserError, match="raise --length, or leave such documents out with --skip-bad"):
        _stream(corpus, tmp_path, rows=True, length=12).windows(np.arange(8))
    short = _stream(corpus, tmp_path, rows=True, length=12, skip_bad=True)
    assert {BYTES.decode(row, rows=True) for row in short.windows(np.arange(64))} == {t for t in texts if len(t) < 12}


def test_what_is_validated_on_is_not_learned_from(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "_HELD_OUT", 2)
    some = Corpus(corpus, streamed=True)
    train, valid = streamed(some, BYTES, 16, 3, tmp_path, skip_bad=False, hold_out=True)
    held = BYTES.decode(np.concatenate(valid.first(2)))
    assert held.startswith("0-0 0-1 0-1 ")
    learned = [BYTES.decode(row) for row in train.windows(np.arange(train.block))]
    assert not any("0-1 0" in window for window in learned)
    assert any("1-1 1" in window for window in learned)


def test_pairs_of_a_stream_keep_what_is_given(tmp_path):
    path = tmp_path / "pairs.jsonl"
    rows = [{"prompt": "ab", "completion": "c" * n} for n in range(1, 9)]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    stream = Stream(Corpus(str(path), streamed=True), BYTES, 12, 0, tmp_path, block=8)
    tokens, given = stream.windows(np.arange(8)), stream.given(np.arange(8))
    assert given.sum(-1).tolist() == [2] * 8
    assert {BYTES.decode(row[:2]) for row in tokens} == {"ab"}
    assert stream.learned == pytest.approx(10 / 12)


def test_a_vocabulary_that_needs_all_data_is_refused_and_too_little_data_too(tmp_path, cache):
    path = tmp_path / "a.txt"
    path.write_text("too little")
    with pytest.raises(UserError, match="A stream is not read beforehand"):
        train_here(tmp_path / "run", data=path, stream=True, steps=1)
    with pytest.raises(UserError, match="too short to validate on; give --valid"):
        train_here(tmp_path / "run", data=path, stream=True, tokenizer="bytes", steps=1)
    with pytest.raises(UserError, match="holds too little for a sequence"):
        Stream(Corpus(str(path), streamed=True), BYTES, 64, 0, tmp_path).windows(np.arange(1))


def test_a_streamed_run_that_is_continued_ends_with_the_same_weights(corpus, tmp_path, cache):
    options = {"data": corpus, "stream": True, "tokenizer": "bytes", "length": 16, "valid_fraction": 0.0,
               "checkpoint_every": 3}  # fmt: skip
    whole = train_here(tmp_path / "whole", steps=6, **options)
    train_here(tmp_path / "parts", steps=3, **options)
    parts = train_here(tmp_path / "parts", steps=6, **options)
    assert (whole / "model.safetensors").read_bytes() == (parts / "model.safetensors").read_bytes()


def test_a_data_set_of_the_hub_is_read_over_the_network(corpus, tmp_path, monkeypatch):
    """Its files are opened where they lie; nothing is downloaded beforehand."""
    from fsspec.implementations.local import LocalFileSystem

    class Hub(LocalFileSystem):
        def find(self, path, **options):
            assert path == "datasets/someone/something"
            return super().find(corpus, **options)

    monkeypatch.setattr("huggingface_hub.HfFileSystem", Hub)
    remote = Corpus("hf:someone/something:0.jsonl", streamed=True)
    assert [file.size > 0 for file in remote.stream_files] == [True]
    assert next(remote.pieces_of(0)).text == "0-0 "


def test_a_long_piece_is_held_out_in_part(tmp_path, monkeypatch):
    """One file that is one piece: its beginning is validated on, all else is learned from, and nothing twice."""
    monkeypatch.setattr(streams, "_HELD_OUT", 4)
    (tmp_path / "book.txt").write_text("".join(f"{n:07d} " for n in range(200)))
    stream, valid = streamed(
        Corpus(str(tmp_path / "book.txt"), streamed=True), BYTES, 16, 3, tmp_path, skip_bad=False, hold_out=True
    )  # fmt: skip
    tokens = BYTES.encode((tmp_path / "book.txt").read_text())
    assert np.array_equal(valid.first(4).ravel(), tokens[:64])
    assert stream.held_out == (0, 64)
    learned = Stream(stream.corpus, BYTES, 16, 3, tmp_path, held_out=stream.held_out, block=8)
    seen = sorted(bytes(row.astype(np.uint8)) for row in learned.windows(np.arange(88)))
    assert seen == sorted(bytes(tokens[i : i + 16].astype(np.uint8)) for i in range(64, 64 + 88 * 16, 16))
    again = Stream(stream.corpus, BYTES, 16, 3, tmp_path, held_out=stream.held_out, block=8)
    assert np.array_equal(again.windows(np.arange(80, 110)), learned.windows(np.arange(80, 110)))


def test_molecules_are_validated_as_rows(tmp_path):
    (tmp_path / "some.smi").write_text("CCO\nCC\nCCC\n" * 200)
    tokenizer = Tokenizer.smiles(Corpus(str(tmp_path / "some.smi")).pieces())
    _, valid = streamed(
        Corpus(str(tmp_path / "some.smi"), streamed=True), tokenizer, 8, 3, tmp_path, skip_bad=False, hold_out=True
    )  # fmt: skip
    assert {tokenizer.decode(row) for row in valid.first(12)} <= {"CCO", "CC", "CCC"}
    assert (valid.first(12)[:, 0] == tokenizer.begin).all()


def test_what_is_read_and_what_is_not_is_said(corpus, tmp_path, capsys):
    """As of data that is prepared."""
    (tmp_path / "data" / "picture.png").write_bytes(b"\x89PNG")
    streamed(Corpus(corpus, streamed=True), BYTES, 16, 3, tmp_path / "said", skip_bad=False, hold_out=False)
    assert "3 files are read (.jsonl 3); 1 hold no text and are not (picture.png)" in capsys.readouterr().err
