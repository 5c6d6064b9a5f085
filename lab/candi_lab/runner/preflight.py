"""Mistakes of an experiment that show on this machine before anything is trained."""

from collections.abc import Iterable
from pathlib import Path

from candi.base.errors import UserError, unknown
from candi.data.corpus import Corpus
from candi.data.labels import rules_of
from candi.data.molecules import PROPERTIES, need_rdkit
from candi.data.tokenizer import made_from_data
from candi.diffusion.methods.base import Method
from candi.diffusion.schedule_check import check_predictable
from candi.evaluation.scorers import load_scorer
from candi_lab.runner.experiment import Experiment
from candi_lab.runner.schema import RUN


def check(experiment: Experiment, data: str, work: Path) -> None:
    """Checks settings of all runs and classifiers, labels, properties, options and scorer runs."""
    methods = {run: _method(experiment, run, data, work) for run in experiment.runs}
    for run in experiment.predicted & methods.keys():
        check_predictable(methods[run])
    for run in experiment.scorer_runs:
        if not methods[run].causal:
            raise UserError(f"{experiment.name}: {run} cannot be a scorer, because it is not autoregressive.")
    for name, grid in experiment.grids.items():
        where = f"{experiment.name}, sweep {name}"
        if grid.property is not None and grid.property not in PROPERTIES:
            raise UserError(f"{where}: {unknown('property', grid.property, PROPERTIES)}")
        for option, values in grid.options.items():
            known = [value for run in grid.runs for value in methods[run].options.get(option, ())]
            for value in values:
                if value not in known:
                    raise UserError(f"{where}: {unknown(option, value, dict.fromkeys(known))}")
        for run, classifiers in grid.classifiers.items():
            for classifier in classifiers:
                settings = experiment.classifier(classifier, run, work, data, work / classifier)
                _label(settings.label, data, settings.text_field)


def check_files(experiment: Experiment, runs: Iterable[str]) -> None:
    """Checks that tokenizers of runs that are still to be trained, and outside scorers, can be loaded.

    It takes a while: call it only if something is left to do.
    """
    specs = {experiment.runs[run].get("tokenizer", "char") for run in runs}
    if experiment.tokenizer is not None:
        specs = (specs - {experiment.shared_tokenizer}) | {experiment.tokenizer}
    for spec in specs:
        if not made_from_data(spec) and not Path(spec).expanduser().exists():
            raise UserError(
                f"{experiment.name}: the tokenizer {spec!r} is not here; give its place, --tokenizer FOLDER."
            )
    for scorer in experiment.scorers:
        if not scorer.startswith(RUN):
            load_scorer(scorer)


def _method(experiment: Experiment, run: str, data: str, work: Path) -> Method:
    """Without a network, for what it declares. A label is checked beside it."""
    settings = experiment.settings(run, data, work / run)
    if settings.label is not None:
        _label(settings.label, data, settings.text_field)
    return settings.model_config(vocab_size=4).build_method(width=2)


def _label(label: str, data: str, field: str = "text") -> None:
    for rule in rules_of(label):
        name = rule.name
        if name in PROPERTIES and not Corpus(data, field).has(name):
            need_rdkit(f"The property {name}, which is no column of {data},")
