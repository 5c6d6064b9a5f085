"""How fast data becomes tokens, by cores and kind of file, and how much memory that takes, by the size of the data.

Each measurement is the command as a person types it, in a process of its own, from its start to its end.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from candi.base.errors import UserError
from candi.base.machine import machine
from candi.data.corpus import PYDOC, Corpus
from candi.data.tokenizer import Tokenizer
from candi_lab.bench.report import Report

_DOCUMENT = 5000  # characters, as of a page of the web
CORPORA = {"OpenWebText": 38.0, "FineWeb-10BT": 45.0}  # GB of text


@dataclass(frozen=True)
class PrepareSettings:
    """What is prepared.

    Args:
        out: JSON file for the results.
        megabytes: Size of the data where kinds of files and cores are compared.
        sizes: Sizes in megabytes at which the peak of memory is measured, divided by commas.
        cores: Numbers of cores, divided by commas.
        vocab_size: Tokens of the byte-level BPE, which is trained on the text beforehand.
        shared: Say in the results that others used the machine too.
    """

    out: Path
    megabytes: int = 100
    sizes: str = "50,200,800"
    cores: str = "1,2"
    vocab_size: int = 8192
    shared: bool = False

    def __post_init__(self) -> None:
        if not all(word.strip().isdecimal() and int(word) for word in f"{self.sizes},{self.cores}".split(",")):
            raise UserError("--sizes and --cores are whole numbers above 0, divided by commas.")
        if self.megabytes < 1:
            raise UserError(f"--megabytes must be at least 1, not {self.megabytes}.")
        if self.out.is_dir():
            raise UserError(f"{self.out} is a folder; --out is the JSON file to write.")


def bench_prepare(settings: PrepareSettings) -> Report:
    """Plain text by cores, other kinds of files, and plain text by size."""
    cores = [int(word) for word in settings.cores.split(",")]
    about = {"vocab_size": settings.vocab_size, "megabytes": settings.megabytes, "shared": settings.shared}
    report = Report(settings.out, machine(torch.device("cpu")), about)
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        tokenizer = Tokenizer.train_bpe(Corpus(PYDOC).pieces(), settings.vocab_size)
        (here / "tokenizer.json").write_text(tokenizer.json, encoding="utf-8")
        for kind in ("txt", "jsonl", "parquet"):
            data = _written(here / f"data.{kind}", settings.megabytes)
            for some in cores:
                _measure(report, here, data, kind, settings.megabytes, some)
            data.unlink()
        for size in map(int, settings.sizes.split(",")):
            data = _written(here / "data.txt", size)
            _measure(report, here, data, "txt, by size", size, max(cores))
            data.unlink()
    _extrapolate(report, max(cores))
    return report


def _measure(report: Report, here: Path, data: Path, kind: str, megabytes: int, cores: int) -> None:
    """A row: seconds, rate and peak of the command on so many cores."""
    out = here / "store"
    command = [sys.executable, "-m", "candi", "prepare", "--data", str(data), "--out", str(out)]
    environment = os.environ | {"CANDI_CACHE": str(here / "cache"), "RAYON_NUM_THREADS": str(cores)}
    allowed = set(sorted(os.sched_getaffinity(0))[:cores])
    begun = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--tokenizer", str(here / "tokenizer.json")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=environment, preexec_fn=lambda: os.sched_setaffinity(0, allowed),
    )  # fmt: skip
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begun
    if process.returncode:
        raise UserError(f"candi prepare failed on {data.name}; run it by hand to see why.")
    stored = list(out.glob("*.safetensors"))
    row = {
        "what": kind,
        "megabytes": megabytes,
        "cores": cores,
        "seconds": round(seconds, 2),
        "mb_per_second": round(megabytes / seconds, 2),
        "peak_gb": round(usage.ru_maxrss * 1024 / 1e9, 3),
        "stored_mb": round(sum(path.stat().st_size for path in stored) / 1e6, 1),
    }
    for path in out.iterdir():
        path.unlink()
    report.rows.append(row)
    report.console.print(
        f"{kind:<14} {megabytes:>5} MB {cores:>3} cores {seconds:>8.1f} s {row['mb_per_second']:>7} MB/s "
        f"{row['peak_gb']:>6} GB",
        soft_wrap=True,
    )
    report.write()


def _extrapolate(report: Report, cores: int) -> None:
    """What corpora of the web would take at the rate of JSON lines on most cores."""
    row = next(row for row in report.rows if row["what"] == "jsonl" and row["cores"] == cores)
    for name, size in CORPORA.items():
        report.find(f"{name} ({size:.0f} GB of text), hours on {cores} cores", 1e3 * size / row["mb_per_second"] / 3600)
        report.find(f"{name}, GB on disk", size * row["stored_mb"] / row["megabytes"])
    by_size = [row["peak_gb"] for row in report.rows if row["what"] == "txt, by size"]
    report.find("peak of memory, largest data / smallest data", by_size[-1] / by_size[0])


def _written(path: Path, megabytes: int) -> Path:
    """Documents of lines of Python's manual in a random order."""
    if path.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        with parquet.ParquetWriter(path, pyarrow.schema([("text", pyarrow.string())])) as file:
            batch = list[str]()
            for text in _documents(megabytes):
                batch.append(text)
                if len(batch) == 1000:
                    file.write_table(pyarrow.table({"text": batch}))
                    batch = []
            if batch:
                file.write_table(pyarrow.table({"text": batch}))
        return path
    with path.open("w", encoding="utf-8") as out:
        for text in _documents(megabytes):
            out.write(json.dumps({"text": text}) + "\n" if path.suffix == ".jsonl" else text)
    return path


def _documents(megabytes: int) -> Iterator[str]:
    lines = np.array("".join(piece.text for piece in Corpus(PYDOC).pieces()).splitlines(keepends=True), object)
    random, size = np.random.default_rng(0), 0
    some = _DOCUMENT // max(1, sum(map(len, lines)) // len(lines))
    while size < 10**6 * megabytes:
        text = "".join(lines[random.integers(len(lines), size=some)])
        size += len(text)
        yield text
