"""Runs x steps x temperatures x options: every cell sampled, scored and measured once, whatever interrupts it.

The folder of a sweep holds samples/KEY.json for each cell, scores/SCORER/KEY.json for each scorer, and points.jsonl,
the table of what is finished. Each file appears whole or not at all, so the same command goes on where it was stopped.
The same command begun several times shares the work: each takes a cell that no other is at.
"""

import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import suppress
from functools import cached_property
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from candi.base.errors import UserError
from candi.base.labels import class_numbers
from candi.base.plugins import load_inherited
from candi.data.corpus import Corpus
from candi.diffusion.guidance import Guidance, guide_for
from candi.evaluation.mauve import Mauve
from candi.evaluation.points import (
    POINTS,
    Point,
    Scored,
    append_point,
    cut,
    measure_point,
    scorer_folder,
    write_points,
    write_scores,
)
from candi.evaluation.progress import SweepProgress
from candi.evaluation.provenance import Cell, Guide, fingerprint
from candi.evaluation.run_handle import RunHandle
from candi.evaluation.samples import Samples, make, read_record
from candi.evaluation.scorers import load_scorer
from candi.evaluation.sweep_settings import SweepSettings
from candi.evaluation.words import WordList, word_list
from candi.model.classifiers import check_classifier, classifier_content, classifier_of, load_classifier
from candi.model.model import Model
from candi.nets.classifier import Classifier

_LOCKS = "locks"
_PAUSE = 0.2  # seconds between two looks at cells that others are at
_MAUVE = "mauve"  # the name of its folder, among those of scorers


