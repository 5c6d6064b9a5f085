"""From data to figure: train each run, sweep it, keep its points, say what they show. Stopped anywhere, it goes on.

A run is trained and swept before the next one begins: its points are all that later stages need of it, so an
experiment can be spread over machines that come and go.
"""

import csv
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from candi.data.corpus import Corpus
from candi.errors import unknown
from candi.evaluation.measures import measure_named
from candi.evaluation.sweep import Sweep, SweepSettings
from candi.evaluation.table import Line, read_lines, write_lines
from candi.loading import device_named
from candi.machine import fresh, machine
from candi.reproduce.experiment import Experiment
from candi.reproduce.ledger import Ledger
from candi.training.loop import train

LEDGER = "ledger.jsonl"


@dataclass(frozen=True)
class Reproduction:
    """An experiment under way: runs and samples under `work`, what is kept of them under `results`."""

    experiment: Experiment
    data: str
    work: Path
    results: Path
    device: str = "auto"

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.results / LEDGER)

    def go(self, only: Sequence[str] = ()) -> None:
        """Whatever is not done, or of some runs only."""
        for run in only:
            if run not in self.experiment.runs:
                raise unknown("run", run, self.experiment.runs)
        data = Corpus(self.data).fingerprint
        for run in only or self.experiment.runs:
            plans = {name: self.experiment.sweep_plan(run, name, data) for name in self.experiment.grids_of(run)}
            missing = [name for name, plan in plans.items() if not self.ledger.done(f"sweep {name}", run, plan)]
            if not missing:
                _say(f"{run}: done before")
                continue
            with fresh():
                self._train(run, self.experiment.training_plan(run, data))
            for name in missing:
                with fresh():
                    self._sweep(run, name, plans[name])

    def _train(self, run: str, plan: str) -> None:
        _say(f"{run}: training")
        out = self.work / run
        settings = self.experiment.settings(run, self.data, out)
        folder = train(settings)
        rows = list(csv.DictReader((out / "metrics.csv").open(encoding="utf-8")))
        progress = json.loads((folder / "progress.json").read_text(encoding="utf-8"))
        valid = [float(row["valid_loss"]) for row in rows if row["valid_loss"]]
        self.ledger.write(
            "train", run, plan, **self._stamp(progress["seconds"]), steps=progress["step"],
            tokens=progress["step"] * settings.batch * settings.length, valid_loss=valid[-1] if valid else None,
            settings=self.experiment.runs[run],
        )  # fmt: skip

    def _sweep(self, run: str, name: str, plan: str) -> None:
        grid = self.experiment.grids[name]
        _say(f"{run}: {grid.title}")
        start, axes = time.monotonic(), self.experiment.axes
        lines = Sweep(
            SweepSettings(
                runs=[str(self.work / run)], out=self.work / "sweep", steps=grid.steps,
                temperatures=grid.temperatures, options=grid.options, n=self.experiment.n, device=self.device,
                words=self.data if "words" in axes.diversity + axes.quality else None,
            )
        ).go()  # fmt: skip
        kept = [self._slim(line) for line in lines]
        file = self.results / f"{name}.jsonl"
        others = [line for line in read_lines(file) if line["card"]["run"] != run] if file.exists() else []
        order = list(self.experiment.runs)
        write_lines(file, sorted(others + kept, key=lambda line: _place(order, line)))
        self.ledger.write(f"sweep {name}", run, plan, **self._stamp(time.monotonic() - start), points=len(kept))

    def _slim(self, line: Line) -> Line:
        """A point with those columns that the bands of the figure are made of."""
        axes = self.experiment.axes
        measures = measure_named(axes.diversity, True), measure_named(axes.quality, False)
        needed = {column for measure in measures for column in (measure.above, measure.below)}
        return {**line, "columns": {name: values for name, values in line["columns"].items() if name in needed}}

    def _stamp(self, seconds: float) -> dict[str, Any]:
        where = machine(device_named(self.device))
        return {
            "seconds": round(seconds, 1),
            "device": where["device"],
            "torch": where["torch"],
            "finished": time.strftime("%Y-%m-%d", time.gmtime()),
        }


def _place(order: Sequence[str], line: Line) -> int:
    run = line["card"]["run"]
    return order.index(run) if run in order else len(order)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)
