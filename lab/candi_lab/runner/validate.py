"""Mistakes of an experiment's file that show before anything is trained."""

from collections.abc import Iterable, Mapping, Sequence

from candi.base.config import from_json
from candi.base.errors import UserError, unknown
from candi.diffusion.guidance import DCBG
from candi_lab.runner.schema import (
    CLASSIFIERS,
    LEDGER,
    LOCKS,
    RUN,
    SWEEPS,
    Advice,
    Claim,
    File,
    Grid,
    Overview,
    Scale,
)
from candi_lab.verdicts.single_temperature import MOST_SHOWN


def validate(file: File, size: Scale, where: str, scale: str) -> None:
    """Raises a UserError that says where the mistake is."""
    here = f"{where}, scale {scale}"
    _names(file, size, where, here)
    _sizes(file, size, where, here)
    grids = {
        name: from_json(Grid, {**values, **size.changes.get(name, {})}, f"{where}, sweep {name}")
        for name, values in file.sweeps.items()
    }
    for name, grid in grids.items():
        _grid(file, size, grid, f"{where}, sweep {name}")
    for number, values in enumerate(file.claims, 1):
        _claim(Claim.parse(values, f"{where}, claim {number}"), grids, f"{where}, claim {number}")
    for number, values in enumerate(file.advice, 1):
        _advice(Advice.parse(values, f"{where}, advice {number}"), grids, f"{where}, advice {number}")
    _used(file, size, grids, here)


def _known(kind: str, names: Iterable[str], known: Iterable[str], where: str) -> None:
    options = list(known)
    for name in names:
        if name not in options:
            raise UserError(f"{where}: {unknown(kind, name, options)}")


def _names(file: File, size: Scale, where: str, here: str) -> None:
    for kind, table, taken in (
        ("run", file.runs, (CLASSIFIERS, SWEEPS, LOCKS)),
        ("sweep", file.sweeps, (LEDGER,)),
        ("classifier", file.classifiers, ()),
    ):
        for name, values in table.items():
            if not isinstance(values, Mapping):
                raise UserError(f"{where}: the {kind} {name} must be a table, not {values!r}.")
            if name in taken or "/" in name:
                raise UserError(f"{where}: a {kind} cannot be called {name!r}; choose another name.")
    _known("run", file.names, file.runs, f"{where}, names")
    called = list(file.names.values())
    if twice := next((name for name in called if called.count(name) > 1), None):
        raise UserError(f"{where}: two runs have the name {twice!r}; tell them apart.")
    names = [*file.runs, *file.classifiers, *file.sweeps]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(
            f"{where}: {twice!r} is the name of two of its runs, classifiers and sweeps; rename one of them."
        )
    for name, values in size.changes.items():
        if name not in names or not isinstance(values, Mapping):
            raise UserError(f"{here}: changes holds tables of settings by run, classifier or sweep; {name} is none.")
    for run, values in file.runs.items():
        if values.get("devices", 1) != 1 or values.get("nodes", 1) != 1:
            raise UserError(
                f"{where}, {run}: a run uses one device; begin the command once for each, which shares the work."
            )


def _sizes(file: File, size: Scale, where: str, here: str) -> None:
    if not size.runs or not size.sweeps or not size.steps or not size.temperatures:
        raise UserError(f"{here}: runs, sweeps, steps and temperatures must not be empty.")
    if size.n < 2 or min(size.steps) < 1 or min(size.temperatures) <= 0:
        raise UserError(f"{here}: a point needs at least 2 samples, 1 step and a temperature above 0.")
    if file.quality == "perplexity" and not size.scorers:
        raise UserError(f"{here}: perplexity needs scorers.")
    if file.diversity == "word_entropy" and size.characters is None:
        raise UserError(f"{here}: word_entropy needs characters, how many of each text are scored.")
    if file.quality == "mauve":
        raise UserError(f"{where}: mauve cannot be measured here; choose perplexity, valid_words or property.")
    _known("sweep", size.sweeps, file.sweeps, here)