class Sweep:
    """The grid of a sweep and its files."""

    def __init__(self, settings: SweepSettings) -> None:
        self.settings = settings
        self._check_options()
        self.cells: list[tuple[RunHandle, Cell]] = [
            (run, cell)
            for run in settings.runs
            for cell in run.cells(
                settings.steps, settings.temperatures, settings.options, top_k=settings.top_k,
                top_p=settings.top_p, length=settings.length, seed=settings.seed, n=settings.n,
                precision=settings.sampling_precision, guides=self._guides(run),
            )
        ]  # fmt: skip
        self._folders = {name: scorer_folder(name, settings.context, settings.characters) for name in settings.scorers}
        if settings.mauve is not None:
            scorer = self._folders[settings.scorers[0]]
            self._folders[_MAUVE] = f"{_MAUVE}-{fingerprint([scorer, Corpus(settings.mauve).fingerprint])}"
        self._measured: dict[str, Point] = {}

    def _guides(self, run: RunHandle) -> list[Guide | None]:
        """The weights of guidance by the run's own labels, or by the first classifier that reads what it writes.

        [None] if there is neither.
        """
        settings = self.settings
        if settings.label is not None and run.config.label is not None:
            asked = class_numbers(run.config.labels, settings.label)  # refuses what it does not have
            target = asked[0] if len(asked) == 1 else str(settings.label)
            guide = Guide(None, run.config.label, target, 0.0)
        elif settings.classifiers:
            name = self.classifier_of(run)
            config = load_classifier(name, torch.device("cpu"))[1]
            target = config.taught.number(settings.target)
            reveal = settings.reveal if run.method.gaussian() is not None else 0.0  # discrete guidance has none
            content = classifier_content(name)
            guide = Guide(Path(name).name, config.label, target, 0.0, reveal, config.noise, content)
        else:
            return [None]
        discrete = guide.classifier is not None and run.method.gaussian() is None
        forms = [form if form == "exact" else None for form in settings.dcbg] if discrete else [None]
        return [
            dataclasses.replace(guide, weight=weight, dcbg=form)
            for form in dict.fromkeys(forms)
            for weight in settings.weights
        ]

    def classifier_of(self, run: RunHandle) -> str:
        """The first of the classifiers that fits a run."""
        for index, source in enumerate(self.settings.classifiers):
            name = classifier_of(run.folder, source)
            try:
                config = load_classifier(name, torch.device("cpu"))[1]
                check_classifier(config, name, run.method, run.config.method, run.tokenizer)
            except UserError:
                if index + 1 == len(self.settings.classifiers):
                    raise
            else:
                break
        return name

    def _check_options(self) -> None:
        if self.settings.label is not None and all(run.config.label is None for run in self.settings.runs):
            raise UserError("None of these runs was trained with labels; train one with --label, or leave out --label.")
        for name, values in self.settings.options.items():
            takers = [run for run in self.settings.runs if name in run.method.options]
            if not takers:
                raise UserError(f"None of these runs has the sampling option {name!r}; leave out --{name}.")
            for value in values:
                if not any(value in run.method.options[name] for run in takers):
                    known = ", ".join(takers[0].method.options[name])
                    raise UserError(f"--{name} cannot be {value!r}; it is one of: {known}.")

    def go(self) -> list[Point]:
        """Everything that is missing, then the table of all points."""
        try:
            self.settings.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"The folder {self.settings.out} cannot be made ({error}); choose another --out.") from None
        _ = self._words  # an unreadable list is refused before anything is made
        table = self.settings.out / POINTS
        write_points(table, self._points())
        for cell in self.finish():
            append_point(table, self._point(cell))
        points = self._points()
        write_points(table, points)
        return points

    def finish(self) -> Iterator[Cell]:
        """Make and score what is missing, together with other commands that are at it; each cell as it is finished."""
        devices, total = self.settings.devices, self._evaluations_left()
        with SweepProgress(len(self.cells), total) as progress:
            if len(devices) == 1:
                worker = Worker(self, devices[0])
                for run, cell in self.free():
                    progress.update(total - self._evaluations_left())  # others may have worked on it as well
                    progress.begin(sum(self._finished(cell) for _, cell in self.cells), cell.title)
                    worker.finish(run, cell, progress)
                    yield cell
            else:
                self._share(devices, progress)
        self._clear()

    def free(self) -> Iterator[tuple[RunHandle, Cell]]:
        """Cells that no other process is at, each held while it is worked on; until all are finished."""
        folder = self.settings.out / _LOCKS
        while left := [(run, cell) for run, cell in self.cells if not self._finished(cell)]:
            folder.mkdir(parents=True, exist_ok=True)
            taken = True
            for run, cell in left:
                # one that ended before this look has cleared up behind it
                with suppress(Timeout, FileNotFoundError), FileLock(folder / cell.key).acquire(timeout=0):
                    if not self._finished(cell):
                        taken = False
                        yield run, cell
            time.sleep(_PAUSE if taken else 0)

    def _clear(self) -> None:
        """No locks are left behind, but those of cells that belong to other sweeps of this folder."""
        folder = self.settings.out / _LOCKS
        for _, cell in self.cells:
            (folder / cell.key).unlink(missing_ok=True)
        with suppress(OSError):  # not there, or not empty
            folder.rmdir()

    def _share(self, devices: Sequence[torch.device], progress: SweepProgress) -> None:
        """A process for each device, with a network and a scorer of its own."""
        count = len(devices)
        missing = [cell for _, cell in self.cells if not self._sampled(cell)]
        context = get_context("spawn")
        stop = context.Event()
        pool = ProcessPoolExecutor(count, mp_context=context, initializer=_listen, initargs=(stop,))
        try:
            jobs = {pool.submit(_finish_share, self.settings, str(device), count, os.getpid()) for device in devices}
            while jobs:
                done, jobs = wait(jobs, timeout=1.0)
                for job in done:
                    job.result()
                for cell in [cell for cell in missing if self._sampled(cell)]:
                    missing.remove(cell)
                    progress.advance(cell.n * cell.steps)
                    progress.begin(len(self.cells) - len(missing), cell.title)
        finally:
            stop.set()  # after an error or Ctrl-C the others end with the point at hand
            pool.shutdown(wait=not jobs, cancel_futures=True)

    def _evaluations_left(self) -> int:
        return sum(cell.n * cell.steps for _, cell in self.cells if not self._sampled(cell))

    def sample_file(self, cell: Cell) -> Path:
        return self.settings.out / "samples" / f"{cell.key}.json"

    def _sampled(self, cell: Cell) -> bool:
        return self.sample_file(cell).exists()

    @cached_property
    def _words(self) -> WordList | None:
        if self.settings.words is None:
            return None
        return word_list(self.settings.words, self.settings.letters, self.settings.words_field)

    def _finished(self, cell: Cell) -> bool:
        return self._sampled(cell) and all(self.score_file(name, cell).exists() for name in self._folders)

    def _points(self) -> list[Point]:
        """All cells that are finished, in the order of the grid."""
        return [self._point(cell) for _, cell in self.cells if self._finished(cell)]

    def _point(self, cell: Cell) -> Point:
        if cell.key not in self._measured:
            records = {name: read_record(self.score_file(name, cell)) for name in self._folders}
            mauve = records.pop(_MAUVE, None)
            scores = {name: Scored(**record) for name, record in records.items()}
            settings, samples = self.settings, Samples.read(self.sample_file(cell))
            self._measured[cell.key] = measure_point(
                samples,
                scores,
                self._words,
                mauve,
                settings.measured_property,
                settings.kind,
                settings.characters,
                cell.run,
            )
        return self._measured[cell.key]

    def unscored(self, scorer: str) -> bool:
        return any(not self.score_file(scorer, cell).exists() for _, cell in self.cells)

    def score_file(self, scorer: str, cell: Cell) -> Path:
        return self.settings.out / "scores" / self._folders[scorer] / f"{cell.key}.json"


