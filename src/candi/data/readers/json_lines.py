"""JSON: an object a line, a list of them, or one in a whole file. A line may also be a list of integers."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from candi.base.errors import UserError
from candi.data.files import DataFile
from candi.data.pieces import Place, Row


def json_rows(file: DataFile, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """A row for each object; where the first line is no JSON by itself, the whole file is one value."""
    with file.text() as lines:
        numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
        for number, line in numbered:
            place = Place(file.name, "line", number)
            try:
                value = _parsed(line, place)
            except json.JSONDecodeError as error:
                if number > 1 or file.kind != ".json":
                    raise _no_json(place, error.msg) from None
                yield from _rows(_whole(file, chain([line], (rest for _, rest in numbered))), place)
                return
            yield from _rows(value, place)


def _whole(file: DataFile, lines: Iterator[str]) -> Any:
    place = Place(file.name)
    try:
        return _parsed("".join(lines), place)
    except json.JSONDecodeError as error:
        raise _no_json(Place(file.name, "line", error.lineno), error.msg) from None


def _parsed(text: str, place: Place) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise UserError(f"{place} is nested too deeply to be read; mend it.") from None
    except ValueError:  # Python reads no number of more than some thousand digits
        raise UserError(f"{place} holds a number that is too long to be read; mend it.") from None


def _no_json(place: Place, why: str) -> UserError:
    return UserError(f"{place} is not JSON ({why}); one object a line is expected, or a list of them.")


def _rows(value: Any, place: Place) -> Iterator[Row]:
    if isinstance(value, dict):
        yield Row(place, value)
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        for number, item in enumerate(value, 1):
            yield Row(Place(str(place), "item", number), item)
    elif isinstance(value, list) and all(isinstance(item, int) for item in value):
        yield Row(place, {"tokens": value})
    else:
        raise UserError(
            f'{place} is no object; write {{"text": ...}}, {{"tokens": [...]}}, or a prompt and completion.'
        )