def _grid(file: File, size: Scale, grid: Grid, where: str) -> None:
    _known("run", grid.runs, file.runs, where)
    trap = grid.trap_curves()
    different = [ref for index, ref in enumerate(trap) if ref not in trap[:index]]
    if trap and (not 2 <= len(different) == len(trap) <= MOST_SHOWN or grid.property is not None):
        raise UserError(f"{where}: a trap is shown of 2 to {MOST_SHOWN} different curves of texts.")
    _known("run", [ref.run for ref in trap], grid.runs, f"{where}, trap")
    if min([*grid.steps, 1]) < 1 or min([*grid.temperatures, 1.0]) <= 0:
        raise UserError(f"{where}: a point needs at least 1 step and a temperature above 0.")
    if file.quality in ("property", "valid_molecules") and grid.property is None:
        raise UserError(f"{where}: molecules need a property to measure.")
    for run, wanted in grid.labels.items():
        if run not in grid.runs or "label" not in file.runs.get(run, {}):
            raise UserError(f"{where}: {run} is no run of it that was trained with labels; give it a label.")
        if wanted != 1:  # the more of a property the better
            raise UserError(f"{where}: {run} can be conditioned on the label 1 alone, not on {wanted}.")
        if run in grid.classifiers:
            raise UserError(f"{where}: {run} is guided by its label or by classifiers, not by both.")
        if not grid.label_weights or min(grid.label_weights) < -1:
            raise UserError(f"{where}: label_weights must be some numbers of at least -1.")
    _known("run", grid.classifiers, grid.runs, where)
    _known("dcbg", grid.dcbg, DCBG, where)
    _known("classifier", [name for names in grid.classifiers.values() for name in names], file.classifiers, where)
    if grid.classifiers and not (grid.weights or size.weights):
        raise UserError(f"{where}: classifiers need weights.")


def _claim(claim: Claim, grids: Mapping[str, Grid], where: str) -> None:
    _known("sweep", [claim.sweep], grids, where)
    _known("run", sorted(claim.runs), grids[claim.sweep].runs, where)
    if claim.first == claim.second or claim.margin < 0:
        raise UserError(f"{where}: it compares two different curves with a margin of at least 0.")


def _advice(advice: Advice, grids: Mapping[str, Grid], where: str) -> None:
    _known("sweep", [advice.sweep], grids, where)
    _known("run", [one.curve.run for one in advice.runs], grids[advice.sweep].runs, where)
    if len(advice.runs) < 2:
        raise UserError(f"{where}: there is nothing to choose from; name two curves or more.")


def _used(file: File, size: Scale, grids: Mapping[str, Grid], here: str) -> None:
    """Every run of a scale is swept or scores others."""
    _known("run", size.runs, file.runs, here)
    scorers = scorer_runs(size.scorers)
    _known("run", scorers, size.runs, here)
    swept = {run for name in size.sweeps for run in grids[name].runs}
    for run in size.runs:
        if run not in swept | set(scorers):
            raise UserError(f"{here}: the run {run} is in none of its sweeps; leave it out.")


def scorer_runs(scorers: Sequence[str]) -> list[str]:
    """The runs of the experiment among the scorers."""
    return [scorer.removeprefix(RUN) for scorer in scorers if scorer.startswith(RUN)]


def parse_overview(file: File, where: str) -> Overview | None:
    if file.overview is None:
        return None
    where = f"{where}, overview"
    found = from_json(Overview, file.overview, where)
    _known("family", [found.against], found.families, where)
    for runs in [*found.families.values(), [*found.longer, *found.longer.values()]]:
        _known("run", runs, file.runs, where)
    if found.longer and not found.longer.keys() & set(found.families[found.against]):
        raise UserError(f"{where}: longer needs a run of {found.against} too, to compare the others with.")
    for runs in found.families.values():
        if len(runs) != len(found.families[found.against]):
            raise UserError(f"{where}: every family needs as many runs as {found.against}, in the same order.")
    return found
