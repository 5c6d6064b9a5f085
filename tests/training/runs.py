"""Small training runs for tests."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from candi.cli import main
from candi.cli.train import settings
from candi.training.fit import train

STEPS = 60
FLAGS = {
    "preset": "tiny",
    "data": "pydoc",
    "steps": STEPS,
    "checkpoint_every": 10,
    "log_every": 4,
    "validate_every": 20,
    "validate_windows": 4,
    "sample_every": 0,
    "length": 16,
    "batch_size": 4,
    "device": "cpu",
    "model.width": 16,
    "model.blocks": 1,
}


def flags(out: Path, **changes: Any) -> list[str]:
    values = FLAGS | {name.replace("__", "."): value for name, value in changes.items()} | {"out": out}
    return [f"--{name}={value}" for name, value in values.items()]


def train_here(out: Path, **changes: Any) -> Path:
    return train(settings(flags(out, **changes)))


class Forked:
    """A command in a process of its own that begins where this one is: what was imported need not be imported again."""

    def __init__(self, arguments: list[str], before: str = "") -> None:
        self.returncode: int | None = None
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - read when it has ended
        self.pid = os.fork()
        if self.pid == 0:
            self._child(arguments, before)

    def _child(self, arguments: list[str], before: str) -> None:
        code = 1
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)
            os.dup2(self._errors.fileno(), 2)  # what libraries write without Python
            sys.stderr = open(os.dup(self._errors.fileno()), "w", encoding="utf-8", buffering=1)  # noqa: SIM115
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
            exec(before, {})
            main(arguments)
            code = 0
        except SystemExit as error:
            code = int(error.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def poll(self) -> int | None:
        if self.returncode is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        if self.poll() is None:
            self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = 120) -> tuple[str, str]:
        begun = time.monotonic()
        while self.poll() is None:
            assert time.monotonic() - begun < timeout, "it does not end"
            time.sleep(0.01)
        self._errors.seek(0)
        return "", self._errors.read()


def start(out: Path, before: str = "", **changes: Any) -> Forked:
    """The command in a process of its own; `before` is Python run first."""
    return Forked(["train", *flags(out, **changes)], before)


def start_anew(out: Path, **changes: Any) -> "subprocess.Popen[str]":
    """The real command, from its first import."""
    command = [sys.executable, "-m", "candi", "train", *flags(out, **changes)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(process: "Forked | subprocess.Popen[str]") -> str:
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return errors


def losses(out: Path) -> list[list[str]]:
    """step, loss, valid_loss, learning_rate, gradient_norm: all columns that do not tell the time."""
    return [line.split(",")[:5] for line in (out / "metrics.csv").read_text().splitlines()]


def tensors(checkpoint: Path) -> dict[str, bytes]:
    """The two files with all weights and moments, bit for bit."""
    return {name: (checkpoint / name).read_bytes() for name in ("model.safetensors", "training.safetensors")}
