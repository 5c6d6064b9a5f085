"""What an experiment is: runs, sweeps over them, and what the paper claims of their frontiers. Declared in YAML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from candi.config import from_json
from candi.errors import UserError, unknown
from candi.evaluation.card import fingerprint
from candi.evaluation.compare import Axes
from candi.methods import METHODS
from candi.nets.transformer import TrunkSettings
from candi.reproduce.declared import RUN, Advice, Claim, File, Grid, Overview, Scale, check, overview
from candi.training.classifier import ClassifierSettings
from candi.training.settings import FREE, TrainSettings

SCALES = ("toy", "small", "paper")


@dataclass(frozen=True)
class Experiment:
    """An experiment at one of its scales."""

    name: str
    scale: str
    title: str
    question: str
    figure: str
    about: str
    axes: Axes
    text: str  # what data it is made for, in words
    data: str | None
    runs: Mapping[str, Mapping[str, Any]]
    grids: Mapping[str, Grid]
    classifiers: Mapping[str, Mapping[str, Any]]
    claims: Sequence[Claim]
    n: int
    scorers: Sequence[str] = ()
    characters: int | None = None
    shared_tokenizer: str | None = None  # of the runs that name none of their own
    tokenizer: str | None = None  # where that one lies, if not where the file says
    chapter: int = 9
    overview: Overview | None = None
    advice: Sequence[Advice] = ()

    @property
    def label(self) -> str:
        return f"{self.name}-{self.scale}"

    def adapted(self, tokenizer: str | None, scorers: Sequence[str]) -> "Experiment":
        """With what lies elsewhere on this machine. Where it lies is no part of a plan: its content is in the cards."""
        for scorer in scorers:
            if scorer.startswith(RUN) and scorer.removeprefix(RUN) not in self.runs:
                raise unknown("run", scorer.removeprefix(RUN), self.runs)
        return replace(self, tokenizer=tokenizer, scorers=scorers or self.scorers)

    @property
    def judges(self) -> list[str]:
        """Runs that judge the others."""
        return [scorer.removeprefix(RUN) for scorer in self.scorers if scorer.startswith(RUN)]

    @property
    def foreseen(self) -> set[str]:
        """Runs of which identifiability is asked what it predicts: those of the overview."""
        return set() if self.overview is None else {run for runs in self.overview.families.values() for run in runs}

    @property
    def counts_words(self) -> bool:
        return "words" in self.axes.diversity + self.axes.quality

    def quality_in(self, sweep: str) -> str:
        """What is good about the points of a sweep, in words."""
        per = f" per {self.axes.per}" if self.axes.per else ""
        return self.grids[sweep].property or self.axes.quality.replace("_", " ") + per

    def grids_of(self, run: str) -> dict[str, Grid]:
        return {name: grid for name, grid in self.grids.items() if run in grid.runs}

    def settings(self, run: str, data: str, out: Path) -> TrainSettings:
        """Of the training of a run."""
        where = f"{self.name}, {run}"
        values = dict(self.runs[run])
        if self.tokenizer is not None and values.get("tokenizer") == self.shared_tokenizer:
            values["tokenizer"] = self.tokenizer
        method = values.get("method", "candi")
        if not isinstance(method, str) or method not in METHODS:
            raise UserError(f"{where}: {unknown('method', str(method), METHODS)}")
        options = from_json(METHODS[method], values.pop(method, {}), f"{where}, {method}")
        trunk = from_json(TrunkSettings, values.pop("model", {}), f"{where}, model")
        fixed = {"data": data, "out": out, "model": trunk, "settings": options, "devices": 1}
        return from_json(TrainSettings, {**values, **fixed}, where)

    def classifier(self, name: str, run: str, work: Path, data: str, out: Path) -> ClassifierSettings:
        """Of the training of a classifier for a run, which reads its data as the run does."""
        where = f"{self.name}, classifier {name}"
        alike = {key: self.runs[run][key] for key in ("skip_bad", "text_field") if key in self.runs[run]}
        values = {**alike, **self.classifiers[name]}
        trunk = from_json(TrunkSettings, values.pop("model", {}), f"{where}, model")
        fixed = {"run": str(work / run), "data": data, "out": out, "model": trunk}
        return from_json(ClassifierSettings, {**values, **fixed}, where)

    def training_plan(self, run: str, data: str) -> str:
        """Of what decides a run's weights: a ledger's entry of another plan does not count."""
        free = FREE - {"steps", "minutes"}
        return fingerprint([{key: value for key, value in self.runs[run].items() if key not in free}, data])

    def sweep_plan(self, run: str, sweep: str, data: str) -> str:
        """Of what decides the points of a run in a sweep."""
        grid = self.grids[sweep]
        plan = [self.training_plan(run, data), grid.options, grid.steps, grid.temperatures, self.n]
        outside = [Path(scorer).name for scorer in self.scorers if not scorer.startswith(RUN)]
        judges = [self.training_plan(judge, data) for judge in self.judges]
        plan += [[*outside, *judges]] if self.scorers else []
        plan += [self.characters] if self.characters is not None else []
        if grid.property is not None:
            guides = [self.classifiers[judge] for judge in grid.classifiers.get(run, [])]
            plan += [grid.property, guides, [grid.weights, grid.reveals] if guides else []]
            plan += [grid.labels[run], grid.label_weights] if run in grid.labels else []
        return fingerprint(plan)


def experiments() -> dict[str, Path]:
    """Those that come with the package."""
    folder = files("candi") / "experiments"
    return {
        Path(str(path)).stem: Path(str(path))
        for path in sorted(folder.iterdir(), key=str)
        if path.name.endswith(".yaml")
    }


def read(source: str, scale: str) -> Experiment:
    """By name, or from a file of one's own."""
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    known = experiments()
    path = known.get(source) or Path(source).expanduser()
    if not path.is_file():
        raise unknown("experiment", source, known)
    try:
        values = _plain(yaml.safe_load(path.read_text(encoding="utf-8")), str(path))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path} is no YAML that can be read ({str(error).splitlines()[0]}).") from None
    return _at_scale(path.stem, scale, from_json(File, values, str(path)), str(path))


