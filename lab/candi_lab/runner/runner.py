"""From data to figure: train each run, sweep it, keep its points. A command that was stopped continues.

A run is trained and swept before the next one begins: its points are all that later stages need of it, so an
experiment can be spread over machines that come and go. The same command begun several times on one machine shares the
work: each takes a run that no other is at, and when none is left, points of the runs that others have trained.
"""

import dataclasses
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from candi.base.errors import UserError, unknown
from candi.base.machine import device_named, fresh, machine
from candi.data.corpus import Corpus
from candi.data.molecules import HAS_RDKIT
from candi.diffusion.schedule_check import prediction
from candi.evaluation.provenance import fingerprint
from candi.evaluation.sweep import Sweep
from candi.evaluation.sweep_settings import SweepSettings
from candi.hub.export import export
from candi.hub.loading import run_handle
from candi.model.checkpoint import CHECKPOINTS, found, intact, step_of
from candi.model.classifiers import Quality
from candi.model.model import Model
from candi.training.classifier import train_classifier
from candi.training.fit import train
from candi.training.loop import PROGRESS, Progress
from candi.training.run import read_record
from candi_lab.runner import preflight, schema
from candi_lab.runner.experiment import Experiment
from candi_lab.runner.metrics import summarize_metrics
from candi_lab.runner.reference_points import keep_reference_points
from candi_lab.runner.schema import Grid
from candi_lab.runner.store import Results, say
from candi_lab.runner.timing import measure_times

_CHARACTERS = 50_000  # of the text that a prediction is made for


