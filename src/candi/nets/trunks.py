"""The registry of trunks: ours, and those of users, by name, entry point or import path."""

import dataclasses
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import Any, get_type_hints

from candi.base.config import is_plain
from candi.base.errors import UserError, unknown
from candi.nets.dit import DiTSettings
from candi.nets.transformers_trunk import TransformersSettings
from candi.nets.trunk import Trunk, TrunkSettings

TRUNKS: dict[str, type[TrunkSettings]] = {"dit": DiTSettings, "transformers": TransformersSettings}
_GROUP = "candi.trunks"  # the entry points of packages that bring trunks


def register_trunk(name: str, trunk: type[TrunkSettings] | type[Trunk]) -> None:
    """Make a trunk known under a name, to every command: a Trunk, or the settings that build one."""
    if name in TRUNKS:
        raise UserError(f"There is a trunk {name!r} already; choose another name.")
    TRUNKS[name] = _as_settings(trunk, name)


def trunk_settings(name: str) -> type[TrunkSettings]:
    """The settings of a trunk: dit, a registered name, an entry point, or package.module:Class."""
    if name in TRUNKS:
        return TRUNKS[name]
    if ":" in name:
        return _imported(name)
    return _installed(name)


@cache
def _installed(name: str) -> type[TrunkSettings]:
    points = {point.name: point for point in entry_points(group=_GROUP)}
    if name not in points:
        raise unknown("trunk", name, [*TRUNKS, *points])
    return _as_settings(points[name].load(), name)


@cache
def _imported(path: str) -> type[TrunkSettings]:
    module, _, attribute = path.partition(":")
    if os.getcwd() not in sys.path:  # the console script does not look where it is run
        sys.path.append(os.getcwd())
    try:
        found = vars(importlib.import_module(module))[attribute]
    except (ImportError, KeyError) as error:
        raise UserError(
            f"The trunk {path!r} cannot be imported ({type(error).__name__}: {error}); write it as "
            "package.module:Class of a package that is installed or lies in this folder."
        ) from None
    return _as_settings(found, path)


def _as_settings(found: Any, name: str) -> type[TrunkSettings]:
    if inspect.isclass(found) and issubclass(found, TrunkSettings):
        return found
    if inspect.isclass(found) and issubclass(found, Trunk):
        return _settings_of(found, name)
    raise UserError(f"{name!r} is no trunk; it must be a subclass of candi.Trunk, or of candi.TrunkSettings.")


def _settings_of(trunk: type[Trunk], name: str) -> type[TrunkSettings]:
    """Settings whose fields are the arguments of a trunk's constructor; `causal` comes from the method."""
    hints, parameters = get_type_hints(trunk.__init__), inspect.signature(trunk).parameters
    bare = next((p.name for p in parameters.values() if p.name not in hints or p.default is p.empty), None)
    if bare is not None or "width" not in parameters:
        raise UserError(
            f"The trunk {name!r} needs arguments with a type and a default each, `width` among them; "
            f"see {bare or 'width'!r}."
        )
    strange = next((name for name in parameters if not is_plain(hints[name])), None)
    if strange is not None:
        raise UserError(
            f"The argument {strange!r} of the trunk {name!r} cannot be kept in config.json; use numbers, texts, "
            "booleans, None and lists of them."
        )
    fields = [(p.name, hints[p.name], dataclasses.field(default=p.default)) for p in parameters.values()]

    def build(self: Any, causal: bool) -> Trunk:
        if causal and "causal" not in parameters:
            raise UserError(f"The trunk {name!r} is not causal, which the method needs; give it an argument `causal`.")
        values = {field.name: vars(self)[field.name] for field in dataclasses.fields(self)}
        return trunk(**values, **({"causal": causal} if "causal" in parameters else {}))

    made: Callable[..., type[TrunkSettings]] = dataclasses.make_dataclass
    return made(
        f"{trunk.__name__}Settings", [one for one in fields if one[0] != "causal"], bases=(TrunkSettings,), frozen=True,
        namespace={"build": build, "__doc__": trunk.__doc__ or trunk.__name__},
    )  # fmt: skip
