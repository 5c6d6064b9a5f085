"""The command line: one module per subcommand."""

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from candi.errors import UserError, unknown
from candi.plugins import load_plugin

COMMANDS = {
    "train": "train a model, or continue a run",
    "train-classifier": "train a classifier that can guide a run",
    "sample": "write samples of a trained model",
    "demo": "open a page to play with, on this machine alone",
    "trace": "write a page that plays one walk from noise to text",
    "models": "the models that ship, and what they were made of",
    "export": "pack a run to be shared: small weights, a model card",
    "guide": "generate molecules that a classifier likes",
    "evaluate": "bits per token of a text under a model, or the quality of its samples",
    "frontier": "compare runs by whole frontiers of diversity and quality",
    "reproduce": "run an experiment of the paper from data to figure",
    "bench": "how fast training, sampling and guidance are here",
    "analyse": "token identifiability: figures, and what a run's noise does",
}

_FULL = (errno.ENOSPC, errno.EDQUOT)  # can happen wherever something is written


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a subcommand. A user's mistake is one sentence on standard error and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        _run(_with_plugins(arguments))
        sys.stdout.flush()  # what cannot be written is told here, not after the end
    except UserError as error:
        print(f"candi: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("candi: interrupted.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of a pipe has left, for example head
        _close_output()
        sys.exit(141)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        where = f" ({error.filename})" if error.filename else ""
        print(f"candi: The disk is full{where}; make room and run the same command again.", file=sys.stderr)
        _close_output()
        sys.exit(2)


def _close_output() -> None:
    """Nobody takes what is still waiting to be written."""
    out = sys.__stdout__
    if out is not None and sys.stdout is out:
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


def _with_plugins(arguments: Sequence[str]) -> list[str]:
    """Run each --plugin FILE.py, which may register methods, and leave the other arguments."""
    rest, places = [], iter(arguments)
    for argument in places:
        name, equals, value = argument.partition("=")
        if name != "--plugin":
            rest.append(argument)
            continue
        load_plugin(value if equals else next(places, ""))
    return rest


def _run(arguments: Sequence[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        lines = [f"  {name:<18}{what}" for name, what in COMMANDS.items()]
        print("usage: candi COMMAND [options]\n\nDiffusion on discrete data.\n\ncommands:", *lines, sep="\n")
        print("\ncandi COMMAND --help tells the options of a command.")
        print("--plugin FILE.py makes methods of your own known to any of them.")
        return
    if arguments[0] == "--version":
        from candi import __version__

        print(f"candi {__version__}")
        return
    if arguments[0] not in COMMANDS:
        raise unknown("command", arguments[0], COMMANDS)
    import_module(f"candi.cli.{arguments[0].replace('-', '_')}").run(arguments[1:])
