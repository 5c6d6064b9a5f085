"""candi guide"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jsonargparse import Namespace
from torch.nn import functional as F

from candi.base.errors import UserError
from candi.base.terminal import visible
from candi.cli.parsing import add_device, listed, parse, parser
from candi.cli.sampling_flags import (
    add_batch_size,
    add_classifier,
    add_dcbg,
    add_label,
    add_sampling,
    label_options,
    sampling_options,
)
from candi.data.cache import default_folder
from candi.data.corpus import Corpus
from candi.data.documents import CHAT
from candi.data.molecules import canonical_corpus, need_rdkit, speller
from candi.data.properties import Kind, check_property, kind_of, known_properties, properties
from candi.data.tokenizer import Tokenizer
from candi.evaluation.sequences import Measured, measured
from candi.evaluation.wordfilter import WordFilter
from candi.evaluation.words import Known
from candi.hub.loading import load, load_guide, locate
from candi.hub.shipped import MOLECULES
from candi.model.classifiers import ClassifierConfig, load_classifier
from candi.model.model import Model
from candi.nets.classifier import Classifier
from candi.training.run import SETTINGS, read_record
from candi.views.sequences import Drawn, write_page, write_sdf, write_table

LIKED, JUDGED = "liked", "judged"  # columns of p(class | sample) by the classifier, and by another one
_HISTOGRAM = 4000  # sequences of the training data that a histogram is made of
_MEASURED = {"molecules": "qed,rings", "protein": "length,charge", "dna": "length,gc", "text": "length,words"}


def run(arguments: Sequence[str]) -> None:
    flags = parser("guide", "RUN --classifier C", "Generate molecules, peptides or texts that a classifier prefers.")
    flags.add_argument("run", type=str, help="A run that was trained on molecules, or on rows of another kind.")
    add_classifier(flags)
    help = "Another classifier of clean sequences, with the same classes, that says how well it worked."
    flags.add_argument("--judge", type=str | None, default=None, help=help)
    add_dcbg(flags)
    add_label(flags)
    flags.add_argument("--n", type=int, default=64, help="How many samples.")
    add_sampling(flags)
    flags.add_argument("--property", type=str | None, default=None, help="To measure: qed, rings, logp, weight of "
                       "molecules; length, charge, hydropathy, weight of proteins; length, gc of DNA; length, words of "
                       "text.")  # fmt: skip
    add_batch_size(flags)
    add_device(flags)
    flags.add_argument("--out", type=Path | None, default=None, help="Folder for the results: molecules, or guided.")
    given = parse(flags, arguments)
    _check(given)
    model = load(given.run, given.device)
    guided = Guided(given, model)
    guided.check()
    guided.make()


def _check(given: Namespace) -> None:
    """Refuse what cannot be made, before anything is."""
    if given.n < 1 or given.batch_size < 1:
        raise UserError("At least 1 sample in batches of at least 1 is needed.")
    if not math.isfinite(given.weight):
        raise UserError(f"The weight must be a number, not {given.weight}.")
    if given.classifier is None and given.label is None:
        raise UserError(
            "Say by what to guide: --classifier, a folder or the property of one that came with the model, or "
            "--label 1 for a run that was trained with labels."
        )
    if given.classifier is None and (given.reveal or given.dcbg is not None or given.judge is not None):
        raise UserError("--reveal, --dcbg and --judge are for a --classifier; leave them out.")


@dataclass(frozen=True)
class Guided:
    """What was asked of a model."""

    given: Namespace
    model: Model

    @cached_property
    def kind(self) -> Kind:
        return kind_of(self.model.tokenizer)

    @property
    def molecules(self) -> bool:
        return self.kind == "molecules"

    @cached_property
    def names(self) -> list[str]:
        """Properties that are measured."""
        return listed(self.given.property or _MEASURED[self.kind])

    @cached_property
    def out(self) -> Path:
        return Path(self.given.out or ("molecules" if self.molecules else "guided"))

    def check(self) -> None:
        """The same, of what the model decides."""
        if self.molecules:
            need_rdkit("Drawing and measuring molecules")
        elif not self.model.rows:
            raise UserError(
                f"{self.given.run} writes one stream, which has no samples of their own to guide; train it with --rows "
                "or --tokenizer smiles."
            )
        for name in self.names:
            check_property(name, self.kind)
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"The folder {self.out} cannot be made ({error}); choose another --out.") from None

    def make(self) -> None:
        known, some = _training_data(self.given.run, self.model.tokenizer)
        guide, config, network, judge = None, None, None, None
        given, model = self.given, self.model
        if given.classifier is not None:
            guide, network, config = load_guide(
                given.classifier, model, locate(given.run), given.target, given.weight, reveal=given.reveal,
                dcbg=given.dcbg,
            )  # fmt: skip
            judge = None if given.judge is None else _judge(given.judge, model, config)
        options = {**sampling_options(given), **label_options(given)}
        samples = model.generate(given.n, batch_size=given.batch_size, guide=guide, **options)
        found = measured(samples, self._with_wanted(config), known, self.kind)
        opinions = {LIKED: network, JUDGED: judge}
        said = {name: self._liked(one, config, samples) for name, one in opinions.items() if one is not None and config}
        self._write(samples, found, said, config, known, some)

    def _with_wanted(self, config: ClassifierConfig | None) -> list[str]:
        """The property that the classifier knows is measured as well, if it can be computed."""
        name = _computed(config)
        return self.names + ([name] if name in known_properties(self.kind) and name not in self.names else [])

    @torch.no_grad()
    def _liked(self, network: Classifier, config: ClassifierConfig, samples: Sequence[str]) -> list[float]:
        """p(y | x) of each sample as it was written."""
        model, found = self.model, []
        log_probability = network.log_probability(config.taught.number(self.given.target))
        for text in samples:
            row = model.tokenizer.whole_row(text, model.config.length)
            inputs = F.one_hot(torch.from_numpy(row)[None], network.symbols).float().to(model.device)
            found.append(float(log_probability(inputs, torch.zeros(1, device=model.device)).exp()))
        return found

    def _write(
        self, samples: Sequence[str], found: Measured, said: dict[str, list[float]], config: ClassifierConfig | None,
        known: Known | None, some: Sequence[str],
    ) -> None:  # fmt: skip
        computed = list(found.values)
        for name, values in said.items():
            found.values[name] = [value for value, text in zip(values, found.texts, strict=True) if text is not None]
        drawn: dict[str, Drawn] = {}
        for text, *values in zip((s for s in found.texts if s is not None), *found.values.values(), strict=True):
            novel = None if known is None else text not in known
            drawn.setdefault(text, Drawn(text, dict(zip(found.values, values, strict=True)), novel))  # as spelled first
        training = {name: properties(some, name, self.kind).tolist() for name in computed} if some else {}
        facts = self._facts(found, said, config)
        stem = "molecules" if self.molecules else "samples"
        write_table(self.out / f"{stem}.csv", samples, found.texts, drawn, self.molecules)
        if self.molecules:
            write_sdf(self.out / "molecules.sdf", list(drawn.values()))
        page = self.out / f"{stem}.html"
        write_page(page, self._title(), facts, list(drawn.values()), found.values, training, self.molecules)
        for text in found.distinct:
            print(visible(text), *(f"{name} {value:.3f}" for name, value in drawn[text].values.items()), sep="\t")
        print("  ".join(f"{name} {value}" for name, value in facts.items()), file=sys.stderr)
        beside = "molecules.csv and .sdf lie" if self.molecules else "samples.csv lies"
        print(f"Open {page} in a browser; {beside} beside it.", file=sys.stderr)

    def _facts(self, found: Measured, said: dict[str, list[float]], config: ClassifierConfig | None) -> dict[str, str]:
        facts = {"samples": str(len(found.texts))}
        if self.molecules:
            facts["valid"] = f"{found.valid:.1%}"
        facts["unique"] = f"{found.unique:.1%}"
        if found.novel is not None:
            facts["new among them"] = f"{found.novel:.1%}"
        facts |= {f"mean {name}": f"{found.mean(name):.3f}" for name in found.values}
        if config is None:
            return facts
        name, wanted = _computed(config), config.taught.number(self.given.target)
        if name in found.values and config.threshold is not None:
            hit = found.hit(name, config.threshold)
            rule = f"{name} of at least {config.threshold:.3g}" if wanted else f"{name} below {config.threshold:.3g}"
            facts[rule] = f"{hit if wanted else 1 - hit:.1%}"
        elif not self.molecules:
            asked = f"{config.label} {config.classes[wanted]}"
            who = {LIKED: "the classifier", JUDGED: "the judge"}
            facts |= {f"{asked} by {who[name]}": f"{np.mean(np.array(p) > 0.5):.1%}" for name, p in said.items()}
        return facts

    def _title(self) -> str:
        given = self.given
        by = f"label {given.label}" if given.classifier is None else (
            f"guided by {Path(given.classifier).name}, weight {given.weight:g}"
        )  # fmt: skip
        steps = self.model.with_defaults(steps=given.steps)["steps"]
        return f"{'Molecules' if self.molecules else 'Samples'} of {given.run}, {by}, {steps} steps"


def _computed(config: ClassifierConfig | None) -> str:
    """The property that a classifier knows, if it is no column, which cannot be computed of samples."""
    return "" if config is None or config.column else config.taught.name


def _judge(source: str, model: Model, config: ClassifierConfig) -> Classifier:
    """A classifier that reads clean sequences and knows the same classes."""
    network, other = load_classifier(source, model.device)
    if (other.label, other.classes, other.tokenizer) != (config.label, config.classes, config.tokenizer):
        raise UserError(f"The judge {source} tells {other.label} apart, not {config.label}; train one that does.")
    if other.noise is not None:
        raise UserError(f"The judge {source} reads noise; train one of clean sequences, without --noisy.")
    return network


def _packed_molecules(file: Path) -> WordFilter:
    known = WordFilter.read(file)
    if known.speller != speller():
        print(f"What the model knows was spelled by {known.speller}, here is {speller()}: where they differ, a known "
              "molecule is called new.", file=sys.stderr)  # fmt: skip
    return known


def _training_data(source: str, tokenizer: Tokenizer) -> tuple[Known | None, list[str]]:
    """What the run was trained on, to say what is new, and some of it, for histograms.

    Of a run all of it, if it is still there as it was; a packed model has a filter, of which nothing can be listed.
    """
    run, packed = Path(source), locate(source) / MOLECULES
    if not (run / SETTINGS).exists():
        return _packed_molecules(packed) if packed.exists() else None, []
    record = read_record(run)
    settings = record["settings"]
    if "data" not in settings or settings.get("stream"):  # a run of candi.fit, or data that nobody reads as a whole
        return None, []
    of_rows = (settings.get("rows"), settings.get("chat", CHAT))
    corpus = Corpus(settings["data"], settings["text_field"], *of_rows)
    try:
        same = corpus.fingerprint == record["data"] and corpus.prepared is None
    except UserError:
        same = False
    if not same:
        print(f"The training data {settings['data']} is not there as it was: nothing is called new.", file=sys.stderr)
        return None, []
    if tokenizer.framed:
        known = canonical_corpus(corpus, default_folder())
    else:
        known = frozenset(p.text if p.tokens is None else tokenizer.decode(p.tokens) for p in corpus.pieces())
    listed = sorted(known)
    return known, [listed[place] for place in np.random.default_rng(0).permutation(len(listed))[:_HISTOGRAM]]
