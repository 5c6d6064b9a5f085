"""The same experiment in several processes at once, which share its work: small runs alone leave a device idle."""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

import torch

from candi.base.errors import UserError
from candi.base.plugins import load_inherited
from candi_lab.runner.runner import Reproduction


@contextmanager
def beside(count: int, reproduction: Reproduction, only: Sequence[str]) -> Iterator[None]:
    """Runs `count` more processes of the experiment while the block runs. A signal to stop stops all of them.

    Their output goes to files beside the runs.
    """
    if not count:
        yield
        return
    context, folder = get_context("forkserver"), reproduction.work / "jobs"
    context.set_forkserver_preload([Reproduction.__module__])  # imported once for all of them
    folder.mkdir(parents=True, exist_ok=True)
    threads = max(1, torch.get_num_threads() // (count + 1))
    torch.set_num_threads(threads)
    jobs: list[BaseProcess] = []
    earlier = signal.signal(signal.SIGTERM, _interrupt)
    try:
        for number in range(2, count + 2):
            arguments = reproduction, only, folder / f"{number}.log", threads
            process = context.Process(target=_job, args=arguments)
            with _deaf():  # Ctrl-C reaches all of a terminal's processes, also those that are still starting
                process.start()
            jobs.append(process)
        yield
        for job in jobs:
            job.join()
    finally:
        try:
            for job in jobs:
                job.terminate()  # a training finishes its step and saves it
            for job in jobs:
                job.join()
        finally:
            signal.signal(signal.SIGTERM, earlier)
    for number, job in enumerate(jobs, 2):
        if job.exitcode:
            print(f"candi-lab: Process {number} ended early; see {folder / f'{number}.log'}.", file=sys.stderr)


@contextmanager
def _deaf() -> Iterator[None]:
    """Ignores SIGINT, here and in processes that begin here: SIGTERM stops those."""
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _job(reproduction: Reproduction, only: Sequence[str], log: Path, threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with log.open("a", encoding="utf-8") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    try:
        load_inherited()
        reproduction.go(only)
    except UserError as error:  # the first process reports it too
        print(f"candi-lab: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("candi-lab: interrupted.", file=sys.stderr)


def _end_with_parent() -> None:
    """Stops this process when the command that began it has gone."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
