"""Runs x steps x temperatures x options: every point made, scored and measured once, whatever interrupts it.

The folder of a sweep holds samples/KEY.json for each point, scores/SCORER/KEY.json for each scorer, and points.jsonl,
the table of what is finished. Each file appears whole or not at all, so the same command goes on where it was stopped.
The same command begun several times shares the work: each takes a point that no other is at.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import suppress
from functools import cached_property, partial
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from candi.classifiers import check_classifier, classifier_content, load_classifier
from candi.data.corpus import Corpus
from candi.errors import UserError
from candi.evaluation.card import Point, fingerprint
from candi.evaluation.contestant import Contestant, contestants
from candi.evaluation.mauve import Mauve
from candi.evaluation.progress import SweepProgress
from candi.evaluation.samples import Samples, make, read_record
from candi.evaluation.scorers import load_scorer
from candi.evaluation.sweep_settings import SweepSettings
from candi.evaluation.table import Line, append_line, cut, measured, scored, scorer_folder, write_lines, write_scores
from candi.evaluation.words import WordList, word_list
from candi.guidance import Guidance, guide_for
from candi.model import Model, read_model
from candi.nets.classifier import Classifier
from candi.plugins import load_inherited
from candi.shipped import classifier_of

POINTS, _LOCKS = "points.jsonl", "locks"
_PAUSE = 0.2  # seconds between two looks at points that others are at
_MAUVE = "mauve"  # the name of its folder, among those of scorers


class Sweep:
    """The grid of a sweep and its files."""

    def __init__(self, settings: SweepSettings) -> None:
        self.settings = settings
        self.contestants = contestants(settings.runs)
        self._check_options()
        self.points: list[tuple[Contestant, Point]] = [
            (one, point)
            for one in self.contestants
            for point in one.points(
                settings.steps, settings.temperatures, settings.options, top_k=settings.top_k,
                nucleus=settings.nucleus, length=settings.length, seed=settings.seed, n=settings.n,
                precision=settings.resolved, guides=self._guides(one),
            )
        ]  # fmt: skip
        self._folders = {name: scorer_folder(name, settings.context, settings.characters) for name in settings.scorers}
        if settings.mauve is not None:
            scorer = self._folders[settings.scorers[0]]
            self._folders[_MAUVE] = f"{_MAUVE}-{fingerprint([scorer, Corpus(settings.mauve).fingerprint])}"
        self._measured: dict[str, Line] = {}

    def _guides(self, one: Contestant) -> list[dict[str, Any] | None]:
        """The weights of guidance by the run's own labels, or by the first classifier that reads what it writes.

        [None] if there is neither.
        """
        if self.settings.label is not None and one.config.label is not None:
            asked = {
                "classifier": None, "label": one.config.label, "noise": None, "content": None,
                "target": self.settings.label, "reveal": 0.0,
            }  # fmt: skip
            return [{**asked, "weight": weight} for weight in self.settings.weights]
        if not self.settings.classifiers:
            return [None]
        name = self._classifier(one)
        network, config = load_classifier(name, torch.device("cpu"))
        network.log_probability(self.settings.target)  # refuses a label that it does not have
        reveal = self.settings.reveal if one.method.gaussian() is not None else 0.0  # discrete guidance has none
        judge = {
            "classifier": Path(name).name, "label": config.label, "noise": config.noise,
            "content": classifier_content(name), "target": self.settings.target, "reveal": reveal,
        }  # fmt: skip
        return [{**judge, "weight": weight} for weight in self.settings.weights]

    def _classifier(self, one: Contestant) -> str:
        for index, source in enumerate(self.settings.classifiers):
            name = classifier_of(one.folder, source)
            try:
                config = load_classifier(name, torch.device("cpu"))[1]
                check_classifier(config, name, one.method, one.config.method, one.tokenizer)
            except UserError:
                if index + 1 == len(self.settings.classifiers):
                    raise
            else:
                break
        return name

    def _check_options(self) -> None:
        label = self.settings.label
        if label is not None and all(one.config.label is None for one in self.contestants):
            raise UserError("None of these runs knows labels; train one with --label, or leave it out here.")
        if label is not None and label not in (0, 1):
            raise UserError(f"Runs that know labels know 0 and 1, not {label}.")
        for name, values in self.settings.options.items():
            takers = [one for one in self.contestants if name in one.method.options]
            if not takers:
                raise UserError(f"None of these runs has the sampling option {name!r}; leave out --{name}.")
            for value in values:
                if not any(value in one.method.options[name] for one in takers):
                    known = ", ".join(takers[0].method.options[name])
                    raise UserError(f"--{name} cannot be {value!r}; it is one of: {known}.")

    def go(self) -> list[Line]:
        """Everything that is missing, then the table of all points."""
        try:
            self.settings.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"The folder {self.settings.out} cannot be made ({error}); choose another --out.") from None
        _ = self._words  # an unreadable list is told before anything is made
        table = self.settings.out / POINTS
        write_lines(table, self._lines())
        self.finish(lambda point: append_line(table, self._line(point)))
        lines = self._lines()
        write_lines(table, lines)
        return lines

    def finish(self, made: Callable[[Point], None] = lambda point: None) -> None:
        """Make and score what is missing, together with other commands that are at it."""
        devices, total = self.settings.devices, self._evaluations_left()
        with SweepProgress(len(self.points), total) as progress:
            if len(devices) == 1:
                worker = Worker(self, devices[0])
                for one, point in self.free():
                    progress.reach(total - self._evaluations_left())  # others may have worked on it as well
                    progress.begin(sum(self._finished(point) for _, point in self.points), point.label)
                    worker.finish(one, point, progress)
                    made(point)
            else:
                self._share(devices, progress)
        self._clear()

    def free(self) -> Iterator[tuple[Contestant, Point]]:
        """Points that no other process is at, each held while it is worked on; until all are finished."""
        folder = self.settings.out / _LOCKS
        while left := [(one, point) for one, point in self.points if not self._finished(point)]:
            folder.mkdir(parents=True, exist_ok=True)
            taken = True
            for one, point in left:
                # one that ended before this look has cleared up behind it
                with suppress(Timeout, FileNotFoundError), FileLock(folder / point.key).acquire(timeout=0):
                    if not self._finished(point):
                        taken = False
                        yield one, point
            time.sleep(_PAUSE if taken else 0)

    def _clear(self) -> None:
        """No locks are left behind, but those of points that belong to other sweeps of this folder."""
        folder = self.settings.out / _LOCKS
        for _, point in self.points:
            (folder / point.key).unlink(missing_ok=True)
        with suppress(OSError):  # not there, or not empty
            folder.rmdir()

    def _share(self, devices: Sequence[torch.device], progress: SweepProgress) -> None:
        """A process for each device, with a network and a scorer of its own."""
        count = len(devices)
        missing = [point for _, point in self.points if not self._sampled(point)]
        context = get_context("spawn")
        stop = context.Event()
        pool = ProcessPoolExecutor(count, mp_context=context, initializer=_listen, initargs=(stop,))
        try:
            jobs = {pool.submit(_finish_share, self.settings, str(device), count, os.getpid()) for device in devices}
            while jobs:
                done, jobs = wait(jobs, timeout=1.0)
                for job in done:
                    job.result()
                for point in [point for point in missing if self._sampled(point)]:
                    missing.remove(point)
                    progress.advance(point.n * point.steps)
                    progress.begin(len(self.points) - len(missing), point.label)
        finally:
            stop.set()  # after an error or Ctrl-C the others end with the point at hand
            pool.shutdown(wait=not jobs, cancel_futures=True)

    def _evaluations_left(self) -> int:
        return sum(point.n * point.steps for _, point in self.points if not self._sampled(point))

    def sample_file(self, point: Point) -> Path:
        return self.settings.out / "samples" / f"{point.key}.json"

    def _sampled(self, point: Point) -> bool:
        return self.sample_file(point).exists()

    @cached_property
    def _words(self) -> WordList | None:
        if self.settings.words is None:
            return None
        return word_list(self.settings.words, self.settings.letters, self.settings.words_field)

    def _finished(self, point: Point) -> bool:
        return self._sampled(point) and all(self.score_file(name, point).exists() for name in self._folders)

    def _lines(self) -> list[Line]:
        """All points that are finished, in the order of the grid."""
        return [self._line(point) for _, point in self.points if self._finished(point)]

    def _line(self, point: Point) -> Line:
        if point.key not in self._measured:
            scores = {name: read_record(self.score_file(name, point)) for name in self._folders}
            mauve = scores.pop(_MAUVE, None)
            samples = Samples.read(self.sample_file(point))
            self._measured[point.key] = measured(
                point, samples, scores, self._words, mauve, self.settings.molecules, self.settings.characters
            )
        return self._measured[point.key]

    def unjudged(self, judge: str) -> bool:
        return any(not self.score_file(judge, point).exists() for _, point in self.points)

    def score_file(self, scorer: str, point: Point) -> Path:
        return self.settings.out / "scores" / self._folders[scorer] / f"{point.key}.json"


class Worker:
    """One process of a sweep: it holds one network and the scorers."""

    def __init__(self, sweep: Sweep, device: torch.device) -> None:
        self.sweep, self.settings, self.device = sweep, sweep.settings, device
        # before any sample is made: a scorer that cannot be loaded is told at once
        self.judges: dict[str, Callable[[Sequence[str]], dict[str, Any]]] = {}
        settings = sweep.settings
        for name in settings.scorers:
            if sweep.unjudged(name) or (settings.mauve and name == settings.scorers[0] and sweep.unjudged(_MAUVE)):
                scorer = load_scorer(name, device=str(device), context=settings.context)
                self.judges[name] = partial(scored, scorer)
                if settings.mauve is not None and name == settings.scorers[0]:
                    self.judges[_MAUVE] = Mauve(scorer, settings.mauve, settings.seed).of
        self._name = ""
        self._model: Model | None = None
        self._guides: dict[str, Classifier] = {}

    def finish(self, one: Contestant, point: Point, progress: "SweepProgress | None" = None) -> None:
        """What is missing of a point."""
        settings, file = self.settings, self.sweep.sample_file(point)
        if not file.exists():
            if self._model is None or self._name != one.name:
                self._name, self._model = one.name, read_model(one.folder, self.device)
            batch = settings.batch or one.batch(point.length, point.n, self.device)
            advance = progress.advance if progress is not None else (lambda evaluations: None)
            guide = self._guide(one, point)
            make(self._model, point, batch, settings.compile, guide, advance, settings.shared).write(file)
        for name, judge in self.judges.items():
            path = self.sweep.score_file(name, point)
            if not path.exists():
                write_scores(path, judge(cut(Samples.read(file).texts, settings.characters)))

    def _guide(self, one: Contestant, point: Point) -> Guidance | None:
        if point.guidance is None or point.guidance["classifier"] is None:
            return None
        if one.name not in self._guides:
            self._guides[one.name], _ = load_classifier(self.sweep._classifier(one), self.device)
        judge = self._guides[one.name].log_probability(self.settings.target)
        assert self._model is not None
        return guide_for(self._model.denoiser.method, judge, point.guidance["weight"], reveal=point.guidance["reveal"])


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
    for one, point in sweep.free():
        if os.getppid() != parent or (_stop is not None and _stop.is_set()):  # whoever asked for it is gone
            return
        worker.finish(one, point)
