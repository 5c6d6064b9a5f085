"""What the YAML file of an experiment declares."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from candi.base.config import from_json
from candi.base.errors import UserError
from candi.diffusion.guidance import DCBG
from candi.evaluation.compare import Curve
from candi.evaluation.provenance import Cell

RUN = "run:"  # before the name of a run of the experiment that scores the others
CLASSIFIERS, SWEEPS, LOCKS = "classifiers", "sweeps", "locks"  # folders beside those of the runs
LEDGER, SCORERS = "ledger", "scorers"  # beside the points of the sweeps
# stages of a ledger: a run trained, what identifiability says, a scorer run packed, a classifier trained, the data
# measured as samples are. Ledgers of 0.1 have these names.
TRAIN, PREDICTION, SCORER, CLASSIFIER, REFERENCE = "train", "predict", "judge", "classifier", "landmark"
_ABSENT = {"reveal": "0"}  # options that a curve does not name if they have this value
_WITH_NAMES = ("top_k", "top_p", "temperature", "reveal")  # options whose value alone says nothing


@dataclass(frozen=True)
class CurveRef:
    """Names a curve of a sweep: its run, and as many of its options as tell it from the run's other curves."""

    run: str
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, value: object, where: str) -> "CurveRef":
        """A run's name, or {run: NAME, option: value, ...}."""
        if isinstance(value, str):
            return cls(value)
        if not isinstance(value, Mapping) or not isinstance(value.get("run"), str):
            raise UserError(f"{where}: a curve is a run's name or a table {{run: NAME, option: value}}, not {value!r}.")
        return cls(value["run"], {name: _text(option) for name, option in value.items() if name != "run"})

    def matches(self, curve: Curve) -> bool:
        return curve.run == self.run and all(
            curve.options.get(name, _ABSENT.get(name)) == value for name, value in self.options.items()
        )

    def __str__(self) -> str:
        return self.called({})

    def called(self, names: Mapping[str, str]) -> str:
        """What readers call it; `names` are those of runs."""
        shown = {name: value for name, value in self.options.items() if _ABSENT.get(name) != value}
        named = [f"{name} {value}" if name in _WITH_NAMES else value for name, value in shown.items()]
        run = names.get(self.run, self.run)
        return f"{run} ({', '.join(named)})" if named else run


def _text(option: object) -> str:
    return f"{option:g}" if isinstance(option, int | float) else str(option)


def find_curve(ref: CurveRef, curves: Sequence[Curve]) -> Curve | None:
    """The curve that is meant, if it is there. Two that fit are an error of whoever named it."""
    found = [curve for curve in curves if ref.matches(curve)]
    if len(found) > 1:
        labels = ", ".join(curve.label for curve in found)
        raise UserError(f"{ref} names several curves ({labels}); name more of its options.")
    return found[0] if found else None


@dataclass(frozen=True)
class Guided:
    """One way to guide a run: by classifiers, by its own labels, or not at all. As SweepSettings has it."""

    classifiers: Sequence[str] = ()
    weights: Sequence[float] = (1.0,)
    reveal: float = 0.0
    label: int | None = None
    dcbg: Sequence[str] = DCBG[:1]


