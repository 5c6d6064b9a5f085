"""What every command line of ours does: find the subcommand, tell a mistake in one sentence."""

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from keyword import iskeyword

from candi.base.errors import UserError, unknown
from candi.base.plugins import load_plugin
from candi.base.terminal import print_anything, visible
from candi.base.version import __version__

_FULL = (errno.ENOSPC, errno.EDQUOT)  # can happen wherever something is written


@dataclass(frozen=True)
class Program:
    """A command with subcommands, each a module of `package` with a function `run(arguments)`.

    `moved` says what to do in the place of subcommands that there were once.
    """

    name: str
    about: str
    package: str
    commands: Mapping[str, str]
    moved: Mapping[str, str] = field(default_factory=dict)

    def main(self, arguments: Sequence[str] | None = None) -> None:
        """Run a subcommand. A user's mistake is one sentence on standard error and exit code 2."""
        arguments = sys.argv[1:] if arguments is None else list(arguments)
        print_anything()
        try:
            self._run(arguments)
            sys.stdout.flush()  # a failure to write shows here, not after the end
        except UserError as error:
            print(f"{self.name}: {visible(str(error))}", file=sys.stderr)
            sys.exit(2)
        except KeyboardInterrupt:
            print(f"{self.name}: interrupted.", file=sys.stderr)
            sys.exit(130)
        except BrokenPipeError:  # the reader of a pipe has left, for example head
            _close_output()
            sys.exit(141)
        except MemoryError:
            print(f"{self.name}: There is not enough memory for what was asked; ask for less.", file=sys.stderr)
            sys.exit(2)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            where = f" ({error.filename})" if error.filename else ""
            print(f"{self.name}: The disk is full{where}; make room and run the same command again.", file=sys.stderr)
            _close_output()
            sys.exit(2)

    def _run(self, given: Sequence[str]) -> None:
        arguments, plugins = _plugins(given)
        if not arguments or arguments[0] in ("-h", "--help"):
            lines = [f"  {name:<18}{what}" for name, what in self.commands.items()]
            print(f"usage: {self.name} COMMAND [options]\n\n{self.about}\n\ncommands:", *lines, sep="\n")
            print(f"\n{self.name} COMMAND --help lists the options of a command.")
            print("--plugin FILE.py makes methods and trunks of your own known to any of them.")
            return
        name = arguments[0]
        if name == "--version":
            print(f"candi {__version__}")
        elif name in self.moved:
            raise UserError(self.moved[name])
        elif name not in self.commands:
            raise unknown("command", name, self.commands)
        else:
            if not {"-h", "--help"} & set(arguments):
                self._say_loading(name)
            for path in plugins:
                load_plugin(path)
            module = name.replace("-", "_") + "_" * iskeyword(name)  # import_.py
            import_module(f"{self.package}.{module}").run(arguments[1:])

    def _say_loading(self, name: str) -> None:
        """Before what takes seconds; one of several processes says it for all."""
        if "torch" not in sys.modules and os.environ.get("LOCAL_RANK", "0") == "0":
            print(f"{self.name} {name}: loading PyTorch ...", file=sys.stderr, flush=True)


def _close_output() -> None:
    """Drop what is still waiting to be written: nobody takes it."""
    out = sys.__stdout__
    if out is not None and sys.stdout is out:
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


def _plugins(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments without each --plugin FILE.py, which may register methods and trunks, and these files."""
    rest, files, others = [], [], iter(arguments)
    for argument in others:
        name, equals, value = argument.partition("=")
        if name == "--plugin":
            files.append(value if equals else next(others, ""))
        else:
            rest.append(argument)
    return rest, files