@dataclass(frozen=True)
class Reproduction:
    """An experiment under way: runs and samples under `work`, what is kept of them under `results`."""

    experiment: Experiment
    data: str
    work: Path
    results: Path
    device: str = "auto"
    shared: int = 1  # runs that use the device at the same time, which is noted beside every duration
    rdkit: bool = HAS_RDKIT
    locks: dict[str, FileLock] = field(default_factory=dict)

    @property
    def kept(self) -> Results:
        return Results(self.experiment, self.results, self.rdkit)

    def check(self, only: Sequence[str] = ()) -> None:
        """Raises a UserError for what cannot be begun."""
        for run in only:
            if run not in self.experiment.runs:
                raise unknown("run", run, self.experiment.runs)
        device_named(self.device)
        preflight.check(self.experiment, self.data, self.work)

    def go(self, only: Sequence[str] = ()) -> None:
        """Does what is missing, or that of some runs only. A run that fails does not stop the others."""
        self.check(only)
        self.kept.measure()
        data, left, failed = Corpus(self.data).fingerprint, list(only or self.experiment.runs), []
        if missing := [run for run in left if self.kept.missing(run, data)]:
            preflight.check_files(self.experiment, missing)
            self._scorers_ready(data)  # whatever runs are wanted; another command may be at one
        helped: set[str] = set()
        while left:
            for run in list(left):
                with suppress(Timeout), self._lock(run).acquire(timeout=0):
                    left.remove(run)
                    try:
                        self._finish(run, data)
                    except UserError as error:
                        say(f"{run}: {error}")
                        failed.append(f"{run}: {error}")
            for run in left:  # others are at all of these
                if run not in helped and self._help_wanted(run).exists():
                    helped.add(run)
                    with suppress(UserError):  # the command that is at it reports the same
                        self._help(run, data)
            time.sleep(bool(left))
        if failed:
            raise UserError(" ".join(failed))
        if self.experiment.scorers or self.experiment.counts_words:
            with suppress(Timeout), self._lock(f"{schema.REFERENCE} ").acquire(timeout=0):  # no run is called so
                self._measure_text(data)

    def _measure_text(self, data: str) -> None:
        """The data as samples are measured, if the scorer runs are here."""
        name, grid = next(iter(self.experiment.grids.items()))
        if all(self.kept.scorer(run).is_dir() for run in self.experiment.scorer_runs):
            settings = self.experiment.settings(grid.runs[0], self.data, self.work / grid.runs[0])
            plan = self.experiment.sweep_plan(grid.runs[0], name, data)
            keep_reference_points(self.kept, plan, settings, self._scorers(), device_named(self.device), self._stamp)

    def _lock(self, what: str) -> FileLock:
        """Held by the command that is at a run or classifier; free again when that command ends, however it ends.

        There is one for each name: its holder can take it once more, for a run that is a scorer as well.
        """
        folder = self.work / schema.LOCKS
        folder.mkdir(parents=True, exist_ok=True)
        return self.locks.setdefault(what, FileLock(folder / what))

    def _help_wanted(self, run: str) -> Path:
        """A file that exists while a command sweeps a run that it has trained."""
        return self.work / schema.LOCKS / f"{run} helpers"

    def _scorers_ready(self, data: str) -> bool:
        """Trains and packs the scorer runs, but for those that another command is at."""
        ready = [self._prepare_scorer(run, data) for run in self.experiment.scorer_runs]
        return all(ready)

    def _await_scorers(self, data: str) -> None:
        while not self._scorers_ready(data):
            time.sleep(1)

    def _prepare_scorer(self, run: str, data: str) -> bool:
        plan, folder = self.experiment.training_plan(run, data), self.kept.scorer(run)

        def packed() -> bool:
            return self.kept.ledger.done(schema.SCORER, run, plan) and folder.is_dir()

        if packed():
            return True
        with suppress(Timeout), self._lock(run).acquire(timeout=0):
            if not packed():
                with self._fresh():
                    self._train(run, plan)
                start = time.monotonic()
                about = f"{self.experiment.text}; packed to score the other runs of {self.experiment.label}"
                export(str(self.work / run), folder, {"title": "A scorer.", "data": about, "licence": "as its data"})
                self.kept.record(schema.SCORER, run, plan, **self._stamp(time.monotonic() - start))
            return True
        return False

    def _trained(self, run: str) -> bool:
        """Whether a run is here, trained as far as the experiment says."""
        settings = self.experiment.settings(run, self.data, self.work / run)
        folder = next(intact(self.work / run / CHECKPOINTS, say), None)
        if folder is None:
            return False
        progress = Progress.read(folder / PROGRESS)
        _check_steps(self.work / run, progress.step, settings.steps)
        enough = settings.minutes is not None and progress.seconds >= 60 * settings.minutes
        return bool(progress.step == settings.steps or enough)

    def _finish(self, run: str, data: str) -> None:
        self._help_wanted(run).unlink(missing_ok=True)  # of a command that was stopped
        names, plan = self.kept.missing(run, data), self.experiment.training_plan(run, data)
        if not names:
            say(f"{run}: done before")
            if run in self.experiment.predicted and self._trained(run):
                self._predict(run, plan)
            return
        with self._fresh():
            self._train(run, plan, [name for name in self.experiment.grids_of(run) if name not in names])
        if run in self.experiment.scorer_runs:  # before it waits for others: they may wait for it
            self._prepare_scorer(run, data)
        self._predict(run, plan)
        self._help_wanted(run).touch()
        self._classify(run, names, data)
        self._await_scorers(data)
        with self._fresh():
            for name in names:
                self._sweep(run, name, self.experiment.sweep_plan(run, name, data))
        self._help_wanted(run).unlink(missing_ok=True)

    def _help(self, run: str, data: str) -> None:
        """Makes classifiers and points of a run that another command is at; that one keeps them."""
        names = self.kept.missing(run, data)
        say(f"{run}: helping with its points")
        self._classify(run, names, data)
        self._await_scorers(data)
        with self._fresh():
            for name in names:
                for sweep in self._sweeps(run, self.experiment.grids[name]):
                    for _ in sweep.finish():
                        pass

    def _train(self, run: str, plan: str, swept: Sequence[str] = ()) -> None:
        """As far as the experiment says. A training on this machine replaces what the ledger holds of an earlier one;
        `swept` are the sweeps whose points are of that one."""
        say(f"{run}: training")
        out = self.work / run
        settings = self.experiment.settings(run, self.data, out)
        before = self._trained(run)
        folder = train(settings)
        if not self._trained(run):  # stopped: the same command continues from here
            raise KeyboardInterrupt
        if before and self.kept.ledger.done(schema.TRAIN, run, plan):
            return
        progress = Progress.read(folder / PROGRESS)
        self.kept.record(
            schema.TRAIN, run, plan, **(self._stamp(progress.seconds) | _where(out)), steps=progress.step,
            tokens=progress.step * settings.batch_size * settings.length, **summarize_metrics(out / "metrics.csv"),
            settings=self.experiment.runs[run], **({"swept_before": list(swept)} if swept else {}),
        )  # fmt: skip

    def _predict(self, run: str, plan: str) -> None:
        """What identifiability predicts of the weights of a run that an overview shows."""
        if run not in self.experiment.predicted:
            return
        handle = run_handle(str(self.work / run))
        plan = fingerprint([plan, handle.checkpoint])
        if self.kept.ledger.done(schema.PREDICTION, run, plan):
            return
        say(f"{run}: what identifiability predicts")
        start, settings = time.monotonic(), self.experiment.settings(run, self.data, self.work / run)
        model = Model.read(handle.folder)
        tokens = model.tokenizer.encode_beginning(Corpus(self.data, settings.text_field), _CHARACTERS)
        predicted = prediction(model.denoiser.method, torch.as_tensor(tokens))
        stamp = self._stamp(time.monotonic() - start)
        self.kept.record(schema.PREDICTION, run, plan, **stamp, vocab_size=model.config.vocab_size, **predicted)

    def _sweep(self, run: str, name: str, plan: str) -> None:
        grid = self.experiment.grids[name]
        sweeps = self._sweeps(run, grid)
        points = [point for sweep in sweeps for point in sweep.go()]
        measured = grid.property is None or self.rdkit
        if measured:
            self.kept.keep(run, name, points)
        else:  # measured later, on a machine with RDKit
            self.kept.set_aside(run, name, sweeps)
        times, total = measure_times(sweeps)
        each = [dataclasses.asdict(one) for one in times]
        stage = f"{'sweep' if measured else 'samples'} {name}"
        self.kept.record(stage, run, plan, **self._stamp(total), points=len(points), each=each)

    def _sweeps(self, run: str, grid: Grid) -> list[Sweep]:
        """One for each way that the run is guided."""
        say(f"{run}: {grid.title}")
        handle, how = run_handle(str(self.work / run)), self.experiment
        field = how.settings(run, self.data, self.work / run).text_field
        options = {name: values for name, values in grid.options.items() if name in handle.method.options}
        guides = grid.guides(run, self.work / schema.CLASSIFIERS, tilts=handle.method.gaussian() is not None)
        return [
            Sweep(SweepSettings(
                runs=[handle], out=self.work / schema.SWEEPS / run, steps=grid.steps, temperatures=grid.temperatures,
                options=options, n=how.n, device=self.device, words=self.data if how.counts_words else None,
                words_field=field, measured_property=grid.property if self.rdkit else None, scorers=self._scorers(),
                characters=how.characters, shared=self.shared, classifiers=guided.classifiers,
                weights=guided.weights, reveal=guided.reveal, label=guided.label,
                dcbg=guided.dcbg,
            ))
            for guided in guides
        ]  # fmt: skip

    def _scorers(self) -> list[str]:
        """Where they are: scorer runs in the folder of results."""
        ours = {f"{schema.RUN}{run}": str(self.kept.scorer(run)) for run in self.experiment.scorer_runs}
        return [ours.get(scorer, scorer) for scorer in self.experiment.scorers]

    def _classify(self, run: str, names: Iterable[str], data: str) -> None:
        """Trains the classifiers that guide a run in its sweeps, each in one of the commands that are at it."""
        left = {name for sweep in names for name in self.experiment.grids[sweep].classifiers.get(run, [])}
        while left:
            for name in sorted(left):
                with suppress(Timeout), self._lock(f"{schema.CLASSIFIERS} {name}").acquire(timeout=0), self._fresh():
                    self._train_classifier(name, run, data)
                    left.remove(name)
            time.sleep(bool(left))

    def _train_classifier(self, name: str, run: str, data: str) -> None:
        out, plan = self.work / schema.CLASSIFIERS / name, self.experiment.classifier_plan(name, data)
        settings = self.experiment.classifier(name, run, self.work, self.data, out)
        newest = next(iter(found(out / CHECKPOINTS)), None)
        done = newest is not None and step_of(newest) == settings.steps
        if done and self.kept.ledger.done(schema.CLASSIFIER, name, plan):
            return
        say(f"{run}: training the classifier {name}")
        step = step_of(train_classifier(settings, Model.read(run_handle(str(self.work / run)).folder))) or 0
        _check_steps(out, step, settings.steps)
        if step < settings.steps:  # stopped
            raise KeyboardInterrupt
        quality = Quality.read(str(out))
        self.kept.record(schema.CLASSIFIER, name, plan, kind=settings.kind, reads=run if settings.noisy else None,
                         steps=step, area=quality and quality.area)  # fmt: skip

    def _fresh(self) -> AbstractContextManager[None]:
        """Leaves nothing of one job on a GPU for the next."""
        return fresh() if device_named(self.device).type == "cuda" else nullcontext()

    def _stamp(self, seconds: float) -> dict[str, Any]:
        where = machine(device_named(self.device))
        return {
            "seconds": round(seconds, 1),
            "device": where["device"],
            "torch": where["torch"],
            "finished": time.strftime("%Y-%m-%d", time.gmtime()),
            **({"shared": self.shared} if self.shared > 1 else {}),
        }


def _where(run: Path) -> dict[str, str]:
    """The machine that a run was begun on; samples may be made on another."""
    where = read_record(run)["machine"]
    return {"device": where["device"], "torch": where["torch"]}


def _check_steps(folder: Path, step: int, steps: int) -> None:
    if step > steps:
        raise UserError(f"{folder} was trained for {step} steps, more than the {steps} of the experiment; choose "
                        "another --out.")  # fmt: skip
