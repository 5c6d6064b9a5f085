"""candi train"""

import dataclasses
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from jsonargparse import ArgumentParser

from candi.base.errors import UserError, unknown
from candi.base.files import need_file
from candi.base.yaml_text import read_yaml
from candi.cli.parsing import build, flag, parse, parser
from candi.data.cache import default_folder
from candi.diffusion.methods import METHODS
from candi.hub.importers import start_folder
from candi.nets.trunks import trunk_settings
from candi.training.estimate import estimate
from candi.training.fit import train
from candi.training.settings import TrainSettings

_PRESETS = files("candi") / "presets"


def run(arguments: Sequence[str]) -> None:
    asked, only_estimated = _asked(arguments)
    start = None if asked.init is None else start_folder(asked.init, asked.cache or default_folder())
    (estimate if only_estimated else train)(asked, start)


def settings(arguments: Sequence[str]) -> TrainSettings:
    """A preset, then configuration files, then flags: the later wins."""
    return _asked(arguments)[0]


def _asked(arguments: Sequence[str]) -> tuple[TrainSettings, bool]:
    preset = _preset(arguments)
    trunk = _trunk(arguments, preset)
    flags = _parser(trunk)
    given = parse(flags, [f"--config={_for_trunk(preset, trunk)}", *arguments] if preset else arguments)
    if given.method not in METHODS:
        raise unknown("method", given.method, METHODS)
    _refuse_idle_flags(arguments, given.method)
    if given.preset and preset is None:
        raise UserError("A preset is given on the command line, --preset NAME, not in a file.")
    built = build(flags, given, ("model", *METHODS))
    values = {f.name: built[f.name] for f in dataclasses.fields(TrainSettings) if f.name != "settings"}
    return TrainSettings(**values, settings=built.get(given.method)), given.estimate


def presets() -> dict[str, Path]:
    return {Path(str(path)).stem: Path(str(path)) for path in _PRESETS.iterdir() if path.name.endswith(".yaml")}


def _parser(trunk: str = "dit") -> ArgumentParser:
    flags = parser("train", "--data TEXT --out FOLDER", "Train a model, or continue the run in --out.")
    flags.add_argument("--preset", type=str, default=None, help=f"Settings by name: {', '.join(sorted(presets()))}.")
    flag(flags, "estimate", "Say what the run will need (memory, time, disk) from a few steps, and train nothing.")
    flags.add_argument("--config", action="config", help="Settings from a YAML file.")
    flags.add_class_arguments(TrainSettings, skip={"settings", "model"})
    flags.add_class_arguments(trunk_settings(trunk), "model")
    for name, method in METHODS.items():
        flags.add_class_arguments(method, name)
    return flags


def _preset(arguments: Sequence[str]) -> Path | None:
    given = _given(arguments, "--preset")
    if not given:
        return None
    if given[-1] not in presets():
        raise unknown("preset", given[-1], presets())
    return presets()[given[-1]]


def _trunk(arguments: Sequence[str], preset: Path | None) -> str:
    """The trunk's name: it decides which flags there are. The later wins, and flags before files."""
    files = [*([preset] if preset else []), *map(Path, _given(arguments, "--config"))]
    found = _given(arguments, "--trunk") or [name for file in files for name in _trunk_in(file)]
    return found[-1] if found else "dit"


def _for_trunk(preset: Path, trunk: str) -> str:
    """A preset; of one that was made for another trunk, all but the trunk's settings."""
    values = read_yaml(preset)
    if values.get("trunk", "dit") == trunk:
        return str(preset)
    return json.dumps({name: value for name, value in values.items() if name not in ("trunk", "model")})


def _trunk_in(file: Path) -> list[str]:
    need_file(file)
    try:
        values = read_yaml(file)
    except UserError:
        return []  # the parser says what is wrong with it
    return [str(values["trunk"])] if isinstance(values, dict) and "trunk" in values else []


def _given(arguments: Sequence[str], option: str) -> list[str]:
    """The values of an option before the options are parsed."""
    pairs = zip(arguments, [*arguments[1:], ""], strict=True)
    return [
        value if equals else later
        for argument, later in pairs
        for name, equals, value in [argument.partition("=")]
        if name == option
    ]


def _refuse_idle_flags(arguments: Sequence[str], method: str) -> None:
    for argument in arguments:
        group, dot, _ = argument.removeprefix("--").replace("-", "_").partition(".")
        if argument.startswith("--") and dot and group in METHODS and group != method:
            raise UserError(f"{argument.partition('=')[0]} has no effect with --method {method}; leave it out.")
