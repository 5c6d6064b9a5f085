"""The folder of a run: who it belongs to, what it was started with, its metrics and samples."""

import csv
import importlib.util
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from filelock import FileLock, Timeout

from candi.config import read_json
from candi.data.corpus import Corpus
from candi.errors import UserError
from candi.files import write_text
from candi.machine import machine
from candi.training.devices import accelerator
from candi.training.settings import TrainSettings

SETTINGS, TOKENIZER, CHECKPOINTS = "run.json", "tokenizer.json", "checkpoints"
_COLUMNS = ("step", "loss", "valid_loss", "learning_rate", "gradient_norm", "tokens_per_second", "seconds")


class Run:
    """A run's folder, held by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkpoints = folder / CHECKPOINTS
        self._record = folder / SETTINGS
        self._lock: FileLock | None = None

    def check(self, settings: TrainSettings, corpus: Corpus) -> None:
        """That this is a place for a new run, or the same run again."""
        if self.folder.exists() and not self.folder.is_dir():
            raise UserError(f"{self.folder} is a file; choose another --out.")
        if self._record.exists():
            self._compare(settings, corpus.fingerprint, read_json(self._record))
        elif self.folder.exists() and any(not path.name.startswith(".") for path in self.folder.iterdir()):
            raise UserError(f"{self.folder} holds files that are not a run; choose another --out.")

    def claim(self, settings: TrainSettings, corpus: Corpus) -> None:
        """Keep other processes out, and write down what a new run is made of."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self.folder / ".lock", timeout=0)
        try:
            self._lock.acquire()
        except Timeout:
            raise UserError(f"Another process trains in {self.folder}; wait for it or choose another --out.") from None
        if not self._record.exists():
            where = machine(torch.device(accelerator(settings)))
            record = {"settings": settings.to_json(), "data": corpus.fingerprint, "machine": where}
            write_text(self._record, json.dumps(record, indent=2) + "\n")

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _compare(self, settings: TrainSettings, fingerprint: str, record: object) -> None:
        if not isinstance(record, dict) or not isinstance(record.get("settings"), dict) or "data" not in record:
            raise UserError(f"{self._record} is damaged; restore it, or choose another --out.")
        changed = settings.differences(record["settings"])
        if changed:
            raise UserError(
                f"{self.folder} is another run ({'; '.join(changed)}); repeat its command to continue it, "
                "or choose another --out."
            )
        if fingerprint != record["data"]:
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
        aside = self.path.with_suffix(".writing")
        with aside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, _COLUMNS)
            writer.writeheader()
            writer.writerows(kept)
        os.replace(aside, self.path)
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