def _plain(value: Any, where: str) -> Any:
    """As JSON would have it: YAML knows dates and keys of any kind, which mean nothing here."""
    if isinstance(value, dict):
        strange = next((key for key in value if not isinstance(key, str)), None)
        if strange is not None:
            raise UserError(f"{where}: the name {strange!r} must be text; put it in quotes.")
        return {key: _plain(item, where) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, where) for item in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _at_scale(name: str, scale: str, file: File, where: str) -> Experiment:
    if scale not in file.scales:
        raise UserError(f"{where} has no scale {scale!r}; it has: {', '.join(file.scales)}.")
    size = from_json(Scale, file.scales[scale], f"{where}, scale {scale}")
    check(file, size, where, scale)
    for run in size.runs:
        if run not in file.runs:
            raise UserError(f"{where}, scale {scale}: {unknown('run', run, file.runs)}")
    grids = {}
    for sweep in size.sweeps:
        grid = from_json(Grid, {**file.sweeps[sweep], **size.changes.get(sweep, {})}, f"{where}, sweep {sweep}")
        grids[sweep] = replace(
            grid,
            runs=[run for run in grid.runs if run in size.runs],
            steps=grid.steps or size.steps,
            temperatures=grid.temperatures or size.temperatures,
            classifiers={run: names for run, names in grid.classifiers.items() if run in size.runs},
            weights=grid.weights or size.weights,
        )
    for scorer in size.scorers:
        if scorer.startswith(RUN) and scorer.removeprefix(RUN) not in size.runs:
            raise UserError(f"{where}, scale {scale}: {unknown('run', scorer.removeprefix(RUN), size.runs)}")
    axes = Axes(file.diversity, file.quality, per=file.per)
    _ = axes.measures  # refuses unknown ones
    return Experiment(
        name=name, scale=scale, title=file.title, question=file.question, figure=file.figure, about=size.about,
        axes=axes, text=file.data, data=size.data, n=size.n, grids=grids, scorers=size.scorers,
        characters=size.characters, chapter=file.chapter, overview=overview(file, where),
        shared_tokenizer=_merged(file.train, size.train).get("tokenizer"),
        runs={run: _merged(file.train, size.train, file.runs[run], size.changes.get(run, {})) for run in size.runs},
        classifiers={
            name: _merged(size.classify, values, size.changes.get(name, {}))
            for name, values in file.classifiers.items()
        },
        advice=[from_json(Advice, values, where) for values in file.advice],
        claims=[
            claim
            for number, values in enumerate(file.claims, 1)
            if (claim := from_json(Claim, values, f"{where}, claim {number}")).sweep in grids
            and claim.runs <= set(size.runs)
        ],
    )  # fmt: skip


def _merged(*tables: Mapping[str, Any]) -> dict[str, Any]:
    """The later wins; tables inside tables are merged as well."""
    merged: dict[str, Any] = {}
    for table in tables:
        for key, value in table.items():
            inner = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
            merged[key] = _merged(merged[key], value) if inner else value
    return merged
