"""What is kept of an experiment: its points, a ledger, its scorer runs, and samples that wait to be measured."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from candi.base.files import write_text
from candi.data.molecules import HAS_RDKIT
from candi.evaluation.points import Point, measure_point, read_points, write_points
from candi.evaluation.samples import Samples
from candi.evaluation.sweep import Sweep
from candi_lab.runner.experiment import Experiment
from candi_lab.runner.ledger import Ledger
from candi_lab.runner.schema import LEDGER, SCORERS, Grid


@dataclass(frozen=True)
class Results:
    """The folder that an experiment leaves behind, and from which another machine continues it."""

    experiment: Experiment
    folder: Path
    rdkit: bool = HAS_RDKIT  # whether molecules can be measured here

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folder / f"{LEDGER}.jsonl")

    def points_file(self, sweep: str) -> Path:
        return self.folder / f"{sweep}.jsonl.xz"

    def points(self, sweep: str) -> list[Point]:
        file = self.points_file(sweep)
        return read_points(file) if file.exists() else []

    def planned_points(self, sweep: str) -> list[Point]:
        """Those that belong to the grid as it is now."""
        grid = self.experiment.grids[sweep]
        return [point for point in self.points(sweep) if grid.holds(point.cell, self.experiment.n)]

    def aside(self, sweep: str, run: str) -> Path:
        """Samples of a run that were made where they could not be measured."""
        return self.folder / f"{sweep}.{run}.samples.jsonl"

    def scorer(self, run: str) -> Path:
        """A scorer run, packed: every machine that continues the experiment uses the same one."""
        return self.folder / SCORERS / run

    def record(self, stage: str, run: str, plan: str, **values: Any) -> None:
        with self._writing():
            self.ledger.write(stage, run, plan, **values)

    def missing(self, run: str, data: str) -> list[str]:
        """The sweeps of a run that are still to be done."""
        plans = {name: self.experiment.sweep_plan(run, name, data) for name in self.experiment.grids_of(run)}
        return [name for name, plan in plans.items() if not self._done(name, run, plan)]

    def _done(self, name: str, run: str, plan: str) -> bool:
        """Measured, or sampled and set aside; and the points or samples are still there."""
        if self.ledger.done(f"samples {name}", run, plan) and self.aside(name, run).exists():
            return True
        entry = self.ledger.find(f"sweep {name}", run)
        if entry is None or entry["plan"] != plan:
            return False
        return bool(sum(point.cell.run == run for point in self.points(name)) == entry["points"])

    def keep(self, run: str, name: str, points: Sequence[Point]) -> None:
        """The points of a run in the place of those it had before."""
        order = list(self.experiment.runs)
        with self._writing():
            others = [point for point in self.points(name) if point.cell.run != run]
            kept = [*others, *(self._slim(point) for point in points)]
            write_points(self.points_file(name), sorted(kept, key=lambda point: _position(order, point)))

    def set_aside(self, run: str, name: str, sweeps: Sequence[Sweep]) -> None:
        files = [sweep.sample_file(cell) for sweep in sweeps for _, cell in sweep.cells]
        lines = [json.dumps(Samples.read(file).to_json()) + "\n" for file in files]
        write_text(self.aside(name, run), "".join(lines))

    def measure(self) -> None:
        """Samples that were set aside, if RDKit is here."""
        for name, grid in self.experiment.grids.items() if self.rdkit else ():
            for run in (run for run in grid.runs if self.aside(name, run).exists()):
                with FileLock(self.folder / ".lock-measuring"):
                    self._measure(run, name, grid)

    def _measure(self, run: str, name: str, grid: Grid) -> None:
        file, entry = self.aside(name, run), self.ledger.find(f"samples {name}", run)
        if not file.exists() or entry is None:  # another command was faster
            return
        say(f"{run}: measuring samples of another machine, {grid.title}")
        samples = [Samples.from_json(json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
        self.keep(run, name, [measure_point(one, {}, measured_property=grid.property) for one in samples])
        done = {key: value for key, value in entry.items() if key not in ("stage", "run", "plan")}
        self.record(f"sweep {name}", run, entry["plan"], **done)
        file.unlink()

    def _slim(self, point: Point) -> Point:
        """A point with the columns that the bands of the figure are made of."""
        needed = {
            name for measure in self.experiment.axes.measures for name in (measure.numerator, measure.denominator)
        }
        columns = {name: values for name, values in point.columns.items() if name in needed}
        return replace(point, columns={name: [_short(value) for value in some] for name, some in columns.items()})

    def _writing(self) -> FileLock:
        """Held while a file is read and written anew."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.folder / ".lock")


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def _short(value: float) -> float:
    """Five digits: bands are far wider than that, and points of a thousand samples are many numbers."""
    return int(value) if float(value).is_integer() else float(f"{value:.5g}")


def _position(order: Sequence[str], point: Point) -> int:
    return order.index(point.cell.run) if point.cell.run in order else len(order)
