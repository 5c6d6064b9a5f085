"""Small training runs for tests."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from candi.cli.train import settings
from candi.training.loop import train

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
    "batch": 4,
    "accelerator": "cpu",
    "model.width": 16,
    "model.blocks": 1,
}


def flags(out: Path, **changes: Any) -> list[str]:
    values = FLAGS | {name.replace("__", "."): value for name, value in changes.items()} | {"out": out}
    return [f"--{name}={value}" for name, value in values.items()]


def train_here(out: Path, **changes: Any) -> Path:
    return train(settings(flags(out, **changes)))


def start(out: Path, before: str = "", **changes: Any) -> "subprocess.Popen[str]":
    """The real command in a process of its own; `before` is Python run first."""
    script = f"{before}\nimport sys; from candi.cli import main; main(['train', *sys.argv[1:]])"
    command = ["-c", script] if before else ["-m", "candi", "train"]
    return subprocess.Popen(
        [sys.executable, *command, *flags(out, **changes)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> str:
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return errors


def losses(out: Path) -> list[list[str]]:
    """step, loss, valid_loss, learning_rate, gradient_norm: all columns that do not tell the time."""
    return [line.split(",")[:5] for line in (out / "metrics.csv").read_text().splitlines()]


def tensors(checkpoint: Path) -> dict[str, bytes]:
    """The two files with all weights and moments, bit for bit."""
    return {name: (checkpoint / name).read_bytes() for name in ("model.safetensors", "training.safetensors")}
