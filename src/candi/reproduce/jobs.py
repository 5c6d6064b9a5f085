"""The same experiment in several processes at once, which share its work: small runs alone leave a device idle."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

import torch

from candi.errors import UserError
from candi.plugins import load_inherited
from candi.reproduce.reproduce import Reproduction

_LEAVE = 1.0  # seconds after which a job sees that the command which began it is gone


@contextmanager
def beside(count: int, reproduction: Reproduction, only: Sequence[str]) -> Iterator[None]:
    """While the block is at the experiment, so are `count` processes more; asked to stop, all of them stop.

    What they have to say goes to files beside the runs.
    """
    if not count:
        yield
        return
    context, folder = get_context("spawn"), reproduction.work / "jobs"
    folder.mkdir(parents=True, exist_ok=True)
    threads = max(1, torch.get_num_threads() // (count + 1))
    torch.set_num_threads(threads)
    jobs: list[BaseProcess] = []
    earlier = signal.signal(signal.SIGTERM, _interrupt)
    try:
        for number in range(2, count + 2):
            arguments = reproduction, only, folder / f"{number}.log", threads, os.getpid()
            process = context.Process(target=_job, args=arguments)
            with _deaf():  # Ctrl-C reaches all of a terminal's processes; those that are not yet up would complain
                process.start()
            jobs.append(process)
        yield
        for job in jobs:
            job.join()
    finally:
        try:
            for job in jobs:
                job.terminate()  # in training: the step is finished and saved
            for job in jobs:
                job.join()
        finally:
            signal.signal(signal.SIGTERM, earlier)
    for number, job in enumerate(jobs, 2):
        if job.exitcode:
            print(f"candi: Process {number} ended early; see {folder / f'{number}.log'}.", file=sys.stderr)


@contextmanager
def _deaf() -> Iterator[None]:
    """Without SIGINT, and so are the processes that begin here: SIGTERM stops them."""
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _job(reproduction: Reproduction, only: Sequence[str], log: Path, threads: int, parent: int) -> None:
    with log.open("a", encoding="utf-8") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(threads)
    try:
        load_inherited()
        reproduction.go(only)
    except UserError as error:  # whoever is seen tells it too
        print(f"candi: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("candi: interrupted.", file=sys.stderr)


def _leave_with(parent: int) -> None:
    """A process whose parent was killed asks itself to stop."""
    while os.getppid() == parent:
        time.sleep(_LEAVE)
    os.kill(os.getpid(), signal.SIGTERM)
