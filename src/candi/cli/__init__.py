"""The command line: one module per subcommand."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from candi.errors import UserError, unknown

COMMANDS = {
    "train": "train a model, or continue a run",
    "sample": "write samples of a trained model",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a subcommand. A user's mistake is one sentence on standard error and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        _run(arguments)
    except UserError as error:
        print(f"candi: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("candi: interrupted.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of a pipe has left, for example head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _run(arguments: Sequence[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        lines = [f"  {name:<10}{what}" for name, what in COMMANDS.items()]
        print("usage: candi COMMAND [options]\n\nDiffusion on discrete data.\n\ncommands:", *lines, sep="\n")
        print("\ncandi COMMAND --help tells the options of a command.")
        return
    if arguments[0] == "--version":
        from candi import __version__

        print(f"candi {__version__}")
        return
    if arguments[0] not in COMMANDS:
        raise unknown("command", arguments[0], COMMANDS)
    import_module(f"candi.cli.{arguments[0]}").run(arguments[1:])
