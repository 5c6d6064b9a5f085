"""What an experiment is: runs, sweeps over them, and what the paper claims of their frontiers. Declared in YAML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from candi.training.classifier import ClassifierSettings
from candi.training.settings import TrainSettings

SCALES = ("toy", "small", "paper")
RUN = "run:"  # before the name of a run of the experiment that judges the others


@dataclass(frozen=True)
class Grid:
    """A sweep: runs x steps x temperatures x options of sampling, and of molecules x weights of guidance.

    `property` is what is measured of molecules; `classifiers` says which ones guide which run; `reveals` how much they
    tilt what is revealed; `labels` what a run that knows labels is asked for, `label_weights` how far beyond it.
    """

    title: str
    runs: list[str] = field(default_factory=list)
    options: dict[str, list[str]] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)
    temperatures: list[float] = field(default_factory=list)
    property: str | None = None
    classifiers: dict[str, list[str]] = field(default_factory=dict)
    weights: list[float] = field(default_factory=list)
    reveals: list[float] = field(default_factory=lambda: [0.0])
    labels: dict[str, int] = field(default_factory=dict)
    label_weights: list[float] = field(default_factory=lambda: [0.0])


@dataclass(frozen=True)
class Claim:
    """At the same diversity the cost of `first` is at most 1 + margin times that of `second`; both ways if level.

    Cost is a perplexity, or one over a share of valid words: see Axes.cost.
    """

    paper: str
    sweep: str
    first: str
    second: str
    margin: float = 0.0
    level: bool = False
    steps: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Overview:
    """Runs that differ in their vocabulary alone, by method; each is held against that of `against` in its place."""

    against: str
    families: dict[str, list[str]]


@dataclass(frozen=True)
class _Scale:
    about: str
    runs: list[str]
    sweeps: list[str]
    train: dict[str, Any]
    steps: list[int]
    temperatures: list[float]
    n: int
    data: str | None = None
    classify: dict[str, Any] = field(default_factory=dict)
    weights: list[float] = field(default_factory=list)
    characters: int | None = None  # of each text that are judged, where tokenizers differ
    scorers: list[str] = field(default_factory=list)  # as candi frontier takes them, or run:NAME of this experiment


@dataclass(frozen=True)
class _File:
    title: str
    question: str
    figure: str
    diversity: str
    quality: str
    data: str
    train: dict[str, Any]
    runs: dict[str, Any]
    sweeps: dict[str, Any]
    claims: list[Any]
    scales: dict[str, Any]
    classifiers: dict[str, Any] = field(default_factory=dict)
    overview: dict[str, Any] | None = None


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
    tokenizer: str | None = None  # where that of all runs lies, if not where the file says
    overview: Overview | None = None

    @property
    def label(self) -> str:
        return f"{self.name}-{self.scale}"

    def adapted(self, tokenizer: str | None, scorers: Sequence[str]) -> "Experiment":
        """With what lies elsewhere on this machine. Where it lies is no part of a plan: its content is in the cards."""
        return replace(self, tokenizer=tokenizer, scorers=scorers or self.scorers)

    def grids_of(self, run: str) -> dict[str, Grid]:
        return {name: grid for name, grid in self.grids.items() if run in grid.runs}

    def settings(self, run: str, data: str, out: Path) -> TrainSettings:
        """Of the training of a run."""
        where = f"{self.name}, {run}"
        values = {**self.runs[run], **({"tokenizer": self.tokenizer} if self.tokenizer else {})}
        method = values.get("method", "candi")
        if not isinstance(method, str) or method not in METHODS:
            raise UserError(f"{where}: {unknown('method', str(method), METHODS)}")
        options = from_json(METHODS[method], values.pop(method, {}), f"{where}, {method}")
        trunk = from_json(TrunkSettings, values.pop("model", {}), f"{where}, model")
        fixed = {"data": data, "out": out, "model": trunk, "settings": options}
        return from_json(TrainSettings, {**values, **fixed}, where)

    def classifier(self, name: str, run: Path, data: str, out: Path) -> ClassifierSettings:
        """Of the training of a classifier for a run."""
        where = f"{self.name}, classifier {name}"
        values = dict(self.classifiers[name])
        trunk = from_json(TrunkSettings, values.pop("model", {}), f"{where}, model")
        fixed = {"run": str(run), "data": data, "out": out, "model": trunk}
        return from_json(ClassifierSettings, {**values, **fixed}, where)

    def training_plan(self, run: str, data: str) -> str:
        """Of what decides a run's weights: a ledger's entry of another plan does not count."""
        return fingerprint([self.runs[run], data])

    def sweep_plan(self, run: str, sweep: str, data: str) -> str:
        """Of what decides the points of a run in a sweep."""
        grid = self.grids[sweep]
        plan = [self.training_plan(run, data), grid.options, grid.steps, grid.temperatures, self.n]
        plan += [[Path(scorer).name for scorer in self.scorers]] if self.scorers else []
        plan += [self.characters] if self.characters is not None else []
        if grid.property is not None:
            judges = [self.classifiers[judge] for judge in grid.classifiers.get(run, [])]
            plan += [grid.property, judges, [grid.weights, grid.reveals] if judges else []]
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
    return _at_scale(path.stem, scale, from_json(_File, values, str(path)), str(path))


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


def _at_scale(name: str, scale: str, file: _File, where: str) -> Experiment:
    if scale not in file.scales:
        raise UserError(f"{where} has no scale {scale!r}; it has: {', '.join(file.scales)}.")
    size = from_json(_Scale, file.scales[scale], f"{where}, scale {scale}")
    _check(file, size, where, scale)
    for run in size.runs:
        if run not in file.runs:
            raise UserError(f"{where}, scale {scale}: {unknown('run', run, file.runs)}")
    grids = {}
    for sweep in size.sweeps:
        grid = from_json(Grid, file.sweeps[sweep], f"{where}, sweep {sweep}")
        grids[sweep] = replace(
            grid,
            runs=[run for run in grid.runs if run in size.runs],
            steps=grid.steps or size.steps,
            temperatures=grid.temperatures or size.temperatures,
            classifiers={run: names for run, names in grid.classifiers.items() if run in size.runs},
            weights=grid.weights or size.weights,
        )
        for judge in (name for names in grids[sweep].classifiers.values() for name in names):
            if judge not in file.classifiers:
                raise UserError(f"{where}, sweep {sweep}: {unknown('classifier', judge, file.classifiers)}")
    for scorer in size.scorers:
        if scorer.startswith(RUN) and scorer.removeprefix(RUN) not in size.runs:
            raise UserError(f"{where}, scale {scale}: {unknown('run', scorer.removeprefix(RUN), size.runs)}")
    axes = Axes(file.diversity, file.quality)
    _ = axes.measures  # refuses unknown ones
    return Experiment(
        name=name, scale=scale, title=file.title, question=file.question, figure=file.figure, about=size.about,
        axes=axes, text=file.data, data=size.data, n=size.n, grids=grids, scorers=size.scorers,
        characters=size.characters, overview=_overview(file, where),
        runs={run: _merged(file.train, size.train, file.runs[run]) for run in size.runs},
        classifiers={name: _merged(size.classify, values) for name, values in file.classifiers.items()},
        claims=[
            claim
            for number, values in enumerate(file.claims, 1)
            if (claim := from_json(Claim, values, f"{where}, claim {number}")).sweep in grids
        ],
    )  # fmt: skip


def _overview(file: _File, where: str) -> Overview | None:
    if file.overview is None:
        return None
    found = from_json(Overview, file.overview, f"{where}, overview")
    if found.against not in found.families:
        raise UserError(f"{where}, overview: {unknown('family', found.against, found.families)}")
    for runs in found.families.values():
        for run in runs:
            if run not in file.runs:
                raise UserError(f"{where}, overview: {unknown('run', run, file.runs)}")
        if len(runs) != len(found.families[found.against]):
            raise UserError(
                f"{where}, overview: every family needs as many runs as {found.against}, in the same order."
            )
    return found


def _check(file: _File, size: _Scale, where: str, scale: str) -> None:
    """Whatever can be told to be wrong before anything is trained."""
    here = f"{where}, scale {scale}"
    for what, table in (("run", file.runs), ("sweep", file.sweeps), ("classifier", file.classifiers)):
        for name, values in table.items():
            if not isinstance(values, Mapping):
                raise UserError(f"{where}: the {what} {name} must be a table, not {values!r}.")
    if not size.runs or not size.sweeps or not size.steps or not size.temperatures:
        raise UserError(f"{here}: runs, sweeps, steps and temperatures must not be empty.")
    if size.n < 2 or min(size.steps) < 1 or min(size.temperatures) <= 0:
        raise UserError(f"{here}: a point needs at least 2 samples, 1 step and a temperature above 0.")
    if file.quality == "perplexity" and not size.scorers:
        raise UserError(f"{here}: perplexity needs scorers.")
    if file.diversity == "word_entropy" and size.characters is None:
        raise UserError(f"{here}: word_entropy needs characters, how many of each text are judged.")
    if file.quality == "mauve":
        raise UserError(f"{where}: mauve cannot be measured here; choose perplexity, valid_words or property.")
    for sweep in size.sweeps:
        if sweep not in file.sweeps:
            raise UserError(f"{here}: {unknown('sweep', sweep, file.sweeps)}")
    swept = set()
    for name, values in file.sweeps.items():
        grid = from_json(Grid, values, f"{where}, sweep {name}")
        for run in grid.runs:
            if run not in file.runs:
                raise UserError(f"{where}, sweep {name}: {unknown('run', run, file.runs)}")
        for run in grid.labels:
            if "label" not in file.runs.get(run, {}):
                raise UserError(f"{where}, sweep {name}: {run} is no run that knows labels; give it a label.")
        if file.quality in ("property", "valid_molecules") and grid.property is None:
            raise UserError(f"{where}, sweep {name}: molecules need a property to measure.")
        swept |= set(grid.runs) if name in size.sweeps else set()
    judges = {scorer.removeprefix(RUN) for scorer in size.scorers}
    for run in size.runs:
        if run in file.runs and run not in swept | judges:
            raise UserError(f"{here}: the run {run} is in none of its sweeps; leave it out.")
    for number, values in enumerate(file.claims, 1):
        claim = from_json(Claim, values, f"{where}, claim {number}")
        if claim.sweep not in file.sweeps:
            raise UserError(f"{where}, claim {number}: {unknown('sweep', claim.sweep, file.sweeps)}")
        runs = file.sweeps[claim.sweep]["runs"]
        for label in (claim.first, claim.second):
            if label.partition(" (")[0] not in runs:
                raise UserError(f"{where}, claim {number}: {unknown('run', label, runs)}")
        if claim.first == claim.second or claim.margin < 0:
            raise UserError(f"{where}, claim {number}: it compares two different curves with a margin of at least 0.")


def _merged(*tables: Mapping[str, Any]) -> dict[str, Any]:
    """The later wins; tables inside tables are merged as well."""
    merged: dict[str, Any] = {}
    for table in tables:
        for key, value in table.items():
            inner = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
            merged[key] = _merged(merged[key], value) if inner else value
    return merged
