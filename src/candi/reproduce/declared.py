"""What the YAML file of an experiment declares, and what can be told to be wrong with it before anything is trained."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from candi.config import from_json
from candi.errors import UserError, unknown
from candi.evaluation.single_temperature import MOST_SHOWN

RUN = "run:"  # before the name of a run of the experiment that judges the others
CLASSIFIERS, SWEEPS, LOCKS = "classifiers", "sweeps", "locks"  # folders beside those of the runs
LEDGER, JUDGES = "ledger", "judges"  # beside the points of the sweeps
# stages: what identifiability says, a judge packed, a classifier trained
PREDICTED, JUDGE, CLASSIFIER = "predict", "judge", "classifier"
LANDMARK = "landmark"  # a stage too: the data measured as samples are


@dataclass(frozen=True)
class Grid:
    """A sweep: runs x steps x temperatures x options of sampling, and of molecules x weights of guidance.

    `property` is what is measured of molecules; `classifiers` says which ones guide which run; `reveals` how much they
    tilt what is revealed; `labels` what a run that knows labels is asked for, `label_weights` how far beyond it. `trap`
    names curves for which a figure shows what single temperatures make of them.
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
    trap: list[str] = field(default_factory=list)

    def guides(self, run: str, folder: Path, tilts: bool) -> list[dict[str, Any]]:
        """By the run's own label, by each of its classifiers with each tilt of what is revealed, or not at all."""
        if run in self.labels:
            return [{"label": self.labels[run], "weights": self.label_weights}]
        return [
            {"classifiers": [str(folder / judge)], "weights": self.weights, "reveal": reveal}
            for judge in self.classifiers.get(run, [])
            for reveal in (self.reveals if tilts else [0.0])
        ] or [{}]


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

    @property
    def runs(self) -> set[str]:
        """Those that it compares, whatever the options of their curves."""
        return {run_of(self.first), run_of(self.second)}


@dataclass(frozen=True)
class Overview:
    """Runs of the same text in vocabularies of growing size, by method.

    Each is held against that of `against` in its place. `longer` names, for some of them, the same run trained longer,
    and so for those of `against` in their place.
    """

    against: str
    families: dict[str, list[str]]
    longer: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Advice:
    """A choice of a user: curves of a sweep and what they are called; the first is held against each of the rest."""

    where: str
    sweep: str
    runs: dict[str, str]


@dataclass(frozen=True)
class Scale:
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
    characters: int | None = None  # of each text that are judged, where tokenizers differ
    scorers: list[str] = field(default_factory=list)  # as candi frontier takes them, or run:NAME of this experiment


@dataclass(frozen=True)
class File:
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
    per: str | None = None  # what the judge's tokens are: quality is told per byte, say
    chapter: int = 9  # where it stands on the page of results
    overview: dict[str, Any] | None = None
    advice: list[Any] = field(default_factory=list)


