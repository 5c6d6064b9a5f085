"""Each kind of data from its file to its samples: prepared, trained a few steps, sampled, evaluated by tiny models."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from candi.base.files import sha256
from candi.cli import main
from tests.data.files import write_lines, write_parquet, write_tar

pytestmark = pytest.mark.usefixtures("cache")
TINY = [
    "--preset=tiny", "--steps=3", "--batch-size=4", "--checkpoint-every=3", "--validate-every=3", "--sample-every=0",
    "--validate-windows=4", "--device=cpu", "--model.width=16", "--model.blocks=1", "--model.heads=2", "--method=mdlm",
]  # fmt: skip
RANDOM = np.random.default_rng(0)


def _letters(alphabet: str, size: int) -> str:
    return "".join(RANDOM.choice(list(alphabet), size))


def _sudoku(folder: Path) -> Path:
    """Squares of 4 x 4 whose rows are shifts of each other; the first half is given."""
    rows = [np.concatenate([np.roll(RANDOM.permutation(4), 2 * (n % 2)) for n in range(4)]) for _ in range(60)]
    np.savez(folder / "a.npz", tokens=np.array(rows, np.int16), given=np.full(60, 8))
    return folder / "a.npz"


def _stream_of_integers(folder: Path) -> Path:
    np.save(folder / "a.npy", RANDOM.integers(0, 300, 2000))
    return folder / "a.npy"


def _lists(folder: Path) -> Path:
    rows = [{"tokens": RANDOM.integers(0, 9, int(size)).tolist()} for size in RANDOM.integers(3, 15, 60)]
    return write_parquet(folder / "a.parquet", rows)


def _fasta(folder: Path, alphabet: str, name: str) -> Path:
    text = "".join(f">seq{n} length=60\n{_letters(alphabet, 60)}\n" for n in range(20))
    (folder / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return folder / name


def _lines(folder: Path) -> Path:
    (folder / "a.txt").write_text("".join(f"{_letters('abc', 3 + n % 9)}\r\n" for n in range(60)))
    return folder / "a.txt"


def _cells(folder: Path) -> Path:
    (folder / "a.csv").write_text("name,price\n" + "".join(f"{_letters('abc', 3 + n % 9)},{n}\n" for n in range(60)))
    return folder / "a.csv"


def _code(folder: Path) -> Path:
    made = folder / "code"
    made.mkdir()
    for number in range(9):
        (made / f"{number}.py").write_text(f"def f{number}(x):\n    return x + {number}  # é 日\n" * 4)
    (made / "logo.png").write_bytes(b"\x89PNG\0")
    return made


def _archive(folder: Path) -> Path:
    return write_tar(folder / "a.tar.gz", {f"{n:03}.txt": f"sample {n} ".encode() * 5 for n in range(30)})


def _pairs(folder: Path) -> Path:
    rows = [{"prompt": f"{(word := _letters('abc', 4))}>", "completion": word} for _ in range(60)]
    return write_lines(folder / "a.jsonl", rows)


def _chats(folder: Path) -> Path:
    words = [_letters("abc", 3) for _ in range(60)]
    rows = [{"messages": [{"role": role, "content": word} for role in ("user", "assistant")]} for word in words]
    return write_lines(folder / "a.jsonl", rows)


@dataclass(frozen=True)
class Kind:
    """How data is made, what is said about it, and what all samples are made of."""

    make: Callable[[Path], Path]
    flags: tuple[str, ...] = ()
    length: int = 16
    rows: bool = False
    alphabet: str = ""


KINDS = {
    "integers, rows with some given": Kind(_sudoku, rows=True, alphabet="0123 "),
    "integers, a stream": Kind(_stream_of_integers, ("--tokenizer=integers:300",), alphabet="0123456789 "),
    "integers, lists of different lengths": Kind(_lists, rows=True, alphabet="0123456789 "),
    "DNA": Kind(lambda f: _fasta(f, "acgTN", "a.fa.gz"), ("--tokenizer=dna",), alphabet="ACGTN<|endoftext|>"),
    "proteins": Kind(
        lambda f: _fasta(f, "ACDEFGHIKLMNPQRSTVWY", "a.faa"), ("--tokenizer=protein", "--rows"), 64, True,
        "ACDEFGHIKLMNPQRSTVWYXBJOUZ*-",
    ),
    "lines": Kind(_lines, ("--rows",), rows=True, alphabet="abc"),
    "cells, as bytes": Kind(_cells, ("--rows", "--text-field=name", "--tokenizer=bytes"), rows=True),
    "lines, as BPE": Kind(_lines, ("--rows", "--tokenizer=bpe:260"), rows=True),
    "code": Kind(_code, ("--tokenizer=bpe:280",)),
    "an archive": Kind(_archive, ("--tokenizer=char",), alphabet="sample 0123456789<|endoftext|>"),
    "pairs": Kind(_pairs, rows=True, alphabet="abc>"),
    "chats": Kind(_chats, ("--chat={role}: {content}|",), 48, True, "user: abc|istn"),
}  # fmt: skip


def _run(*arguments: object) -> None:
    main([str(argument) for argument in arguments])


def _samples(capsys, *arguments: object) -> list[dict]:
    capsys.readouterr()
    _run("sample", *arguments, "--json", "--steps=3", "--device=cpu")
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("name", KINDS)
def test_from_the_file_to_samples(tmp_path, capsys, name):
    """The same weights from the data and from its store, which is all that is needed."""
    kind = KINDS[name]
    data = kind.make(tmp_path)
    store = tmp_path / "store"
    _run("prepare", "--data", data, "--out", store, *kind.flags)
    assert "cannot be used" not in capsys.readouterr().out
    length = f"--length={kind.length}"
    _run("train", "--data", store, length, "--out", tmp_path / "run", *TINY)
    _run("train", "--data", data, length, "--out", tmp_path / "direct", *TINY, *kind.flags)
    weights = [sha256(path) for path in tmp_path.glob("*/checkpoints/*/model.safetensors")]
    assert len(weights) == 2
    assert weights[0] == weights[1]
    for sample in _samples(capsys, tmp_path / "run", "--n=3"):
        assert len(sample["tokens"]) == kind.length
        assert not set(sample["text"]) - set(kind.alphabet or sample["text"])
        assert ("<|endoftext|>" in sample["text"]) <= (not kind.rows)
    options = [flag for flag in kind.flags if not flag.startswith(("--tokenizer", "--rows"))]
    for evaluated in (data, store):
        _run("evaluate", tmp_path / "run", "--data", evaluated, "--sequences=4", "--times=2", "--json", "--device=cpu",
             *(options if evaluated is data else []))  # fmt: skip
        assert 0 < json.loads(capsys.readouterr().out)["bits_per_token"] < 12


@pytest.fixture(scope="module")
def pairs(tmp_path_factory, cache) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    _run("train", "--data", _pairs(folder), "--length=16", "--out", folder / "run", *TINY)
    return folder


def test_each_row_of_a_file_of_prompts_is_answered(pairs, capsys):
    prompts = write_lines(pairs / "prompts.jsonl", [{"prompt": "ab>"}, {"prompt": "ccc>"}])
    found = _samples(capsys, pairs / "run", "--data", prompts, "--n=2")
    assert [sample["prompt"] for sample in found] == ["ab>", "ab>", "ccc>", "ccc>"]
    assert [sample["number"] for sample in found] == [0, 1, 2, 3]
    assert all(sample["text"] == sample["prompt"] + sample["completion"] for sample in found)
    again = _samples(capsys, pairs / "run", "--data", prompts, "--n=2", "--batch-size=1")
    assert again == found, "an answer depends on its number, not on the batch"


def test_prompts_may_be_lines_of_text_or_what_the_model_learned_from(pairs, capsys):
    (pairs / "prompts.txt").write_text("ab>\r\n\r\nc>\r\n")
    assert [one["prompt"] for one in _samples(capsys, pairs / "run", "--data", pairs / "prompts.txt")] == ["ab>", "c>"]
    assert len(_samples(capsys, pairs / "run", "--data", pairs / "a.jsonl")) == 60
    (pairs / "prompts.csv").write_text("question\nab>\n")
    (found,) = _samples(capsys, pairs / "run", "--data", pairs / "prompts.csv", "--text-field=question")
    assert found["prompt"] == "ab>"


def test_given_integers_stay_where_they_are(tmp_path, capsys):
    _run("train", "--data", _sudoku(tmp_path), "--length=16", "--out", tmp_path / "run", *TINY)
    tokens = RANDOM.integers(0, 4, (3, 16))
    given = RANDOM.integers(0, 2, (3, 16))
    np.savez(tmp_path / "puzzles.npz", tokens=tokens, given=given)
    found = _samples(capsys, tmp_path / "run", "--data", tmp_path / "puzzles.npz")
    for sample, row, mask in zip(found, tokens, given, strict=True):
        assert np.array_equal(np.array(sample["tokens"])[mask > 0], row[mask > 0])


REFUSED = {
    "an unseen character": (["sample", "RUN", "--prompt", "xyz"], "has no 'x', 'y', 'z'; use only characters"),
    "one in a file, with its line": (["sample", "RUN", "--data", "STRANGE"], "strange.jsonl line 2: The character"),
    "a prompt that is too long": (["sample", "RUN", "--data", "LONG"], "long.jsonl line 1: The prompt has 40 tokens"),
    "no prompts": (["sample", "RUN", "--data", "EMPTY"], "has no prompts"),
    "two prompts": (["sample", "RUN", "--data", "LONG", "--prompt", "a"], "--data has the prompts"),
    "unknown, where there is no token": (["sample", "RUN", "--unknown", "token"], "no token for what is unknown"),
    "a third choice": (["sample", "RUN", "--unknown", "maybe"], "no choice of --unknown 'maybe'"),
    "evaluated on others": (["evaluate", "RUN", "--data", "STRANGE"], "holds what the vocabulary has not"),
    "a binary file": (["train", "--data", "BINARY", "--out", "OUT"], "holds no text, and its ending names no kind"),
    "no file of the kind": (["prepare", "--data", "FASTA", "--out", "OUT"], "stands before the first title"),
    "a list that is none": (["train", "--data", "LISTS", "--out", "OUT"], "line 1: tokens is no list of integers"),
    "letters of no alphabet": (["train", "--data", "LETTERS", "--tokenizer", "dna", "--out", "OUT"], "cannot be used"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_mistakes_are_one_sentence(pairs, tmp_path, capsys, name):
    arguments, complaint = REFUSED[name]
    files = {
        "STRANGE": write_lines(tmp_path / "strange.jsonl", [{"prompt": p, "completion": "a"} for p in ("a", "éa")]),
        "LONG": write_lines(tmp_path / "long.jsonl", [{"prompt": "ab" * 20, "completion": "a"}] * 9),
        "LETTERS": write_lines(tmp_path / "letters.jsonl", [{"prompt": "A", "completion": "E"}] * 9),
        "EMPTY": write_lines(tmp_path / "empty.jsonl", []),
        "BINARY": tmp_path / "a.bin",
        "FASTA": tmp_path / "a.fasta",
        "LISTS": write_lines(tmp_path / "lists.jsonl", [{"tokens": ["a"]}]),
        "RUN": pairs / "run",
        "OUT": tmp_path / "out",
    }
    files["BINARY"].write_bytes(b"\0\1\2\xff")
    files["FASTA"].write_text("ACGT\n")
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        _run(*(files.get(word, word) for word in arguments), *(TINY if arguments[0] == "train" else ()))
    said = capsys.readouterr()
    assert stopped.value.code == 2
    assert complaint in said.err
    assert said.err.splitlines()[-1].startswith("candi: ")
    assert said.out == ""


def test_what_is_unknown_is_a_token_where_that_is_asked_for(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("abc abd " * 60 + "é")
    run = tmp_path / "run"
    _run("train", "--data", tmp_path / "a.txt", "--tokenizer=char+unknown", "--length=16", "--out", run, *TINY)
    assert len(_samples(capsys, run, "--prompt=日", "--unknown=token")) == 1
    (tmp_path / "b.txt").write_text("abc 日本 " * 60)
    evaluate = ["evaluate", run, "--data", tmp_path / "b.txt", "--sequences=2", "--times=1", "--device=cpu"]
    _run(*evaluate, "--unknown=token")
    with pytest.raises(SystemExit) as stopped:
        _run(*evaluate)
    assert stopped.value.code == 2
    assert "no '日', '本'" in capsys.readouterr().err.replace("'本', '日'", "'日', '本'")