class Worker:
    """One process of a sweep: it holds one network and the scorers."""

    def __init__(self, sweep: Sweep, device: torch.device) -> None:
        self.sweep, self.settings, self.device = sweep, sweep.settings, device
        # before any sample is made: a scorer that cannot be loaded is reported at once
        self.scorers: dict[str, Callable[[Sequence[str]], dict[str, Any]]] = {}
        settings = sweep.settings
        for name in settings.scorers:
            first = settings.mauve is not None and name == settings.scorers[0]
            if sweep.unscored(name) or (first and sweep.unscored(_MAUVE)):
                scorer = load_scorer(name, device=str(device), context=settings.context)
                self.scorers[name] = lambda texts, scorer=scorer: vars(Scored.by(scorer, texts))  # type: ignore[misc]
                if first and settings.mauve is not None:
                    self.scorers[_MAUVE] = Mauve(scorer, settings.mauve, settings.seed).of
        self._name = ""
        self._model: Model | None = None
        self._classifiers: dict[str, Classifier] = {}

    def finish(self, run: RunHandle, cell: Cell, progress: "SweepProgress | None" = None) -> None:
        """What is missing of a cell."""
        settings, file = self.settings, self.sweep.sample_file(cell)
        if not file.exists():
            if self._model is None or self._name != run.name:
                self._name, self._model = run.name, Model.read(run.folder, self.device)
            batch_size = settings.batch_size or run.batch_size(cell.length, cell.n, self.device)
            guide = self._guide(run, self._model, cell)
            make(self._model, cell, batch_size, settings.compile, guide, progress, settings.shared).write(file)
        for name, score in self.scorers.items():
            path = self.sweep.score_file(name, cell)
            if not path.exists():
                write_scores(path, score(cut(Samples.read(file).texts, settings.characters)))

    def _guide(self, run: RunHandle, model: Model, cell: Cell) -> Guidance | None:
        if cell.guidance is None or cell.guidance.classifier is None:
            return None
        if run.name not in self._classifiers:
            self._classifiers[run.name], _ = load_classifier(self.sweep.classifier_of(run), self.device)
        guide = cell.guidance
        classifier = self._classifiers[run.name].log_probability(int(guide.target))
        return guide_for(
            model.denoiser.method, classifier, guide.weight, reveal=guide.reveal, first_order=guide.dcbg != "exact"
        )


_stop: Event | None = None


def _listen(stop: Event) -> None:
    """What a process of a sweep looks at between two points."""
    global _stop  # an event can only be handed over when a process begins
    _stop = stop


def _finish_share(settings: SweepSettings, device: str, count: int, parent: int) -> None:
    torch.set_num_threads(max(1, torch.get_num_threads() // count))
    load_inherited()
    sweep = Sweep(settings)
    worker = Worker(sweep, torch.device(device))
    for run, cell in sweep.free():
        if os.getppid() != parent or (_stop is not None and _stop.is_set()):  # whoever asked for it is gone
            return
        worker.finish(run, cell)
