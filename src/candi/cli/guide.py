"""candi guide"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jsonargparse import Namespace
from torch.nn import functional as F

from candi.base.config import read_json
from candi.base.errors import UserError, unknown
from candi.cli.parsing import add_device, listed, parse, parser
from candi.cli.sampling_flags import (
    add_batch_size,
    add_class_label,
    add_classifier,
    add_dcbg,
    add_sampling,
    class_label,
    sampling_options,
)
from candi.data.cache import default_folder
from candi.data.corpus import Corpus
from candi.data.labels import Label
from candi.data.molecules import PROPERTIES, canonical_corpus, need_rdkit, properties, speller
from candi.evaluation.molecules import Molecules, molecules
from candi.evaluation.wordfilter import WordFilter
from candi.evaluation.words import Known
from candi.hub.loading import load, load_guide, locate
from candi.hub.shipped import MOLECULES
from candi.model.classifiers import ClassifierConfig
from candi.model.model import Model
from candi.nets.classifier import Classifier
from candi.training.run import SETTINGS
from candi.views.molecules import Drawn, write_page, write_sdf, write_table

LIKED = "liked"  # the column of p(target | molecule) by the classifier, without noise
_HISTOGRAM = 4000  # molecules of the training data that a histogram is made of


def run(arguments: Sequence[str]) -> None:
    flags = parser("guide", "RUN --classifier C", "Generate molecules that a classifier prefers.")
    flags.add_argument("run", type=str, help="A run that was trained on molecules.")
    add_classifier(flags)
    add_dcbg(flags)
    add_class_label(flags)
    flags.add_argument("--n", type=int, default=64, help="How many samples.")
    add_sampling(flags)
    flags.add_argument("--property", type=str, default="qed,rings", help=f"To measure: {', '.join(PROPERTIES)}.")
    add_batch_size(flags)
    add_device(flags)
    flags.add_argument("--out", type=Path, default=Path("molecules"), help="Folder for the results.")
    given = parse(flags, arguments)
    need_rdkit("Drawing and measuring molecules")
    names = listed(given.property)
    for name in names:
        if name not in PROPERTIES:
            raise unknown("property", name, PROPERTIES)
    model = load(given.run, given.device)
    if not model.tokenizer.framed:
        raise UserError(f"{given.run} was not trained on molecules; train it with --tokenizer smiles.")
    _check(given)
    known, some = _training_data(given.run)
    samples, config, liked = _samples(model, given)
    wanted = None if config is None or config.column else Label.of(config.label).name
    if wanted in PROPERTIES and wanted not in names:
        names.append(wanted)
    given.steps = model.with_defaults(steps=given.steps)["steps"]
    _write(given, names, samples, config, known, some, liked)


def _check(given: Namespace) -> None:
    """Refuse what cannot be made, before anything is."""
    if given.n < 1 or given.batch_size < 1:
        raise UserError("At least 1 sample in batches of at least 1 is needed.")
    if not math.isfinite(given.weight):
        raise UserError(f"The weight must be a number, not {given.weight}.")
    if given.classifier is None and given.class_label is None:
        raise UserError(
            "Say by what to guide: --classifier, a folder or the property of one that came with the model, or "
            "--class-label 1 for a run that was trained with labels."
        )
    if given.classifier is None and (given.reveal or given.dcbg is not None):
        raise UserError("--reveal and --dcbg are for a --classifier; leave them out.")
    try:
        given.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"The folder {given.out} cannot be made ({error}); choose another --out.") from None


def _samples(model: Model, given: Namespace) -> tuple[list[str], ClassifierConfig | None, list[float] | None]:
    """Samples, what the classifier is, and its p(target | sample) of each."""
    guide, config, network = None, None, None
    if given.classifier is not None:
        guide, network, config = load_guide(
            given.classifier, model, locate(given.run), given.target, given.weight, reveal=given.reveal,
            dcbg=given.dcbg,
        )  # fmt: skip
    options = {**sampling_options(given), **class_label(given)}
    samples = model.generate(given.n, batch_size=given.batch_size, guide=guide, **options)
    return samples, config, None if network is None else _liked(model, network, given.target, samples)


@torch.no_grad()
def _liked(model: Model, network: Classifier, target: int, samples: Sequence[str]) -> list[float]:
    """p(y | x) of each sample as it was written."""
    log_probability, length, found = network.log_probability(target), model.config.length, []
    for text in samples:
        row = model.tokenizer.whole_row(text, length)
        inputs = F.one_hot(torch.from_numpy(row)[None], network.symbols).float().to(model.device)
        found.append(float(log_probability(inputs, torch.zeros(1, device=model.device)).exp()))
    return found


def _write(
    given: Namespace, names: Sequence[str], samples: Sequence[str], config: ClassifierConfig | None,
    known: Known | None, some: Sequence[str], liked: Sequence[float] | None,
) -> None:  # fmt: skip
    found = molecules(samples, names, known)
    computed = list(names)
    if liked is not None:
        found.values[LIKED] = [value for value, text in zip(liked, found.smiles, strict=True) if text is not None]
        names = [*names, LIKED]
    drawn: dict[str, Drawn] = {}
    for text, *values in zip((s for s in found.smiles if s is not None), *found.values.values(), strict=True):
        novel = None if known is None else text not in known
        drawn.setdefault(text, Drawn(text, dict(zip(names, values, strict=True)), novel))  # as it was spelled first
    training = {name: properties(some, name).tolist() for name in computed} if some else {}
    facts = _facts(found, computed, config, given.target)
    write_table(given.out / "molecules.csv", samples, found.smiles, drawn)
    write_sdf(given.out / "molecules.sdf", list(drawn.values()))
    write_page(given.out / "molecules.html", _title(given), facts, list(drawn.values()), found.values, training)
    for text in found.distinct:
        print(text, *(f"{name} {value:.3f}" for name, value in drawn[text].values.items()), sep="\t")
    print("  ".join(f"{name} {value}" for name, value in facts.items()), file=sys.stderr)
    print(f"Open {given.out / 'molecules.html'} in a browser; molecules.csv and .sdf lie beside it.", file=sys.stderr)


def _facts(found: Molecules, computed: Sequence[str], config: ClassifierConfig | None, target: int) -> dict[str, str]:
    facts = {"samples": str(len(found.smiles)), "valid": f"{found.valid:.1%}", "unique": f"{found.unique:.1%}"}
    if found.novel is not None:
        facts["new among them"] = f"{found.novel:.1%}"
    facts |= {f"mean {name}": f"{found.mean(name):.3f}" for name in found.values}
    name = "" if config is None or config.column else Label.of(config.label).name  # a column's cannot be computed
    if config is not None and name in computed:
        hit = found.hit(name, config.threshold)
        rule = f"{name} of at least {config.threshold:.3g}" if target else f"{name} below {config.threshold:.3g}"
        facts[rule] = f"{hit if target else 1 - hit:.1%}"
    return facts


def _title(given: Namespace) -> str:
    by = (
        f"guided by {Path(given.classifier).name}, weight {given.weight:g}"
        if given.classifier
        else f"label {given.class_label}"
    )
    return f"Molecules of {given.run}, {by}, {given.steps} steps"


def _packed_molecules(file: Path) -> WordFilter:
    known = WordFilter.read(file)
    if known.speller != speller():
        print(f"What the model knows was spelled by {known.speller}, here is {speller()}: where they differ, a known "
              "molecule is called new.", file=sys.stderr)  # fmt: skip
    return known


def _training_data(source: str) -> tuple[Known | None, list[str]]:
    """What the run was trained on, to say what is new, and some of it, for histograms.

    Of a run all of it, if it is still there as it was; a packed model has a filter, of which nothing can be listed.
    """
    run, packed = Path(source), locate(source) / MOLECULES
    if not (run / SETTINGS).exists():
        return _packed_molecules(packed) if packed.exists() else None, []
    record = read_json(run / SETTINGS)
    settings = record["settings"]
    if "data" not in settings:  # a run of candi.fit
        return None, []
    corpus = Corpus(settings["data"], settings["text_field"])
    try:
        same = corpus.fingerprint == record["data"]
    except UserError:
        same = False
    if not same:
        print(f"The training data {settings['data']} is not there as it was: nothing is called new.", file=sys.stderr)
        return None, []
    known = canonical_corpus(corpus, default_folder())
    some = np.random.default_rng(0).permutation(sorted(known))[:_HISTOGRAM]
    return known, some.tolist()