def check(file: File, size: Scale, where: str, scale: str) -> None:
    """Whatever can be told to be wrong before anything is trained."""
    here = f"{where}, scale {scale}"
    for what, table in (("run", file.runs), ("sweep", file.sweeps), ("classifier", file.classifiers)):
        for name, values in table.items():
            if not isinstance(values, Mapping):
                raise UserError(f"{where}: the {what} {name} must be a table, not {values!r}.")
    for what, table, taken in (
        ("run", file.runs, (CLASSIFIERS, SWEEPS, LOCKS)),
        ("sweep", file.sweeps, (LEDGER,)),
        ("classifier", file.classifiers, ()),
    ):
        for name in table:
            if name in taken or "/" in name:
                raise UserError(f"{where}: a {what} cannot be called {name!r}; choose another name.")
    for run, values in file.runs.items():
        if values.get("devices", 1) != 1 or values.get("nodes", 1) != 1:
            raise UserError(
                f"{where}, {run}: a run uses one device; begin the command once for each, which shares the work."
            )
    names = [*file.runs, *file.classifiers, *file.sweeps]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(
            f"{where}: {twice!r} is the name of two of its runs, classifiers and sweeps; rename one of them."
        )
    for name, values in size.changes.items():
        if name not in names or not isinstance(values, Mapping):
            raise UserError(f"{here}: changes holds tables of settings by run, classifier or sweep; {name} is none.")
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
        grid = from_json(Grid, {**values, **size.changes.get(name, {})}, f"{where}, sweep {name}")
        for run in grid.runs:
            if run not in file.runs:
                raise UserError(f"{where}, sweep {name}: {unknown('run', run, file.runs)}")
        if grid.trap and (not 2 <= len(set(grid.trap)) == len(grid.trap) <= MOST_SHOWN or grid.property is not None):
            raise UserError(f"{where}, sweep {name}: a trap is shown of 2 to {MOST_SHOWN} different curves of texts.")
        for run in map(run_of, grid.trap):
            if run not in grid.runs:
                raise UserError(f"{where}, sweep {name}, trap: {unknown('run', run, grid.runs)}")
        if min([*grid.steps, 1]) < 1 or min([*grid.temperatures, 1.0]) <= 0:
            raise UserError(f"{where}, sweep {name}: a point needs at least 1 step and a temperature above 0.")
        _check_guides(file, size, grid, f"{where}, sweep {name}")
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
        runs = from_json(Grid, file.sweeps[claim.sweep], f"{where}, sweep {claim.sweep}").runs
        for run in sorted(claim.runs):
            if run not in runs:
                raise UserError(f"{where}, claim {number}: {unknown('run', run, runs)}")
        if claim.first == claim.second or claim.margin < 0:
            raise UserError(f"{where}, claim {number}: it compares two different curves with a margin of at least 0.")

    for number, values in enumerate(file.advice, 1):
        advice = from_json(Advice, values, f"{where}, advice {number}")
        if advice.sweep not in file.sweeps:
            raise UserError(f"{where}, advice {number}: {unknown('sweep', advice.sweep, file.sweeps)}")
        runs = from_json(Grid, file.sweeps[advice.sweep], f"{where}, sweep {advice.sweep}").runs
        for run in map(run_of, advice.runs):
            if run not in runs:
                raise UserError(f"{where}, advice {number}: {unknown('run', run, runs)}")
        if len(advice.runs) < 2:
            raise UserError(f"{where}, advice {number}: there is nothing to choose from; name two runs or more.")


def run_of(curve: str) -> str:
    """A curve is called after its run, with what it was sampled with in brackets where that is needed."""
    return curve.partition(" (")[0]


def _check_guides(file: File, size: Scale, grid: Grid, where: str) -> None:
    for run, wanted in grid.labels.items():
        if run not in grid.runs or "label" not in file.runs.get(run, {}):
            raise UserError(f"{where}: {run} is no run of it that knows labels; give it a label.")
        if wanted != 1:  # the more of a property the better
            raise UserError(f"{where}: {run} can be asked for the label 1 alone, not for {wanted}.")
        if run in grid.classifiers:
            raise UserError(f"{where}: {run} is guided by its label or by classifiers, not by both.")
        if not grid.label_weights or min(grid.label_weights) < -1:
            raise UserError(f"{where}: label_weights must be some numbers of at least -1.")
    for run, judges in grid.classifiers.items():
        if run not in grid.runs:
            raise UserError(f"{where}: {unknown('run', run, grid.runs)}")
        for judge in judges:
            if judge not in file.classifiers:
                raise UserError(f"{where}: {unknown('classifier', judge, file.classifiers)}")
    if grid.classifiers and not (grid.weights or size.weights):
        raise UserError(f"{where}: classifiers need weights.")


def overview(file: File, where: str) -> Overview | None:
    if file.overview is None:
        return None
    found = from_json(Overview, file.overview, f"{where}, overview")
    if found.against not in found.families:
        raise UserError(f"{where}, overview: {unknown('family', found.against, found.families)}")
    for runs in [*found.families.values(), [*found.longer, *found.longer.values()]]:
        for run in runs:
            if run not in file.runs:
                raise UserError(f"{where}, overview: {unknown('run', run, file.runs)}")
    if found.longer and not found.longer.keys() & set(found.families[found.against]):
        raise UserError(f"{where}, overview: longer needs a run of {found.against} too, to hold the others against.")
    for runs in found.families.values():
        if len(runs) != len(found.families[found.against]):
            raise UserError(
                f"{where}, overview: every family needs as many runs as {found.against}, in the same order."
            )
    return found
