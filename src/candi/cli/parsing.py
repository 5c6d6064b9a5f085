"""Flags and configuration files, with every mistake as one sentence."""

import argparse
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import yaml
from jsonargparse import ArgumentParser, Namespace, get_loader, set_loader

from candi.base.errors import UserError
from candi.base.yaml_text import check_yaml

_OPTION = re.compile(r"--[A-Za-z][\w.+-]*")
_yaml = get_loader("yaml")


def _checked_yaml(text: str) -> Any:
    """As jsonargparse reads values and files, but for what would grow without end."""
    check_yaml(text)
    try:
        return _yaml(text)
    except ValueError:  # Python reads no number of more than some thousand digits
        raise yaml.YAMLError("it holds a number that is too long to be read") from None


set_loader("yaml", _checked_yaml, (yaml.YAMLError,))


def parser(command: str, needs: str, description: str, program: str = "candi") -> ArgumentParser:
    prog = f"{program} {command}"
    return ArgumentParser(
        prog=prog,
        usage=f"{prog} {needs} [options]",
        description=description,
        exit_on_error=False,
        formatter_class=_Help,
    )


def flag(flags: ArgumentParser, name: str, help: str) -> None:
    """A switch: --name, or --name true|false."""
    flags.add_argument(f"--{name}", type=bool, default=False, nargs="?", const=True, help=help)


def add_device(flags: ArgumentParser, more: str = "") -> None:
    flags.add_argument("--device", type=str, default="auto", help=f"auto, cpu or cuda{more}.")


def parse(flags: ArgumentParser, arguments: Sequence[str]) -> Namespace:
    """Hyphens and underscores are both understood in the names of options; a switch alone means true."""
    spelled = [_spelled(flags, argument) for argument in arguments]
    switches = {option for action in flags._actions if _is_switch(action) for option in action.option_strings}
    following = [*spelled[1:], "--"]
    complete = [
        f"{argument}=true" if argument in switches and following_.startswith("--") else argument
        for argument, following_ in zip(spelled, following, strict=False)
    ]
    try:
        return flags.parse_args(complete)
    except argparse.ArgumentError as error:
        raise UserError(f"{_one_sentence(flags, error.message or str(error))} See {flags.prog} --help.") from None
    except RecursionError:
        raise UserError(f"An option is nested too deeply to be read. See {flags.prog} --help.") from None


def build(flags: ArgumentParser, given: Namespace, groups: Iterable[str]) -> Namespace:
    """Groups of settings as the objects they describe."""
    for name in groups:
        if name in given and not isinstance(given[name], Namespace):
            raise UserError(f"{name!r} is a group of settings, not {given[name]!r}. See {flags.prog} --help.")
    return flags.instantiate_classes(given)


def listed(text: str | None) -> list[str]:
    """a,b,c."""
    return text.split(",") if text else []


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """A column wide enough for most names; short placeholders; hyphens; no default where there is none."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=112)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        shown = super()._format_action_invocation(action)
        return _OPTION.sub(lambda found: hyphenated(found[0]), shown)

    def _get_default_metavar_for_optional(self, action: argparse.Action) -> str:
        return action.dest.rpartition(".")[2].upper()

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default is None else super()._get_help_string(action)


def hyphenated(option: str) -> str:
    """--batch_size as people write it."""
    return option.replace("_", "-")


def _spelled(flags: ArgumentParser, argument: str) -> Any:
    """An option by the name that its parser has."""
    name, equals, value = argument.partition("=")
    if not _OPTION.fullmatch(name):
        return argument
    known = {hyphenated(option): option for option in _names(flags)}
    plus = "+" if name.endswith("+") else ""
    found = known.get(hyphenated(name.removesuffix("+")))
    if found is None:
        raise UserError(f"There is no option {name}; {_nearest(flags, name)}")
    return found + plus + equals + value


def _is_switch(action: argparse.Action) -> bool:
    return getattr(action, "_typehint", None) in (bool, bool | None)


def _names(flags: ArgumentParser) -> list[str]:
    return [option for action in flags._actions for option in action.option_strings]


def _nearest(flags: ArgumentParser, name: str) -> str:
    known = [hyphenated(option) for option in _names(flags)]
    near = get_close_matches(hyphenated(name), known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"{flags.prog} --help lists the options."


def _one_sentence(flags: ArgumentParser, message: str) -> str:
    """jsonargparse explains over several lines; the first ones say what is wrong."""
    lines = [line.strip(" -") for line in message.splitlines() if line.strip(" -")]
    text = " ".join(lines[:3]).replace("Parser key ", "Option ")
    text = re.sub(r"Expected a <class '(\w+)'>", r"Expected a value of type \1", text)
    text = re.sub(r"Expected a typing\.Literal\[(.*?)\]", r"Expected one of \1", text)
    if stray := re.fullmatch(r"Option '([\w.]+)' is not accepted", text):
        return f"There is no option {stray[1]!r}; {_nearest(flags, '--' + stray[1])}"
    return text.rstrip(".") + "."
