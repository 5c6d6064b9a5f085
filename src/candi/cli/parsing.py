"""Flags and configuration files, with every mistake as one sentence."""

import argparse
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from jsonargparse import ArgumentParser, Namespace

from candi.errors import UserError


def parser(command: str, needs: str, description: str) -> ArgumentParser:
    prog = f"candi {command}"
    return ArgumentParser(
        prog=prog,
        usage=f"{prog} {needs} [options]",
        description=description,
        exit_on_error=False,
        formatter_class=_Help,
    )


def parse(flags: ArgumentParser, arguments: Sequence[str]) -> Namespace:
    _check_names(flags, arguments)
    try:
        return flags.parse_args(list(arguments))
    except argparse.ArgumentError as error:
        raise UserError(f"{_one_sentence(flags, error.message or str(error))} See {flags.prog} --help.") from None


def build(flags: ArgumentParser, given: Namespace, groups: Iterable[str]) -> Namespace:
    """Groups of settings as the objects they describe."""
    for name in groups:
        if name in given and not isinstance(given[name], Namespace):
            raise UserError(f"{name!r} is a group of settings, not {given[name]!r}. See {flags.prog} --help.")
    return flags.instantiate_classes(given)


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """A column wide enough for most names; short placeholders; no word of defaults that are none."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=112)

    def _get_default_metavar_for_optional(self, action: argparse.Action) -> str:
        return action.dest.rpartition(".")[2].upper()

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default is None else super()._get_help_string(action)


def _check_names(flags: ArgumentParser, arguments: Sequence[str]) -> None:
    for argument in arguments:
        name = argument.partition("=")[0]
        if re.fullmatch(r"--[A-Za-z][\w.+-]*", name) and name.removesuffix("+") not in _names(flags):
            raise UserError(f"There is no option {name}; {_nearest(flags, name)}")


def _names(flags: ArgumentParser) -> list[str]:
    return [option for action in flags._actions for option in action.option_strings]


def _nearest(flags: ArgumentParser, name: str) -> str:
    near = get_close_matches(name, _names(flags), n=1, cutoff=0.5)
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
