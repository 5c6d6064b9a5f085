"""candi guide"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jsonargparse import Namespace
from torch.nn import functional as F

from candi.classifiers import ClassifierConfig, check_classifier, load_classifier
from candi.cli.parsing import parse, parser
from candi.cli.walking import method_options
from candi.config import read_json
from candi.data.cache import default_folder
from candi.data.corpus import Corpus
from candi.data.labels import Label
from candi.data.molecules import PROPERTIES, canonical_corpus, need_rdkit, properties, speller
from candi.errors import UserError, unknown
from candi.evaluation.molecules import Molecules, molecules
from candi.evaluation.wordfilter import WordFilter
from candi.evaluation.words import Known
from candi.guidance import guide_for
from candi.loading import load, locate
from candi.model import Model
from candi.nets.classifier import Classifier
from candi.report.molecules import Drawn, write_page, write_sdf, write_table
from candi.shipped import CLASSIFIERS, MOLECULES, classifier_of
from candi.training.run import SETTINGS

LIKED = "liked"  # how likely the classifier finds its target in a molecule, noise left aside
_HISTOGRAM = 4000  # molecules of the training data that a histogram is made of


def run(arguments: Sequence[str]) -> None:
    flags = parser("guide", "RUN --classifier C", "Generate molecules that a classifier likes.")
    flags.add_argument("run", type=str, help="A run that was trained on molecules.")
    flags.add_argument("--classifier", type=str | None, default=None, help="Folder of candi train-classifier, "
                       "or the property of one that came with the run.")  # fmt: skip
    flags.add_argument("--property", type=str | None, default=None, help="Guide by a classifier that was packed with "
                       "the model.")  # fmt: skip
    flags.add_argument("--target", type=int, default=1, help="The label that is wanted.")
    flags.add_argument("--weight", type=float, default=1.0, help="How much the classifier counts; 0 is not at all.")
    flags.add_argument(
        "--reveal", type=float, default=0.0, help="How much it tilts revealed tokens (Gaussian methods)."
    )
    flags.add_argument("--exact", type=bool, default=False, nargs="?", const=True, help="Discrete guidance without "
                       "its first-order shortcut: reads every neighbour.")  # fmt: skip
    flags.add_argument("--label", type=int | None, default=None, help="Ask a class-conditional run for a label.")
    flags.add_argument("--label_weight", type=float, default=0.0, help="How far beyond the label (classifier-free).")
    flags.add_argument("--n", type=int, default=64, help="How many samples.")
    flags.add_argument(
        "--steps", type=int | None, default=None, help="Denoising steps; by default as the model recommends."
    )
    flags.add_argument("--temperature", type=float | None, default=None, help="Below 1 is safer, above 1 wilder.")
    flags.add_argument("--prompt", type=str, default=None, help="How molecules begin: a scaffold to grow from.")
    flags.add_argument("--infill", type=str, default=None, help="A template: each blank is a token to fill.")
    flags.add_argument("--blank", type=str, default="_", help="The character that is a blank in --infill.")
    flags.add_argument("--seed", type=int, default=0, help="The same seed gives the same samples.")
    for name, values in method_options().items():
        flags.add_argument(f"--{name}", type=str | None, default=None, help=f"Option of some methods: {values}.")
    flags.add_argument("--properties", type=str, default="qed,rings", help=f"To compute: {', '.join(PROPERTIES)}.")
    flags.add_argument("--batch", type=int, default=64, help="Samples made at once.")
    flags.add_argument("--device", type=str, default="auto", help="auto, cpu or cuda.")
    flags.add_argument("--out", type=Path, default=Path("molecules"), help="Folder for the results.")
    given = parse(flags, arguments)
    need_rdkit("Drawing and measuring molecules")
    names = given.properties.split(",")
    for name in names:
        if name not in PROPERTIES:
            raise unknown("property", name, PROPERTIES)
    if given.property is not None:
        given.classifier = _packed(given)
    elif given.classifier is not None:
        given.classifier = classifier_of(locate(given.run), given.classifier)
    model = load(given.run, given.device)
    if model.tokenizer.pad is None:
        raise UserError(f"{given.run} was not trained on molecules; train it with --tokenizer smiles.")
    _check(given)
    known, some = _training_data(given.run)
    advice = model.settled(steps=given.steps, temperature=given.temperature)
    given.steps, given.temperature = advice["steps"], advice["temperature"]
    samples, config, liked = _samples(model, given)
    wanted = None if config is None or config.column else Label.of(config.label).name
    if wanted in PROPERTIES and wanted not in names:
        names.append(wanted)
    _write(given, names, samples, config, known, some, liked)


def _packed(given: Namespace) -> str:
    """The folder of a classifier that came with the model."""
    if given.classifier is not None:
        raise UserError("--property takes a classifier that came with the model; leave out --classifier.")
    folder = locate(given.run) / CLASSIFIERS
    known = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if not known:
        raise UserError(f"{given.run} came without classifiers; give one with --classifier.")
    if given.property not in known:
        raise unknown("packed classifier", given.property, known)
    return str(folder / given.property)


def _check(given: Namespace) -> None:
    """What can be told before anything is made."""
    if given.n < 1 or given.batch < 1:
        raise UserError("At least 1 sample in batches of at least 1 is needed.")
    if not math.isfinite(given.weight):
        raise UserError(f"The weight must be a number, not {given.weight}.")
    if given.classifier is None and given.label is None:
        raise UserError(
            "Say by what to guide: --property qed where a classifier came with the model, --classifier C, or --label 1 "
            "for a class-conditional run."
        )
    if given.classifier is None and (given.reveal or given.exact):
        raise UserError("--reveal and --exact are for a --classifier; leave them out.")
    if given.label is None and given.label_weight:
        raise UserError("--label_weight needs a --label to go beyond.")
    try:
        given.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"The folder {given.out} cannot be made ({error}); choose another --out.") from None


def _samples(model: Model, given: Namespace) -> tuple[list[str], ClassifierConfig | None, list[float] | None]:
    """With the classifier and, of each sample, how likely it finds the target."""
    guide, config, network = None, None, None
    if given.classifier is not None:
        network, config = load_classifier(given.classifier, model.device)
        method, kind = model.denoiser.method, model.config.method
        check_classifier(config, given.classifier, method, kind, model.tokenizer.fingerprint)
        if given.exact and method.gaussian() is not None:
            raise UserError(f"--exact is for discrete guidance; {kind} is guided by a gradient.")
        judge = network.log_probability(given.target)
        guide = guide_for(model.denoiser.method, judge, given.weight, reveal=given.reveal, first_order=not given.exact)
    walk = ("steps", "temperature", "prompt", "infill", "blank", "seed", "label", "label_weight", *method_options())
    samples = model.generate(given.n, batch=given.batch, guide=guide, **{name: given[name] for name in walk})
    return samples, config, None if network is None else _liked(model, network, given.target, samples)


@torch.no_grad()
def _liked(model: Model, network: Classifier, target: int, samples: Sequence[str]) -> list[float]:
    """p(y | x) of each sample as it was written."""
    judge, length, found = network.log_probability(target), model.config.length, []
    for text in samples:
        row = model.tokenizer.whole_row(text, length)
        inputs = F.one_hot(torch.from_numpy(row)[None], network.symbols).float().to(model.device)
        found.append(float(judge(inputs, torch.zeros(1, device=model.device)).exp()))
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
        else f"label {given.label}"
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
