"""What of a row is given, and what is learned: pairs, chats, integers; from the file to the batch."""

import numpy as np
import pytest

from candi.base.errors import UserError
from candi.data.corpus import Corpus
from candi.data.datasets import load_dataset
from candi.data.documents import document, opening
from candi.data.pieces import Part, Place, Row
from candi.data.tokenizer import Tokenizer
from tests.data.files import pieces, write_lines, write_parquet

CHAT = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello!"},
    {"role": "user", "content": "Bye"},
    {"role": "assistant", "content": "Bye!"},
]


def _document(values, column="text", **options):
    return document(Row(Place("a.jsonl", "line", 1), values), column, **options)


def _opening(values, column="text", **options):
    return opening(Row(Place("a.jsonl", "line", 1), values), column, **options)


def _marked(piece) -> list[str]:
    """What is given in brackets."""
    return [f"[{part.text}]" if part.given else part.text for part in piece.parts]


def test_a_prompt_is_given_and_its_completion_learned():
    piece = _document({"prompt": "2+2=", "completion": "4"})
    assert (piece.text, piece.parts) == ("2+2=4", (Part("2+2=", True), Part("4", False)))


def test_of_a_chat_the_assistants_words_and_their_end_are_learned():
    piece = _document({"messages": CHAT}, chat="<{role}>{content}\n")
    assert _marked(piece) == [
        "[<system>]", "[Be kind.\n]", "[<user>]", "[Hi\n]", "[<assistant>]", "Hello!\n", "[<user>]", "[Bye\n]",
        "[<assistant>]", "Bye!\n",
    ]  # fmt: skip
    assert piece.text == "<system>Be kind.\n<user>Hi\n<assistant>Hello!\n<user>Bye\n<assistant>Bye!\n"


def test_a_template_is_filled_once():
    """What a message says is never taken for a place to fill."""
    piece = _document({"messages": [{"role": "assistant", "content": "{role} {content}"}]}, chat="{role}: {content}|")
    assert piece.text == "assistant: {role} {content}|"


def test_a_chat_begins_where_its_assistant_is_to_answer():
    parts = _opening({"messages": CHAT[:2]}, chat="<{role}>{content}\n")
    assert "".join(part.text for part in parts) == "<system>Be kind.\n<user>Hi\n<assistant>"
    assert all(part.given for part in parts)


def test_an_opening_is_what_stands_before_the_completion_in_training():
    values = {"prompt": "2+2=", "completion": "4"}
    assert _opening(values) == _document(values).parts[:1]
    chat = _document({"messages": CHAT[:3]})
    assert "".join(part.text for part in _opening({"messages": CHAT[:2]})) == "".join(
        part.text for part in chat.parts if part.given
    )


def test_a_column_that_is_asked_for_comes_first_in_training():
    values = {"text": "all of it", "prompt": "a", "completion": "b"}
    assert _document(values).parts is None
    assert _document(values, "other").text == "ab"


def test_openings_of_integers_have_holes_where_nothing_is_given():
    assert _opening({"tokens": [5, 6, 7], "given": [1, 0, 1]}).tolist() == [5, -1, 7]
    assert _opening({"tokens": [5, 6, 7], "given": 1}).tolist() == [5, -1, -1]
    assert _opening({"tokens": [5, 6, 7]}).tolist() == [5, 6, 7]
    assert _opening({"text": "Once"}) == (Part("Once", True),)


def test_openings_of_a_text_file_are_its_lines(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    found = list(Corpus(str(tmp_path / "a.txt")).openings())
    assert [(place.short, parts[0].text) for place, parts in found] == [
        ("a.txt line 1", "one"),
        ("a.txt line 3", "two"),
    ]


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"prompt": "a"}, "line 1 has no text in the field 'completion'"),
        ({"prompt": None, "completion": "b"}, "line 1 has nothing in the field 'prompt'"),
        ({"prompt": "a", "completion": ["b"]}, "line 1 has no text in the field 'completion'"),
        ({"prompt": "a\ud83d", "completion": "b"}, "half a character"),
        ({"messages": []}, "messages is no list of a chat"),
        ({"messages": "hello"}, "messages is no list of a chat"),
        ({"messages": [{"role": "user"}]}, "has a role and a content"),
        ({"messages": [{"role": "user", "content": 5}]}, "has a role and a content"),
        ({"messages": [{"role": "user", "content": "\ud83d"}]}, "half a character"),
        ({"question": "a", "answer": "b"}, "set --text-field to one of: question, answer"),
    ],
)
def test_rows_that_are_none_are_named(values, complaint):
    with pytest.raises(UserError, match=complaint) as error:
        _document(values)
    assert "a.jsonl line 1" in str(error.value)


