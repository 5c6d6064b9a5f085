"""From data to figure: train each run, sweep it, keep its points, say what they show. Stopped anywhere, it goes on.

A run is trained and swept before the next one begins: its points are all that later stages need of it, so an
experiment can be spread over machines that come and go. The same command begun several times on one machine shares the
work: each takes a run that no other is at.
"""

import csv
import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from filelock import FileLock, Timeout

from candi.analysis.studies import check_predictable, prediction
from candi.codebook import Codebook
from candi.data.corpus import Corpus
from candi.data.molecules import HAS_RDKIT
from candi.errors import unknown
from candi.evaluation.card import Point
from candi.evaluation.contestant import Contestant
from candi.evaluation.measures import measure_named
from candi.evaluation.samples import Samples
from candi.evaluation.sweep import Sweep, SweepSettings
from candi.evaluation.table import Line, measured, read_lines, write_lines
from candi.files import write_text
from candi.loading import device_named
from candi.machine import fresh, machine
from candi.model import read_model
from candi.reproduce.declared import CLASSIFIERS, LOCKS, RUN, SWEEPS, Grid
from candi.reproduce.experiment import Experiment
from candi.reproduce.ledger import Ledger
from candi.training import checkpoint
from candi.training.classifier import train_classifier
from candi.training.loop import train

LEDGER = "ledger.jsonl"
PREDICTED = "predict"  # the stage of what identifiability says
_CHARACTERS = 50_000  # of the text that a prediction is made for


