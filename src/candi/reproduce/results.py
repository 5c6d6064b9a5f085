"""What is kept of an experiment: its points, a ledger, its judges, and samples that wait to be measured."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from candi.data.molecules import HAS_RDKIT
from candi.evaluation.card import Point
from candi.evaluation.measures import measure_named
from candi.evaluation.samples import Samples
from candi.evaluation.sweep import Sweep
from candi.evaluation.table import Line, measured, read_lines, write_lines
from candi.files import write_text
from candi.reproduce.declared import JUDGES, LEDGER, Grid
from candi.reproduce.experiment import Experiment
from candi.reproduce.ledger import Ledger


@dataclass(frozen=True)
class Results:
    """The folder that an experiment leaves behind, and that lets another machine go on with it."""

    experiment: Experiment
    folder: Path

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folder / f"{LEDGER}.jsonl")

    def points(self, sweep: str) -> Path:
        return self.folder / f"{sweep}.jsonl"

    def aside(self, sweep: str, run: str) -> Path:
        """Samples of a run that were made where they could not be measured."""
        return self.folder / f"{sweep}.{run}.samples.jsonl"

    def judge(self, run: str) -> Path:
        """A run that judges others, packed: wherever the experiment goes on, it is judged by the same one."""
        return self.folder / JUDGES / run

    def record(self, stage: str, run: str, plan: str, **values: Any) -> None:
        with self._writing():
            self.ledger.write(stage, run, plan, **values)

    def missing(self, run: str, data: str) -> list[str]:
        """The sweeps of a run that are still to be done."""
        plans = {name: self.experiment.sweep_plan(run, name, data) for name in self.experiment.grids_of(run)}
        return [name for name, plan in plans.items() if not self._done(name, run, plan)]

    def _done(self, name: str, run: str, plan: str) -> bool:
        """Measured, or made and set aside to be measured; and what came of it is still there."""
        if self.ledger.done(f"samples {name}", run, plan) and self.aside(name, run).exists():
            return True
        entry, file = self.ledger.find(f"sweep {name}", run), self.points(name)
        if entry is None or entry["plan"] != plan or not file.exists():
            return False
        return sum(line["card"]["run"] == run for line in read_lines(file)) == entry["points"]

    def keep(self, run: str, name: str, lines: Sequence[Line]) -> None:
        """The points of a run in the place of those it had before."""
        file, order = self.points(name), list(self.experiment.runs)
        with self._writing():
            others = [line for line in read_lines(file) if line["card"]["run"] != run] if file.exists() else []
            kept = [*others, *(self._slim(line) for line in lines)]
            write_lines(file, sorted(kept, key=lambda line: _place(order, line)))

    def set_aside(self, run: str, name: str, sweeps: Sequence[Sweep]) -> None:
        files = [sweep.sample_file(point) for sweep in sweeps for _, point in sweep.points]
        records = [vars(Samples.read(file)) for file in files]
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.aside(name, run), "".join(json.dumps(one) + "\n" for one in records))

    def measure(self) -> None:
        """What was set aside, where there is RDKit."""
        for name, grid in self.experiment.grids.items() if HAS_RDKIT else ():
            for run in (run for run in grid.runs if self.aside(name, run).exists()):
                with FileLock(self.folder / ".measuring"):
                    self._measure(run, name, grid)

    def _measure(self, run: str, name: str, grid: Grid) -> None:
        file, entry = self.aside(name, run), self.ledger.find(f"samples {name}", run)
        if not file.exists() or entry is None:  # another command was faster
            return
        say(f"{run}: measuring what was made elsewhere, {grid.title}")
        samples = [Samples(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
        lines = [measured(Point.of(one.card), one, {}, measured_property=grid.property) for one in samples]
        self.keep(run, name, lines)
        done = {key: value for key, value in entry.items() if key not in ("stage", "run", "plan")}
        self.record(f"sweep {name}", run, entry["plan"], **done)
        file.unlink()

    def _slim(self, line: Line) -> Line:
        """A point with those columns that the bands of the figure are made of."""
        axes = self.experiment.axes
        measures = measure_named(axes.diversity, True), measure_named(axes.quality, False)
        needed = {column for measure in measures for column in (measure.above, measure.below)}
        columns = {name: values for name, values in line["columns"].items() if name in needed}
        return {**line, "columns": {name: [_short(value) for value in values] for name, values in columns.items()}}

    def _writing(self) -> FileLock:
        """Held while a file is read and written anew."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.folder / ".lock")


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def _short(value: float) -> float:
    """Five digits: points of a thousand samples are many numbers, and their bands are far wider."""
    return int(value) if float(value).is_integer() else float(f"{value:.5g}")


def _place(order: Sequence[str], line: Line) -> int:
    run = line["card"]["run"]
    return order.index(run) if run in order else len(order)
