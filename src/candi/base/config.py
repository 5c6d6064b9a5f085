"""Configurations as plain JSON, read back with every name and type checked."""

import dataclasses
import json
import math
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from reprlib import Repr
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from candi.base.errors import UserError, unknown
from candi.base.files import need_file

T = TypeVar("T")

_repr = Repr()
_repr.maxstring = _repr.maxlong = _repr.maxother = 60


def short(value: object) -> str:
    """A value in a sentence, however long or deep somebody has made it."""
    return _repr.repr(value)


def from_json(cls: type[T], values: object, where: str) -> T:
    """A dataclass from a JSON object; a wrong name or type is a UserError that says where."""
    if not isinstance(values, Mapping):
        raise UserError(f"{where}: expected an object, not {short(values)}.")
    hints = get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            raise UserError(f"{where}: {unknown('field', name, fields)}")
    for name, field in fields.items():
        if name in values and not _fits(values[name], hints[name]):
            raise UserError(f"{where}: {name} must be {_spell(hints[name])}, not {short(values[name])}.")
        if name not in values and field.default is field.default_factory is dataclasses.MISSING:
            raise UserError(f"{where}: {name} is missing.")
    return cls(**values)


def read_json(path: Path) -> Any:
    need_file(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} is missing; {path.parent} is not a checkpoint.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not valid JSON ({error}).") from None
    return parse_json(text, str(path))


def parse_json(text: str, where: str) -> Any:
    """What anybody may have written; what cannot be read is a UserError that says where."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{where} is not valid JSON ({error}).") from None
    except RecursionError:
        raise UserError(f"{where} is nested too deeply to be read; mend it.") from None
    except ValueError:  # Python reads no number of more than some thousand digits
        raise UserError(f"{where} holds a number that is too long to be read; mend it.") from None


def finite(value: Any) -> Any:
    """As JSON has it: no infinity and nothing that is no number, but null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: finite(one) for name, one in value.items()}
    return [finite(one) for one in value] if isinstance(value, list | tuple) else value


def is_plain(hint: Any) -> bool:
    """Whether JSON gives values of this type back as they were."""
    if get_origin(hint) is Literal:
        return True
    if get_origin(hint) in (Union, types.UnionType, list):
        return all(is_plain(option) for option in get_args(hint))
    return hint in (int, float, str, bool, type(None))


def _fits(value: object, hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return any(_fits(value, option) for option in get_args(hint))
    if hint is float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        return abs(value) <= sys.float_info.max  # JSON as Python reads it also has NaN and Infinity
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(item, get_args(hint)[0]) for item in value)
    if get_origin(hint) is dict:
        return isinstance(value, dict) and all(_fits(item, get_args(hint)[1]) for item in value.values())
    return hint is Any or isinstance(value, hint)


def _spell(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_spell(option) for option in get_args(hint))
    if get_origin(hint) in (list, dict):
        return f"a {'list' if get_origin(hint) is list else 'table'} of {_spell(get_args(hint)[-1])}"
    return {
        Any: "anything",
        int: "a whole number",
        float: "a number",
        str: "text",
        bool: "true or false",
        type(None): "null",
    }[hint]
