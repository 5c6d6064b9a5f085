"""From data to figure: train each run, sweep it, keep its points, say what they show. Stopped anywhere, it goes on.

A run is trained and swept before the next one begins: its points are all that later stages need of it, so an
experiment can be spread over machines that come and go. The same command begun several times on one machine shares the
work: each takes a run that no other is at, and where there is none left, points of the runs that others have trained.
"""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from candi.analysis.studies import prediction
from candi.classifiers import Quality
from candi.config import read_json
from candi.data.corpus import Corpus
from candi.data.molecules import HAS_RDKIT
from candi.errors import UserError, unknown
from candi.evaluation.card import fingerprint
from candi.evaluation.contestant import Contestant
from candi.evaluation.sweep import Sweep
from candi.evaluation.sweep_settings import SweepSettings
from candi.export import export
from candi.loading import device_named
from candi.machine import fresh, machine
from candi.model import read_model
from candi.reproduce import beforehand
from candi.reproduce.declared import CLASSIFIER, CLASSIFIERS, JUDGE, LANDMARK, LOCKS, PREDICTED, RUN, SWEEPS, Grid
from candi.reproduce.experiment import Experiment
from candi.reproduce.landmarks import keep_landmarks
from candi.reproduce.learning import learned
from candi.reproduce.results import Results, say
from candi.reproduce.times import times
from candi.training import checkpoint
from candi.training.classifier import train_classifier
from candi.training.loop import train
from candi.training.run import CHECKPOINTS, SETTINGS

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
    locks: dict[str, FileLock] = field(default_factory=dict)

    @property
    def kept(self) -> Results:
        return Results(self.experiment, self.results)

    def check(self, only: Sequence[str] = ()) -> None:
        """Refuse what cannot be begun."""
        for run in only:
            if run not in self.experiment.runs:
                raise unknown("run", run, self.experiment.runs)
        device_named(self.device)
        beforehand.check(self.experiment, self.data, self.work)

    def go(self, only: Sequence[str] = ()) -> None:
        """Whatever is not done, or of some runs only. A run that fails does not stop the others."""
        self.check(only)
        self.kept.measure()
        data, left, failed = Corpus(self.data).fingerprint, list(only or self.experiment.runs), []
        if missing := [run for run in left if self.kept.missing(run, data)]:
            beforehand.check_means(self.experiment, missing)
            self._judges_are_there(data)  # whatever runs were asked for; another command may be at one
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
                    with suppress(UserError):  # whoever is at it is told the same
                        self._help(run, data)
            time.sleep(bool(left))
        if failed:
            raise UserError(" ".join(failed))
        if self.experiment.scorers or self.experiment.counts_words:
            with suppress(Timeout), self._lock(f"{LANDMARK} ").acquire(timeout=0):  # no run is called so
                self._measure_text(data)

    def _measure_text(self, data: str) -> None:
        """The data as samples are measured, if the judges are here."""
        name, grid = next(iter(self.experiment.grids.items()))
        if all(self.kept.judge(judge).is_dir() for judge in self.experiment.judges):
            settings = self.experiment.settings(grid.runs[0], self.data, self.work / grid.runs[0])
            plan = self.experiment.sweep_plan(grid.runs[0], name, data)
            keep_landmarks(self.kept, plan, settings, self._scorers(), device_named(self.device), self._stamp)

    def _lock(self, what: str) -> FileLock:
        """Held by the command that is at a run or classifier; free again when that command ends, however it ends.

        One for each name: who holds it can take it once more, for a run that judges as well.
        """
        folder = self.work / LOCKS
        folder.mkdir(parents=True, exist_ok=True)
        return self.locks.setdefault(what, FileLock(folder / what))

    def _help_wanted(self, run: str) -> Path:
        """There while a command sweeps a run that it has trained."""
        return self.work / LOCKS / f"{run} helpers"

    def _judges_are_there(self, data: str) -> bool:
        """Trained and packed, by this command unless another is at it."""
        ready = [self._prepare(judge, data) for judge in self.experiment.judges]
        return all(ready)

    def _await_judges(self, data: str) -> None:
        while not self._judges_are_there(data):
            time.sleep(1)

    def _prepare(self, judge: str, data: str) -> bool:
        plan, folder = self.experiment.training_plan(judge, data), self.kept.judge(judge)

        def packed() -> bool:
            return self.kept.ledger.done(JUDGE, judge, plan) and folder.is_dir()

        if packed():
            return True
        with suppress(Timeout), self._lock(judge).acquire(timeout=0):
            if not packed():
                with fresh():
                    self._train(judge, plan)
                start = time.monotonic()
                about = f"{self.experiment.text}; packed to judge the other runs of {self.experiment.label}"
                export(str(self.work / judge), folder, {"title": "A judge.", "data": about, "licence": "as its data"})
                self.kept.record(JUDGE, judge, plan, **self._stamp(time.monotonic() - start))
            return True
        return False

    def _trained(self, run: str) -> bool:
        """Whether it is here, trained as far as the experiment says."""
        settings = self.experiment.settings(run, self.data, self.work / run)
        folder = next(checkpoint.intact(self.work / run / CHECKPOINTS, say), None)
        if folder is None:
            return False
        progress = read_json(folder / "progress.json")
        _check_steps(self.work / run, progress["step"], settings.steps)
        enough = settings.minutes is not None and progress["seconds"] >= 60 * settings.minutes
        return bool(progress["step"] == settings.steps or enough)

    def _finish(self, run: str, data: str) -> None:
        self._help_wanted(run).unlink(missing_ok=True)  # of a command that was stopped
        names, plan = self.kept.missing(run, data), self.experiment.training_plan(run, data)
        if not names:
            say(f"{run}: done before")
            if run in self.experiment.foreseen and self._trained(run):
                self._predict(run, plan)
            return
        with fresh():
            self._train(run, plan, [name for name in self.experiment.grids_of(run) if name not in names])
        if run in self.experiment.judges:  # before it waits for others: they may wait for it
            self._prepare(run, data)
        self._predict(run, plan)
        self._help_wanted(run).touch()
        with fresh():
            self._classify(run, names)
        self._await_judges(data)
        for name in names:
            with fresh():
                self._sweep(run, name, self.experiment.sweep_plan(run, name, data))
        self._help_wanted(run).unlink(missing_ok=True)

    def _help(self, run: str, data: str) -> None:
        """Classifiers and points of a run that another command is at; that one keeps them."""
        names = self.kept.missing(run, data)
        say(f"{run}: helping with its points")
        with fresh():
            self._classify(run, names)
        self._await_judges(data)
        for name in names:
            with fresh():
                for sweep in self._sweeps(run, self.experiment.grids[name]):
                    sweep.finish()

    def _train(self, run: str, plan: str, swept: Sequence[str] = ()) -> None:
        """As far as the experiment says. What an earlier machine told of the run is told anew, and which sweeps, whose
        points are kept, are of the training there."""
        say(f"{run}: training")
        out = self.work / run
        settings = self.experiment.settings(run, self.data, out)
        before = self._trained(run)
        folder = train(settings)
        if not self._trained(run):  # asked to stop: the same command goes on from here
            raise KeyboardInterrupt
        if before and self.kept.ledger.done("train", run, plan):
            return
        progress = json.loads((folder / "progress.json").read_text(encoding="utf-8"))
        self.kept.record(
            "train", run, plan, **(self._stamp(progress["seconds"]) | _where(out)), steps=progress["step"],
            tokens=progress["step"] * settings.batch * settings.length, **learned(out / "metrics.csv"),
            settings=self.experiment.runs[run], **({"swept_before": list(swept)} if swept else {}),
        )  # fmt: skip

    def _predict(self, run: str, plan: str) -> None:
        """What identifiability says of a run that an overview shows: of these weights."""
        if run not in self.experiment.foreseen:
            return
        trained = Contestant.of(str(self.work / run))
        plan = fingerprint([plan, trained.checkpoint])
        if self.kept.ledger.done(PREDICTED, run, plan):
            return
        say(f"{run}: what identifiability predicts")
        start, settings = time.monotonic(), self.experiment.settings(run, self.data, self.work / run)
        model = read_model(trained.folder)
        tokens = model.tokenizer.encode_beginning(Corpus(self.data, settings.text_field), _CHARACTERS)
        found = prediction(model.denoiser.method, torch.as_tensor(tokens))
        stamp = self._stamp(time.monotonic() - start)
        self.kept.record(PREDICTED, run, plan, **stamp, vocab_size=model.config.vocab_size, **found)

    def _sweep(self, run: str, name: str, plan: str) -> None:
        grid = self.experiment.grids[name]
        sweeps = self._sweeps(run, grid)
        lines = [line for sweep in sweeps for line in sweep.go()]
        if grid.property is None or HAS_RDKIT:
            self.kept.keep(run, name, lines)
            stage = f"sweep {name}"
        else:  # measured later, where there is RDKit
            self.kept.set_aside(run, name, sweeps)
            stage = f"samples {name}"
        each, total = times(sweeps)
        self.kept.record(stage, run, plan, **self._stamp(total), points=len(lines), each=each)

    def _sweeps(self, run: str, grid: Grid) -> list[Sweep]:
        say(f"{run}: {grid.title}")
        return [Sweep(settings) for settings in self._settings(run, grid)]

    def _settings(self, run: str, grid: Grid) -> list[SweepSettings]:
        """One for each way that the run is guided."""
        method = Contestant.of(str(self.work / run)).method
        field = self.experiment.settings(run, self.data, self.work / run).text_field
        options = {name: values for name, values in grid.options.items() if name in method.options}
        return [
            SweepSettings(
                runs=[str(self.work / run)], out=self.work / SWEEPS / run, steps=grid.steps,
                temperatures=grid.temperatures, options=options, n=self.experiment.n, device=self.device,
                words=self.data if self.experiment.counts_words else None, words_field=field,
                molecules=grid.property if HAS_RDKIT else None, scorers=self._scorers(),
                characters=self.experiment.characters, shared=self.shared, **guided,
            )
            for guided in grid.guides(run, self.work / CLASSIFIERS, tilts=method.gaussian() is not None)
        ]  # fmt: skip

    def _scorers(self) -> list[str]:
        return [
            str(self.kept.judge(scorer.removeprefix(RUN))) if scorer.startswith(RUN) else scorer
            for scorer in self.experiment.scorers
        ]

    def _classify(self, run: str, names: Sequence[str]) -> None:
        """The classifiers that guide a run in its sweeps, each trained by one of the commands that are at it."""
        left = {judge for name in names for judge in self.experiment.grids[name].classifiers.get(run, [])}
        while left:
            for judge in sorted(left):
                with suppress(Timeout), self._lock(f"{CLASSIFIERS} {judge}").acquire(timeout=0):
                    self._train_classifier(judge, run)
                    left.remove(judge)
            time.sleep(bool(left))

    def _train_classifier(self, judge: str, run: str) -> None:
        out = self.work / CLASSIFIERS / judge
        settings = self.experiment.classifier(judge, run, self.work, self.data, out)
        plan = fingerprint([self.experiment.classifiers[judge], Corpus(self.data).fingerprint])
        newest = next(iter(checkpoint.found(out / CHECKPOINTS)), None)
        if newest is not None and _step(newest) == settings.steps and self.kept.ledger.done(CLASSIFIER, judge, plan):
            return
        say(f"{run}: training the classifier {judge}")
        step = _step(train_classifier(settings))
        _check_steps(out, step, settings.steps)
        if step < settings.steps:  # asked to stop
            raise KeyboardInterrupt
        quality = Quality.read(str(out))
        self.kept.record(CLASSIFIER, judge, plan, kind=settings.kind, reads=run if settings.noisy else None,
                         steps=step, area=quality and quality.area)  # fmt: skip

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
    """The machine that a run was begun on, which need not be the one that samples are made on."""
    where = read_json(run / SETTINGS)["machine"]
    return {"device": where["device"], "torch": where["torch"]}


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _check_steps(folder: Path, step: int, steps: int) -> None:
    if step > steps:
        raise UserError(f"{folder} was trained for {step} steps, more than the {steps} of the experiment; choose "
                        "another --out.")  # fmt: skip
