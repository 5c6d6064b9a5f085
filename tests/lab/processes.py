"""The command in processes of its own, which begin in no time: a server has imported everything."""

import os
import sys
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from candi_lab.cli import main

_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(["candi_lab.cli.reproduce", "tests.lab.processes"])


def start(arguments: list[str], log: Path) -> BaseProcess:
    """Its output goes to a file; the exit code is that of the command."""
    process = _CONTEXT.Process(target=_run, args=(arguments, log))
    process.start()
    return process


def _run(arguments: list[str], log: Path) -> None:
    with log.open("w") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    main(arguments)
