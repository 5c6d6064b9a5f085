"""What an experiment is: runs, sweeps over them, and what the paper claims of their frontiers. Declared in YAML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from candi.base.config import from_json
from candi.base.errors import UserError, unknown
from candi.base.yaml_text import read_yaml
from candi.diffusion.guidance import DCBG
from candi.diffusion.methods import METHODS
from candi.evaluation.compare import Axes
from candi.evaluation.provenance import fingerprint
from candi.nets.dit import DiTSettings
from candi.training.classifier import ClassifierSettings
from candi.training.run import MAY_CHANGE
from candi.training.settings import TrainSettings
from candi_lab.runner.schema import RUN, Advice, Claim, File, Grid, Overview, Scale
from candi_lab.runner.validate import parse_overview, scorer_runs, validate

SCALES = {"toy": "toy scale", "small": "small scale", "paper": "the paper's size"}  # and what readers call them


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
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> str:
        return SCALES[self.scale]

    @property
    def label(self) -> str:
        return f"{self.name}-{self.scale}"

    def adapted(self, tokenizer: str | None, scorers: Sequence[str]) -> "Experiment":
        """With paths of this machine. They are no part of a plan: points tell the content of what was used."""
        for run in scorer_runs(scorers):
            if run not in self.runs:
                raise unknown("run", run, self.runs)
        return replace(self, tokenizer=tokenizer, scorers=scorers or self.scorers)

    @property
    def scorer_runs(self) -> list[str]:
        """Runs that score the others."""
        return scorer_runs(self.scorers)

    @property
    def predicted(self) -> set[str]:
        """Runs for which identifiability makes a prediction: those of the overview."""
        return set() if self.overview is None else {run for runs in self.overview.families.values() for run in runs}

    @property
    def counts_words(self) -> bool:
        return "words" in self.axes.diversity + self.axes.quality

    def quality_in(self, sweep: str) -> str:
        """The measure of quality of a sweep, in words."""
        per = f" per {self.axes.per}" if self.axes.per else ""
        return self.grids[sweep].property or self.axes.quality.replace("_", " ") + per

    def grids_of(self, run: str) -> dict[str, Grid]:
        return {name: grid for name, grid in self.grids.items() if run in grid.runs}

    def settings(self, run: str, data: str, out: Path) -> TrainSettings:
        """How a run is trained."""
        where = f"{self.name}, {run}"
        values = dict(self.runs[run])
        if self.tokenizer is not None and values.get("tokenizer") == self.shared_tokenizer:
            values["tokenizer"] = self.tokenizer
        method = values.get("method", "candi")
        if not isinstance(method, str) or method not in METHODS:
            raise UserError(f"{where}: {unknown('method', str(method), METHODS)}")
        options = from_json(METHODS[method], values.pop(method, {}), f"{where}, {method}")
        trunk = from_json(DiTSettings, values.pop("model", {}), f"{where}, model")
        fixed = {"data": data, "out": out, "model": trunk, "settings": options, "devices": 1}
        return from_json(TrainSettings, {**values, **fixed}, where)

    def classifier(self, name: str, run: str, work: Path, data: str, out: Path) -> ClassifierSettings:
        """How a classifier is trained for a run, whose data it reads in the same way."""
        where = f"{self.name}, classifier {name}"
        alike = {key: self.runs[run][key] for key in ("skip_bad", "text_field") if key in self.runs[run]}
        values = {**alike, **self.classifiers[name]}
        trunk = from_json(DiTSettings, values.pop("model", {}), f"{where}, model")
        fixed = {"run": str(work / run), "data": data, "out": out, "model": trunk}
        return from_json(ClassifierSettings, {**values, **fixed}, where)

    def training_plan(self, run: str, data: str) -> str:
        """A hash of what decides a run's weights: a ledger's entry of another plan does not count."""
        decides = {key: value for key, value in self.runs[run].items() if key not in MAY_CHANGE - {"steps", "minutes"}}
        return fingerprint([_as_hashed(decides), data])

    def classifier_plan(self, name: str, data: str) -> str:
        """The same of a classifier."""
        return fingerprint([_as_hashed(self.classifiers[name]), data])

    def sweep_plan(self, run: str, sweep: str, data: str) -> str:
        """A hash of what decides the points of a run in a sweep."""
        grid = self.grids[sweep]
        plan = [self.training_plan(run, data), grid.options, grid.steps, grid.temperatures, self.n]
        outside = [Path(scorer).name for scorer in self.scorers if not scorer.startswith(RUN)]
        ours = [self.training_plan(scorer, data) for scorer in self.scorer_runs]
        plan += [[*outside, *ours]] if self.scorers else []
        plan += [self.characters] if self.characters is not None else []
        plan += ["unique words of each sample"] if self.counts_words else []  # 0.1 counted those of all
        if grid.property is not None:
            guides = [_as_hashed(self.classifiers[name]) for name in grid.classifiers.get(run, [])]
            plan += [grid.property, guides, [grid.weights, grid.reveals] if guides else []]
            noisy = any(self.classifiers[name].get("noisy") for name in grid.classifiers.get(run, []))
            plan += [grid.dcbg] if noisy and tuple(grid.dcbg) != DCBG[:1] else []
            plan += [grid.labels[run], grid.label_weights] if run in grid.labels else []
        return fingerprint(plan)


def _as_hashed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by the names that they had when the first ledgers were written, so that their plans stay valid."""
    return {"batch" if name == "batch_size" else name: value for name, value in settings.items()}


def experiments() -> dict[str, Path]:
    """Those that come with the lab."""
    folder = files("candi_lab") / "experiments"
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
    values = _plain(read_yaml(path), str(path))
    return _at_scale(path.stem, scale, from_json(File, values, str(path)), str(path))


def _plain(value: Any, where: str) -> Any:
    """The same values as JSON has them: YAML also has dates, and keys that are no text."""
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
    validate(file, size, where, scale)
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
    axes = Axes(file.diversity, file.quality, per=file.per)
    _ = axes.measures  # raises for unknown ones
    return Experiment(
        name=name, scale=scale, title=file.title, question=file.question, figure=file.figure, about=size.about,
        axes=axes, text=file.data, data=size.data, n=size.n, grids=grids, scorers=size.scorers,
        characters=size.characters, chapter=file.chapter, overview=parse_overview(file, where),
        shared_tokenizer=_merged(file.train, size.train).get("tokenizer"),
        runs={run: _merged(file.train, size.train, file.runs[run], size.changes.get(run, {})) for run in size.runs},
        classifiers={
            name: _merged(size.classify, values, size.changes.get(name, {}))
            for name, values in file.classifiers.items()
        },
        names=file.names,
        advice=[Advice.parse(values, where) for values in file.advice],
        claims=[
            claim
            for number, values in enumerate(file.claims, 1)
            if (claim := Claim.parse(values, f"{where}, claim {number}")).sweep in grids
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
