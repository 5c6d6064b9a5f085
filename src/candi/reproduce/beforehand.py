"""What can be told to be wrong with an experiment on this machine before anything is trained."""

from collections.abc import Iterable
from pathlib import Path

from candi.analysis.studies import check_predictable
from candi.codebook import Codebook
from candi.data.corpus import Corpus
from candi.data.labels import Label
from candi.data.molecules import PROPERTIES, need_rdkit
from candi.data.tokenizer import made_from_data
from candi.errors import UserError, unknown
from candi.evaluation.scorers import load_scorer
from candi.methods.base import Method
from candi.reproduce.declared import RUN
from candi.reproduce.experiment import Experiment


def check(experiment: Experiment, data: str, work: Path) -> None:
    """Settings of all runs and classifiers, labels, properties, options and judges."""
    methods = {run: _method(experiment, run, data, work) for run in experiment.runs}
    for run in experiment.foreseen & methods.keys():
        check_predictable(methods[run])
    for judge in experiment.judges:
        if not methods[judge].causal:
            raise UserError(f"{experiment.name}: {judge} cannot judge, because it is not autoregressive.")
    for name, grid in experiment.grids.items():
        where = f"{experiment.name}, sweep {name}"
        if grid.property is not None and grid.property not in PROPERTIES:
            raise UserError(f"{where}: {unknown('property', grid.property, PROPERTIES)}")
        for option, values in grid.options.items():
            known = [value for run in grid.runs for value in methods[run].options.get(option, ())]
            for value in values:
                if value not in known:
                    raise UserError(f"{where}: {unknown(option, value, dict.fromkeys(known))}")
        for run, judges in grid.classifiers.items():
            for judge in judges:
                settings = experiment.classifier(judge, run, work, data, work / judge)
                _label(settings.label, data, settings.text_field)


def check_means(experiment: Experiment, runs: Iterable[str]) -> None:
    """That tokenizers of runs that are still to be trained, and judges from outside, can be loaded.

    It takes a while: only if there is something for them to do.
    """
    specs = {experiment.runs[run].get("tokenizer", "char") for run in runs}
    if experiment.tokenizer is not None:
        specs = (specs - {experiment.shared_tokenizer}) | {experiment.tokenizer}
    for spec in specs:
        if not made_from_data(spec) and not Path(spec).expanduser().exists():
            raise UserError(
                f"{experiment.name}: the tokenizer {spec!r} is not here; say where it lies, --tokenizer FOLDER."
            )
    for scorer in experiment.scorers:
        if not scorer.startswith(RUN):
            load_scorer(scorer)


def _method(experiment: Experiment, run: str, data: str, work: Path) -> Method:
    """Without a network, for what it declares. A label is checked beside it."""
    settings = experiment.settings(run, data, work / run)
    if settings.label is not None:
        _label(settings.label, data, settings.text_field)
    assert settings.settings is not None
    return settings.settings.build(Codebook(4, 2))


def _label(label: str, data: str, field: str = "text") -> None:
    name = Label.of(label).name
    if name in PROPERTIES and not Corpus(data, field).has(name):
        need_rdkit(f"The property {name}, which is no column of {data},")
