"""Configurations as plain JSON, read back with every name and type checked."""

import dataclasses
import json
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from candi.errors import UserError, unknown
from candi.methods import METHODS, MethodSettings
from candi.nets.transformer import TrunkSettings

T = TypeVar("T")


@dataclass(frozen=True)
class ModelConfig:
    """All that is needed to build a denoiser: what config.json holds."""

    vocab_size: int
    length: int
    method: str
    settings: MethodSettings
    model: TrunkSettings
    label: str | None = None  # what a model was taught to generate by

    @property
    def classes(self) -> int:
        return 0 if self.label is None else 2

    def to_json(self) -> dict[str, Any]:
        """The method's settings stand under its name."""
        return {
            "vocab_size": self.vocab_size,
            "length": self.length,
            "label": self.label,
            "method": self.method,
            self.method: dataclasses.asdict(self.settings),
            "model": dataclasses.asdict(self.model),
        }

    @classmethod
    def from_json(cls, values: object, where: str) -> "ModelConfig":
        if not isinstance(values, Mapping):
            raise UserError(f"{where}: expected an object, not {values!r}.")
        name = values.get("method")
        if not isinstance(name, str) or name not in METHODS:
            raise UserError(f"{where}: {unknown('method', str(name), METHODS)}")
        rest = {key: value for key, value in values.items() if key not in ("method", name, "model")}
        sizes = from_json(_Sizes, rest, where)
        if min(sizes.vocab_size, sizes.length) < 1:
            raise UserError(f"{where}: vocab_size and length must be at least 1.")
        return cls(
            sizes.vocab_size,
            sizes.length,
            name,
            from_json(METHODS[name], values.get(name, {}), f"{where}, {name}"),
            from_json(TrunkSettings, values.get("model", {}), f"{where}, model"),
            sizes.label,
        )


@dataclass(frozen=True)
class _Sizes:
    vocab_size: int
    length: int
    label: str | None = None


def from_json(cls: type[T], values: object, where: str) -> T:
    """A dataclass from a JSON object; a wrong name or type is a UserError that says where."""
    if not isinstance(values, Mapping):
        raise UserError(f"{where}: expected an object, not {values!r}.")
    hints = get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            raise UserError(f"{where}: {unknown('field', name, fields)}")
    for name, field in fields.items():
        if name in values and not _fits(values[name], hints[name]):
            raise UserError(f"{where}: {name} must be {_spell(hints[name])}, not {values[name]!r}.")
        if name not in values and field.default is field.default_factory is dataclasses.MISSING:
            raise UserError(f"{where}: {name} is missing.")
    return cls(**values)


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing; {path.parent} is not a checkpoint.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid JSON ({error}).") from None


def _fits(value: object, hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return any(_fits(value, option) for option in get_args(hint))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
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