@dataclass(frozen=True)
class Reproduction:
    """An experiment under way: runs and samples under `work`, what is kept of them under `results`."""

    experiment: Experiment
    data: str
    work: Path
    results: Path
    device: str = "auto"
    shared: int = 1  # runs that use the device at the same time: told with how long things took

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.results / LEDGER)

    def go(self, only: Sequence[str] = ()) -> None:
        """Whatever is not done, or of some runs only."""
        for run in only:
            if run not in self.experiment.runs:
                raise unknown("run", run, self.experiment.runs)
        device_named(self.device)
        for run in self.experiment.runs:  # a mistake in the last is told before the first is trained
            settings = self.experiment.settings(run, self.data, self.work / run)
            if run in self.experiment.foreseen and settings.settings is not None:
                check_predictable(settings.settings.build(Codebook(4, 2)))
        self._measure()
        data = Corpus(self.data).fingerprint
        left = list(only or self.experiment.runs)
        if any(self._missing(run, data) for run in left):  # who judges must be there, whichever runs were asked for
            for judge in (run for run in self.experiment.runs if run in self._judges):
                if not self._trained(judge):
                    with self._lock(judge), fresh():
                        self._train(judge, self.experiment.training_plan(judge, data))
        while left:  # several such commands share the work: each takes a run that no other is at
            for run in list(left):
                with suppress(Timeout), self._lock(run).acquire(timeout=0):
                    self._finish(run, data)
                    left.remove(run)
            time.sleep(bool(left))

    def _lock(self, what: str) -> FileLock:
        """Held by the command that is at a run or classifier; free again when that command ends, however it ends."""
        folder = self.work / LOCKS
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / what)

    def _record(self, stage: str, run: str, plan: str, **values: Any) -> None:
        with self._writing():
            self.ledger.write(stage, run, plan, **values)

    def _writing(self) -> FileLock:
        """Held while the files of the results are read and written anew."""
        self.results.mkdir(parents=True, exist_ok=True)
        return FileLock(self.results / ".lock")

    def _trained(self, run: str) -> bool:
        """Whether its last checkpoint is here, as far as the experiment trains."""
        steps = self.experiment.settings(run, self.data, self.work / run).steps
        return any(folder.name == f"step-{steps:08d}" for folder in checkpoint.found(self.work / run / "checkpoints"))

    @property
    def _judges(self) -> set[str]:
        return {scorer.removeprefix(RUN) for scorer in self.experiment.scorers if scorer.startswith(RUN)}

    def _finish(self, run: str, data: str) -> None:
        names = self._missing(run, data)
        if not names:
            _say(f"{run}: done before")
            return
        with fresh():
            self._train(run, self.experiment.training_plan(run, data))
        self._predict(run, self.experiment.training_plan(run, data))
        with fresh():
            self._classify(run, names)
        for name in names:
            with fresh():
                self._sweep(run, name, self.experiment.sweep_plan(run, name, data))

    def _missing(self, run: str, data: str) -> list[str]:
        """The sweeps of a run that are still to be done."""
        plans = {name: self.experiment.sweep_plan(run, name, data) for name in self.experiment.grids_of(run)}
        return [name for name, plan in plans.items() if not self._done(name, run, plan)]

    def _done(self, name: str, run: str, plan: str) -> bool:
        """Measured, or made and set aside to be measured; and what came of it is still there."""
        if self.ledger.done(f"samples {name}", run, plan) and (self.results / f"{name}.{run}.samples.jsonl").exists():
            return True
        entry, file = self.ledger.find(f"sweep {name}", run), self.results / f"{name}.jsonl"
        if entry is None or entry["plan"] != plan or not file.exists():
            return False
        return sum(line["card"]["run"] == run for line in read_lines(file)) == entry["points"]

    def _train(self, run: str, plan: str) -> None:
        _say(f"{run}: training")
        out = self.work / run
        settings = self.experiment.settings(run, self.data, out)
        folder = train(settings)
        if not self._trained(run) and settings.minutes is None:  # asked to stop: the same command goes on from here
            raise KeyboardInterrupt
        if self.ledger.done("train", run, plan):  # when, where and how long it took was told then
            return
        rows = list(csv.DictReader((out / "metrics.csv").open(encoding="utf-8")))
        progress = json.loads((folder / "progress.json").read_text(encoding="utf-8"))
        valid = [float(row["valid_loss"]) for row in rows if row["valid_loss"]]
        self._record(
            "train", run, plan, **self._stamp(progress["seconds"]), steps=progress["step"],
            tokens=progress["step"] * settings.batch * settings.length, valid_loss=valid[-1] if valid else None,
            settings=self.experiment.runs[run],
        )  # fmt: skip

    def _predict(self, run: str, plan: str) -> None:
        """What identifiability says of a run that an overview shows."""
        if run not in self.experiment.foreseen or self.ledger.done(PREDICTED, run, plan):
            return
        _say(f"{run}: what identifiability predicts")
        start, settings = time.monotonic(), self.experiment.settings(run, self.data, self.work / run)
        model = read_model(Contestant.of(str(self.work / run)).folder)
        text = ""
        for piece in Corpus(self.data, settings.text_field).pieces():
            text += piece.text[:_CHARACTERS]
            if len(text) >= _CHARACTERS:
                break
        found = prediction(model.denoiser.method, torch.as_tensor(model.tokenizer.encode(text[:_CHARACTERS])))
        stamp = self._stamp(time.monotonic() - start)
        self._record(PREDICTED, run, plan, **stamp, vocab_size=model.config.vocab_size, **found)

    def _sweep(self, run: str, name: str, plan: str) -> None:
        grid = self.experiment.grids[name]
        _say(f"{run}: {grid.title}")
        start = time.monotonic()
        sweeps = [Sweep(settings) for settings in self._settings(run, grid)]
        lines = [line for sweep in sweeps for line in sweep.go()]
        if grid.property is None or HAS_RDKIT:
            self._keep(run, name, lines)
            stage = f"sweep {name}"
        else:  # measured later, where there is RDKit
            self._set_aside(run, name, sweeps)
            stage = f"samples {name}"
        stamp = self._stamp(time.monotonic() - start)
        self._record(stage, run, plan, **stamp, points=len(lines), each=_each(sweeps))

    def _settings(self, run: str, grid: Grid) -> list[SweepSettings]:
        """One for each way that the run is guided."""
        axes = self.experiment.axes
        method = Contestant.of(str(self.work / run)).method
        options = {name: values for name, values in grid.options.items() if name in method.options}
        return [
            SweepSettings(
                runs=[str(self.work / run)], out=self.work / SWEEPS / run, steps=grid.steps,
                temperatures=grid.temperatures, options=options, n=self.experiment.n, device=self.device,
                words=self.data if "words" in axes.diversity + axes.quality else None,
                molecules=grid.property if HAS_RDKIT else None, scorers=self._scorers(),
                characters=self.experiment.characters, **guided,
            )
            for guided in self._guides(run, grid)
        ]  # fmt: skip

    def _guides(self, run: str, grid: Grid) -> list[dict[str, Any]]:
        """By its own label, by each classifier with each tilt of what is revealed, or not at all."""
        if run in grid.labels:
            return [{"label": grid.labels[run], "weights": grid.label_weights}]
        judges = [str(self.work / CLASSIFIERS / judge) for judge in grid.classifiers.get(run, [])]
        return [
            {"classifiers": [judge], "weights": grid.weights, "reveal": reveal}
            for judge in judges
            for reveal in grid.reveals
        ] or [{}]

    def _scorers(self) -> list[str]:
        """Runs that judge are trained first: they stand first in the file."""
        named = [scorer.partition(RUN) for scorer in self.experiment.scorers]
        return [str(self.work / run) if mark and not before else before for before, mark, run in named]

    def _keep(self, run: str, name: str, lines: Sequence[Line]) -> None:
        """The points of a run in the place of those it had before."""
        file = self.results / f"{name}.jsonl"
        order = list(self.experiment.runs)
        with self._writing():
            others = [line for line in read_lines(file) if line["card"]["run"] != run] if file.exists() else []
            kept = [*others, *(self._slim(line) for line in lines)]
            write_lines(file, sorted(kept, key=lambda line: _place(order, line)))

    def _set_aside(self, run: str, name: str, sweeps: Sequence[Sweep]) -> None:
        files = [sweep.sample_file(point) for sweep in sweeps for _, point in sweep.points]
        records = [vars(Samples.read(file)) for file in files]
        write_text(self.results / f"{name}.{run}.samples.jsonl", "".join(json.dumps(one) + "\n" for one in records))

    def _measure(self) -> None:
        """What was set aside, here where there is RDKit."""
        for name, grid in self.experiment.grids.items() if HAS_RDKIT else ():
            for run in (run for run in grid.runs if (self.results / f"{name}.{run}.samples.jsonl").exists()):
                with self._lock(run):
                    self._measure_run(run, name, grid)

    def _measure_run(self, run: str, name: str, grid: Grid) -> None:
        file = self.results / f"{name}.{run}.samples.jsonl"
        entry = self.ledger.find(f"samples {name}", run)
        if not file.exists() or entry is None:
            return
        _say(f"{run}: measuring what was made elsewhere, {grid.title}")
        samples = [Samples(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
        lines = [measured(Point.of(one.card), one, {}, measured_property=grid.property) for one in samples]
        self._keep(run, name, lines)
        done = {key: value for key, value in entry.items() if key not in ("stage", "run", "plan")}
        self._record(f"sweep {name}", run, entry["plan"], **done)
        file.unlink()

    def _classify(self, run: str, names: Sequence[str]) -> None:
        """The classifiers that guide a run in its sweeps."""
        judges = [judge for name in names for judge in self.experiment.grids[name].classifiers.get(run, [])]
        for judge in dict.fromkeys(judges):
            _say(f"{run}: training the classifier {judge}")
            out = self.work / CLASSIFIERS / judge
            settings = self.experiment.classifier(judge, self.work / run, self.data, out)
            with self._lock(f"{CLASSIFIERS} {judge}"):
                folder = train_classifier(settings)
            if folder.name != f"step-{settings.steps:08d}":  # asked to stop
                raise KeyboardInterrupt

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
            **({"shared": self.shared} if self.shared > 1 else {}),
        }


def _each(sweeps: Sequence[Sweep]) -> list[dict[str, Any]]:
    """How long one sample took, for each number of steps and each classifier: the median over points."""
    found: dict[tuple[int, str | None], list[float]] = {}
    for sweep in sweeps:
        for _, point in sweep.points:
            by = point.guidance["classifier"] if point.guidance else None
            seconds = Samples.read(sweep.sample_file(point)).seconds
            if seconds is not None:  # samples of an earlier version do not tell
                found.setdefault((point.steps, by), []).append(seconds)
    return [{"steps": steps, "by": by, "seconds": median(some)} for (steps, by), some in found.items()]


def _place(order: Sequence[str], line: Line) -> int:
    run = line["card"]["run"]
    return order.index(run) if run in order else len(order)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)