@dataclass(frozen=True)
class Grid:
    """A sweep: runs x steps x temperatures x sampling options, and of molecules x weights of guidance.

    `property` is what is measured of molecules; `classifiers` says which ones guide which run; `reveals` how much they
    tilt revealed tokens; `labels` the label that a run which was trained with labels is conditioned on,
    `label_weights` the weights of classifier-free guidance; `dcbg` the forms of discrete guidance, of which a curve has
    the best. `trap` names curves for which a figure shows what single
    temperatures make of them; `by_run` draws each run over all numbers of steps.
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
    dcbg: list[str] = field(default_factory=lambda: list(DCBG[:1]))
    trap: list[Any] = field(default_factory=list)
    by_run: bool = False

    def trap_curves(self) -> list[CurveRef]:
        return [CurveRef.parse(value, f"{self.title}, trap") for value in self.trap]

    def guides(self, run: str, folder: Path, tilts: bool) -> Iterator[Guided]:
        """By the run's own label, or by each of its classifiers with each tilt of revealed tokens, or not at all."""
        names = self.classifiers.get(run, [])
        if run in self.labels:
            yield Guided(weights=self.label_weights, label=self.labels[run])
        elif not names:
            yield Guided()
        for name in names:
            for reveal in self.reveals if tilts else [0.0]:
                yield Guided([str(folder / name)], self.weights, reveal, dcbg=self.dcbg)

    def holds(self, cell: Cell, n: int) -> bool:
        """Whether a cell belongs to the grid as it is now: an earlier version may have left others."""
        steps = cell.steps_fixed or cell.steps in self.steps
        options = all(value in self.options.get(name, [value]) for name, value in cell.options.items())
        inside = cell.run in self.runs and cell.n == n and steps and cell.temperature in self.temperatures
        return inside and options and self._guides(cell)

    def _guides(self, cell: Cell) -> bool:
        guide, names = cell.guidance, self.classifiers.get(cell.run, [])
        if guide is None:
            return cell.run not in self.labels and not names
        if guide.classifier is None:
            return cell.run in self.labels and guide.weight in self.label_weights
        # discrete guidance tilts nothing, and guidance by a gradient has one form
        way = (guide.dcbg or DCBG[0]) in self.dcbg if guide.noise is not None else guide.reveal in self.reveals
        return guide.classifier in names and guide.weight in self.weights and way


@dataclass(frozen=True)
class Claim:
    """At the same diversity the cost of `first` is at most 1 + margin times that of `second`; both ways if level.

    Cost is a perplexity, or one over a fraction of valid words: see Axes.cost.
    """

    paper: str
    sweep: str
    first: CurveRef
    second: CurveRef
    margin: float = 0.0
    level: bool = False
    steps: Sequence[int] = ()

    @classmethod
    def parse(cls, values: object, where: str) -> "Claim":
        declared = from_json(_Claim, values, where)
        curves = {name: CurveRef.parse(vars(declared)[name], where) for name in ("first", "second")}
        return cls(**{**vars(declared), **curves})

    @property
    def beyond(self) -> bool:
        """Is it no claim of the paper?"""
        return self.paper.startswith("Not in the paper")

    @property
    def runs(self) -> set[str]:
        return {self.first.run, self.second.run}


@dataclass(frozen=True)
class _Claim:
    paper: str
    sweep: str
    first: Any
    second: Any
    margin: float = 0.0
    level: bool = False
    steps: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Overview:
    """Runs of the same text in vocabularies of growing size, by method.

    Each is compared with that of `against` in its place. `longer` names, for some of them, the same run trained
    longer, and so for those of `against` in their place.
    """

    against: str
    families: dict[str, list[str]]
    longer: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NamedCurve:
    """A curve, and what a reader calls its method."""

    curve: CurveRef
    name: str


@dataclass(frozen=True)
class Advice:
    """A choice of a user: curves of a sweep, of which the first is compared with each of the rest."""

    where: str
    sweep: str
    runs: Sequence[NamedCurve]

    @classmethod
    def parse(cls, values: object, where: str) -> "Advice":
        declared = from_json(_Advice, values, where)
        named = [from_json(_Named, value, where) for value in declared.runs]
        runs = [NamedCurve(CurveRef.parse(one.curve, where), one.name) for one in named]
        return cls(declared.where, declared.sweep, runs)


@dataclass(frozen=True)
class _Advice:
    where: str
    sweep: str
    runs: list[Any]


@dataclass(frozen=True)
class _Named:
    curve: Any
    name: str


@dataclass(frozen=True)
class Scale:
    """One size of an experiment."""

    about: str
    runs: list[str]
    sweeps: list[str]
    train: dict[str, Any]
    steps: list[int]
    temperatures: list[float]
    n: int
    data: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)  # of single runs, classifiers and sweeps
    classify: dict[str, Any] = field(default_factory=dict)
    weights: list[float] = field(default_factory=list)
    characters: int | None = None  # of each text that are scored, where tokenizers differ
    scorers: list[str] = field(default_factory=list)  # as candi frontier takes them, or run:NAME of this experiment


@dataclass(frozen=True)
class File:
    """A file, its parts not yet checked."""

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
    per: str | None = None  # what the scorer's tokens are: perplexity is per byte, say
    chapter: int = 9  # its place on the page of results
    overview: dict[str, Any] | None = None
    advice: list[Any] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)  # what readers call the runs
