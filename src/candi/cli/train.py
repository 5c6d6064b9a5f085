"""candi train"""

import dataclasses
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from jsonargparse import ArgumentParser

from candi.cli.parsing import build, parse, parser
from candi.errors import UserError, unknown
from candi.methods import METHODS
from candi.training.estimate import estimate
from candi.training.loop import train
from candi.training.settings import TrainSettings

_PRESETS = files("candi") / "presets"


def run(arguments: Sequence[str]) -> None:
    asked, only_estimated = _asked(arguments)
    (estimate if only_estimated else train)(asked)


def settings(arguments: Sequence[str]) -> TrainSettings:
    """A preset, then configuration files, then flags: the later wins."""
    return _asked(arguments)[0]


def _asked(arguments: Sequence[str]) -> tuple[TrainSettings, bool]:
    preset = _preset(arguments)
    flags = _parser()
    given = parse(flags, [f"--config={preset}", *arguments] if preset else arguments)
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


def _parser() -> ArgumentParser:
    flags = parser("train", "--data TEXT --out FOLDER", "Train a model, or continue the run in --out.")
    flags.add_argument("--preset", type=str, default=None, help=f"Settings by name: {', '.join(sorted(presets()))}.")
    flags.add_argument("--estimate", type=bool, default=False, nargs="?", const=True, help="Tell what the run will "
                       "need (memory, time, disk) from a few steps, and train nothing.")  # fmt: skip
    flags.add_argument("--config", action="config", help="Settings from a YAML file.")
    flags.add_class_arguments(TrainSettings, skip={"settings"})
    for name, method in METHODS.items():
        flags.add_class_arguments(method, name)
    return flags


def _preset(arguments: Sequence[str]) -> Path | None:
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == "--preset":
            value = value if equals else next(iter(arguments[index + 1 : index + 2]), "")
            if value not in presets():
                raise unknown("preset", value, presets())
            return presets()[value]
    return None


def _refuse_idle_flags(arguments: Sequence[str], method: str) -> None:
    for argument in arguments:
        group, dot, _ = argument.removeprefix("--").partition(".")
        if argument.startswith("--") and dot and group in METHODS and group != method:
            raise UserError(f"{argument.partition('=')[0]} has no effect with --method {method}; leave it out.")