def test_a_template_without_a_place_for_the_content_is_refused():
    with pytest.raises(UserError, match=r"has no \{content\}"):
        _document({"messages": CHAT}, chat="{role}:")


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_pairs_are_rows_of_themselves(tmp_path, kind):
    rows = [{"prompt": f"{n}=", "completion": str(n)} for n in range(3)]
    write = write_lines if kind == "jsonl" else write_parquet
    path = write(tmp_path / f"a.{kind}", rows)
    assert Corpus(str(path)).by_rows
    assert [_marked(piece) for piece in pieces(path)] == [[f"[{n}=]", str(n)] for n in range(3)]


def test_chats_of_parquet(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", [{"messages": CHAT}])
    assert "".join(_marked(pieces(path, chat="{role}:{content} ")[0])).startswith("[system:][Be kind. ][user:][Hi ]")


@pytest.mark.parametrize("tokenizer", ["char", "bytes", "bpe:260"])
def test_tokens_of_a_prompt_are_marked_and_its_end_is_learned(tmp_path, tokenizer):
    path = write_lines(tmp_path / "a.jsonl", [{"prompt": "ab", "completion": "cd"}] * 40)
    data = load_dataset(str(path), tokenizer, 8, cache=tmp_path / "cache")
    tokens, given = data.train.windows(np.arange(2)), data.train.given(np.arange(2))
    assert data.tokenizer.decode(tokens[0][given[0]]) == "ab"
    assert data.tokenizer.decode(tokens[0], rows=True) == "abcd"
    prompt = int(given[0].sum())
    assert given[0].tolist() == [True] * prompt + [False] * (8 - prompt)
    assert data.train.learned == pytest.approx(1 - prompt / 8)
    assert data.valid.first_given(1).tolist() == given[:1].tolist()


def test_a_bpe_never_joins_a_prompt_with_what_follows(tmp_path):
    """Else a prompt would be other tokens in training than it is when samples are asked for."""
    path = write_lines(tmp_path / "a.jsonl", [{"prompt": "ba", "completion": "nana"}] * 200)
    tokenizer = Tokenizer.train_bpe(pieces(path), 280)
    whole = tokenizer.encode("banana")
    data = load_dataset(str(path), tokenizer, 8, cache=tmp_path / "cache")
    tokens, given = data.train.windows(np.arange(1))[0], data.train.given(np.arange(1))[0]
    assert tokens[given].tolist() == tokenizer.encode("ba").tolist()
    assert tokens[: len(whole)].tolist() != whole.tolist()


def test_molecules_after_a_prompt_have_their_beginning_given(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [{"prompt": "CC", "completion": "O"}] * 40)
    data = load_dataset(str(path), "smiles", 8, cache=tmp_path / "cache")
    given = data.train.given(np.arange(1))[0]
    assert given.tolist() == [True] * 3 + [False] * 5  # <bos> C C


def test_given_integers_come_with_their_rows_in_every_order(tmp_path):
    """The mask is of the row's own document, whatever the epoch's order."""
    random = np.random.default_rng(0)
    tokens, given = random.integers(0, 9, (50, 6)), random.integers(0, 2, (50, 6))
    np.savez(tmp_path / "a.npz", tokens=tokens, given=given)
    data = load_dataset(str(tmp_path / "a.npz"), "char", 6, valid_fraction=0.0, cache=tmp_path / "cache")
    known = {tuple(row): tuple(mask) for row, mask in zip(tokens.tolist(), (given > 0).tolist(), strict=True)}
    numbers = np.arange(120)
    for row, mask in zip(data.train.windows(numbers).tolist(), data.train.given(numbers).tolist(), strict=True):
        assert known[tuple(row)] == tuple(mask)
    assert data.train.learned == pytest.approx(1 - given.mean())


def test_a_stream_of_windows_knows_what_is_given_too(tmp_path):
    """Rows that are joined on request: each token keeps its mark."""
    path = write_lines(tmp_path / "a.jsonl", [{"tokens": [7, 7, 1, 2], "given": 2}] * 60)
    data = load_dataset(str(path), "char", 6, rows=False, cache=tmp_path / "cache")
    tokens, given = data.train.windows(np.arange(20)), data.train.given(np.arange(20))
    assert np.array_equal(tokens == 7, given)
    assert data.train.learned == pytest.approx(0.5, abs=0.02)
