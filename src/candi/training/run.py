"""The folder of a run: which process holds it, what it was started with, its metrics and samples."""

import csv
import importlib.util
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from candi.base.config import read_json
from candi.base.errors import UserError
from candi.base.files import write_text
from candi.base.machine import machine
from candi.model.checkpoint import CHECKPOINTS

SETTINGS, TOKENIZER = "run.json", "tokenizer.json"
# What may differ when a run is continued. Everything else would make it another run.
MAY_CHANGE = {
    "out", "cache", "steps", "minutes", "micro_batch_size", "checkpoint_every", "keep", "log_every",
    "validate_every", "validate_windows", "sample_every", "samples", "sample_steps",
    "device", "devices", "nodes", "strategy", "precision", "record", "compile", "keep_activations",
    "deterministic", "sharded_checkpoints",
}  # fmt: skip
_OLD_NAMES = {"batch": "batch_size", "micro_batch": "micro_batch_size", "accelerator": "device"}  # of runs of 0.1
_COLUMNS = ("step", "loss", "valid_loss", "learning_rate", "gradient_norm", "tokens_per_second", "seconds")


@dataclass(frozen=True)
class RunRecord:
    """What makes a run this run: its settings and a hash of its data; `defaults` are of settings younger than it."""

    settings: Mapping[str, Any]
    data: str
    defaults: Mapping[str, Any]
    start: Mapping[str, str] | None = None  # source and hash of the weights that it starts from

    def differences(self, earlier: Mapping[str, Any]) -> list[str]:
        """Settings that make this another run than one with `earlier` settings."""
        earlier = {_OLD_NAMES.get(name, name): value for name, value in earlier.items()}
        now = _flat({k: v for k, v in self.settings.items() if k not in MAY_CHANGE})
        then = _flat(self.defaults) | _flat(earlier)
        then = {name: value for name, value in then.items() if name.partition(".")[0] not in MAY_CHANGE}
        return [
            f"{name} was {then.get(name)!r} and is now {now.get(name)!r}"
            for name in sorted(now.keys() | then.keys())
            if now.get(name) != then.get(name)
        ]


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def read_record(folder: Path) -> dict[str, Any]:
    """What a run was made of, its `settings` and the hash of its `data` among it."""
    file = folder / SETTINGS
    record = read_json(file)
    if not isinstance(record, dict) or not isinstance(record.get("settings"), dict) or "data" not in record:
        raise UserError(f"{file} is damaged; restore it, or choose another --out.")
    return record


class Run:
    """A run's folder, held by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkpoints = folder / CHECKPOINTS
        self._file = folder / SETTINGS
        self._lock: FileLock | None = None

    def check(self, record: RunRecord) -> None:
        """That this is a place for a new run, or the same run again."""
        if self.folder.exists() and not self.folder.is_dir():
            raise UserError(f"{self.folder} is a file; choose another --out.")
        if self._file.exists():
            self._compare(record, read_record(self.folder))
        elif self.folder.exists() and any(not path.name.startswith(".") for path in self.folder.iterdir()):
            raise UserError(f"{self.folder} holds files that are not a run; choose another --out.")

    def claim(self, record: RunRecord, device: str) -> None:
        """Keep other processes out, and write down what a new run is made of."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self.folder / ".lock", timeout=0)
        try:
            self._lock.acquire()
        except Timeout:
            raise UserError(f"Another process trains in {self.folder}; wait for it or choose another --out.") from None
        if not self._file.exists():
            where = machine(torch.device(device))
            start = {} if record.start is None else {"start": dict(record.start)}
            values = {"settings": record.settings, "data": record.data, "machine": where, **start}
            write_text(self._file, json.dumps(values, indent=2) + "\n")

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _compare(self, record: RunRecord, earlier: Mapping[str, Any]) -> None:
        changed = record.differences(earlier["settings"])
        if changed:
            raise UserError(
                f"{self.folder} is another run ({'; '.join(changed)}); repeat its command to continue it, "
                "or choose another --out."
            )
        if record.data != earlier["data"]:
            raise UserError(f"The data has changed since {self.folder} was begun; choose another --out.")

    def write_samples(self, step: int, texts: list[str]) -> None:
        folder = self.folder / "samples"
        folder.mkdir(exist_ok=True)
        write_text(folder / f"step-{step:08d}.txt", "\n\n".join(texts) + "\n")


class Metrics:
    """metrics.csv and, where it is installed, TensorBoard. Lines after the step that is continued from are dropped."""

    def __init__(self, folder: Path, step: int) -> None:
        self.path = folder / "metrics.csv"
        kept = []
        if self.path.exists():
            with self.path.open(newline="", encoding="utf-8") as file:
                kept = [row for row in csv.DictReader(file) if _step(row) <= step]
        table = io.StringIO(newline="")
        writer = csv.DictWriter(table, _COLUMNS)
        writer.writeheader()
        writer.writerows(kept)
        write_text(self.path, table.getvalue())
        self._board: Callable[[str, float, int], None] | None = None
        if importlib.util.find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
            self._board = self._writer.add_scalar

    def write(self, step: int, values: Mapping[str, float]) -> None:
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, _COLUMNS).writerow({"step": step, **values})
        if self._board is not None:
            for name, value in values.items():
                self._board(name, value, step)

    def close(self) -> None:
        if self._board is not None:
            self._writer.close()


def _step(row: Mapping[str, str | None]) -> float:
    """A line that a kill cut short counts as never written."""
    text = row.get("step") or ""
    complete = all(row.get(column) is not None for column in _COLUMNS)
    return int(text) if text.isdecimal() and complete else float("inf")
