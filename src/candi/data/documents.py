"""What of a row is the document: text, a prompt with its completion, messages of a chat, or integers."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from candi.base.errors import UserError
from candi.data.pieces import Part, Piece, Place, Row
from candi.data.readers.integers import Stretch

Opening: TypeAlias = tuple[Part, ...] | NDArray[np.int64]  # text, or integers, of which -1 is to be filled
CHAT = "<|{role}|>\n{content}\n"  # how a message is written; what stands before an assistant's content is given
_LEARNED = "assistant"
COLUMNS = ("tokens", "given", "prompt", "completion", "messages")  # that mean something by their names


def document(row: Row, column: str, chat: str = CHAT) -> Piece:
    """The column if it is there, else whichever of prompt and completion, messages, tokens the row has."""
    values, place = row.values, row.place
    if column in values:
        return _of_column(values, column, place)
    if "prompt" in values:
        parts = (Part(_text(values, "prompt", place), True), Part(_text(values, "completion", place), False))
        return _joined(parts, place)
    if "messages" in values:
        return _joined(_messages(values["messages"], chat, place), place)
    if "tokens" in values:
        return _of_column(values, "tokens", place)
    names = ", ".join(map(str, values))
    raise UserError(f"{place} has no text in the field {column!r}; set --text-field to one of: {names}.")


def is_document(row: Row, column: str) -> bool:
    """Whether a row has anything that `document` takes."""
    return any(name in row.values for name in (column, "prompt", "messages", "tokens"))


def opening(row: Row, column: str, chat: str = CHAT) -> Opening:
    """What a row gives to begin with, for a model that goes on from there: a prompt, messages, or given integers."""
    values, place = row.values, row.place
    if "prompt" in values:
        return (Part(_text(values, "prompt", place), True),)
    if "messages" in values:
        before, _ = _around(chat)
        said = [part._replace(given=True) for part in _messages(values["messages"], chat, place)]
        return (*said, Part(before.replace("{role}", _LEARNED), True))
    if "tokens" in values:
        piece = _of_column(values, "tokens", place)
        assert piece.tokens is not None
        return piece.tokens if piece.given is None else np.where(piece.given, piece.tokens, -1)
    return (Part(_text(values, column, place), True),)


def check_text(text: str, where: object) -> None:
    """Refuse halves of characters, which JSON and command lines can hold and no tokenizer reads."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        half = text[error.start]
        raise UserError(f"{where} holds {half!r}, which is half a character and no text; mend it.") from None


def _of_column(values: Mapping[str, Any], column: str, place: Place) -> Piece:
    value = values[column]
    if isinstance(value, Stretch):
        return Piece("", False, place, tokens=_integers(value.tokens, place))
    if isinstance(value, list | np.ndarray):
        tokens = _integers(value, place)
        return Piece("", True, place, tokens=tokens, given=_given(values.get("given"), len(tokens), place))
    return Piece(_text(values, column, place), True, place)


def _joined(parts: Sequence[Part], place: Place) -> Piece:
    return Piece("".join(part.text for part in parts), True, place, tuple(parts))


def _messages(messages: Any, chat: str, place: Place) -> tuple[Part, ...]:
    """Of an assistant's message the content and what follows it are learned, all else is given."""
    before, after = _around(chat)
    parts = list[Part]()
    if not isinstance(messages, list) or not messages:
        raise UserError(f"{place}: messages is no list of a chat; write [{{'role': ..., 'content': ...}}, ...].")
    for message in messages:
        role, content = (message.get(name) if isinstance(message, dict) else None for name in ("role", "content"))
        if not isinstance(role, str) or not isinstance(content, str):
            raise UserError(f"{place}: a message of a chat has a role and a content, both text; mend {message!r}.")
        check_text(content, place)
        given = role != _LEARNED
        parts += [Part(before.replace("{role}", role), True), Part(content + after.replace("{role}", role), given)]
    return tuple(parts)


def _around(chat: str) -> tuple[str, str]:
    before, mark, after = chat.partition("{content}")
    if not mark:
        raise UserError(f"The chat template {chat!r} has no {{content}}; write for example '{{role}}: {{content}}'.")
    return before, after


def _text(values: Mapping[str, Any], column: str, place: Place) -> str:
    text = values.get(column)
    if column in values and text is None:
        raise UserError(f"{place} has nothing in the field {column!r}; leave such rows out of the file.")
    if not isinstance(text, str):
        raise UserError(f"{place} has no text in the field {column!r}; set --text-field to the one that has.")
    check_text(text, place)
    return text


def _integers(values: Any, place: Place) -> NDArray[np.int64]:
    try:
        tokens = np.asarray(values)
    except (ValueError, OverflowError):
        tokens = np.empty(0, object)
    if tokens.ndim != 1 or not (np.issubdtype(tokens.dtype, np.integer) or not tokens.size):
        raise UserError(f"{place}: tokens is no list of integers; mend it.")
    for extreme in (int(tokens.min()), int(tokens.max())) if tokens.size else ():
        if not 0 <= extreme < 2**31:
            raise UserError(f"{place} holds the token {extreme}; tokens are integers from 0 on, below 2^31.")
    return tokens.astype(np.int64)


def _given(value: Any, length: int, place: Place) -> NDArray[np.bool_] | None:
    """From a count, or from a mask of 0 and 1."""
    if value is None:
        return None
    array = np.asarray(value)
    if array.ndim == 0 and array.dtype.kind in "iu" and 0 <= int(array) <= length:
        return np.arange(length) < int(array)
    if array.shape == (length,) and array.dtype.kind in "iub" and set(np.unique(array)) <= {0, 1}:
        return array.astype(bool)
    raise UserError(f"{place}: given says how many of the {length} tokens are given, or is a list of as many 0 and 1.")
