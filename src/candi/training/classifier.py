"""Training a classifier on clean sequences, or on what a method's noise makes of them: by the same loop as a model."""

import copy
import dataclasses
import hashlib
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from candi.base.errors import UserError, unknown
from candi.base.files import write_text
from candi.base.rng import Rng
from candi.base.types import Labels, Mask, Tokens
from candi.data.cache import default_folder
from candi.data.corpus import Corpus
from candi.data.labels import Rule, rules_of
from candi.data.properties import kind_of
from candi.data.rows import Rows, load_documents
from candi.data.tokenizer import Tokenizer
from candi.diffusion.methods.base import Method
from candi.model.checkpoint import step_of
from candi.model.classifiers import QUALITY, ClassifierConfig, Quality
from candi.model.files import CONFIG, TOKENIZER, WEIGHTS, read_weights
from candi.model.model import Model
from candi.nets.classifier import READERS, Classifier
from candi.nets.dit import DiTSettings
from candi.training.devices import connect
from candi.training.fit import claimed, disk_errors
from candi.training.loop import Loop, newest
from candi.training.objective import Objective, RowNumbers
from candi.training.run import Run, RunRecord
from candi.training.settings import FitSettings
from candi.training.team import together

SMALL = DiTSettings(width=128, blocks=3, heads=4, conditioning=64)  # the transformer of a classifier by default
_HELD_OUT = 4096  # sequences, at most, that the quality is measured on


@dataclass(frozen=True, kw_only=True)
class ClassifierSettings(FitSettings):
    """A classifier for a run.

    Args:
        run: The run whose tokenizer, length and (with --noisy) noise it reads.
        data: Sequences, of any kind that candi train takes.
        label: A column of classes, or a number and a rule: qed:top, rings>=2, or COLUMN>=0.5.
        kind: transformer, recurrent, or bag: how often each token occurs, in no order.
        noisy: Learn to read the run's noise, as discrete guidance needs it; by default clean sequences alone.
        text_field: Column with the sequences in tables.
        cache: Folder for tokenized data; by default under the user's cache folder.
        valid_fraction: Fraction of the sequences kept for validation.
        skip_bad: Leave out sequences that are too long or cannot be read, instead of refusing them.
        model: The transformer; its width and blocks are those of the other kinds too.
    """

    run: str
    data: str
    label: str
    kind: Literal["transformer", "recurrent", "bag"] = "transformer"
    noisy: bool = False
    text_field: str = "text"
    cache: Path | None = None
    valid_fraction: float = 0.05
    skip_bad: bool = False
    steps: int = 2000
    batch_size: int = 128
    learning_rate: float = 1e-3
    warmup: int = 100
    ema: float = 0.0
    keep: int = 1
    sample_every: int = 0
    devices: Literal["auto"] | int = 1
    precision: Literal["auto", "float32", "bf16", "fp8-mixed", "float64"] = "float32"
    model: DiTSettings = SMALL

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.out.exists() and not self.out.is_dir():
            raise UserError(f"{self.out} is a file; --out is the folder of the classifier.")
        if not 0 < self.valid_fraction < 1:
            raise UserError(f"--valid-fraction must be in (0, 1), not {self.valid_fraction}.")
        if self.kind not in READERS:
            raise unknown("kind of classifier", self.kind, READERS)
        if self.noisy and self.kind != "transformer":
            raise UserError(f"A {self.kind} classifier takes no time and cannot read noise; leave out --kind.")


class ClassifierObjective(Objective):
    """-log p(y | z_t): of clean sequences, or of what `noise` makes of them at uniform times."""

    def __init__(self, classifier: Classifier, noise: Method | None) -> None:
        super().__init__()
        self.classifier = classifier
        self._noise = (noise,)  # in a tuple: it is no part of what is trained

    def forward(
        self, x0: Tokens, row: RowNumbers, rows: int, rng: Rng, label: Labels | None = None, given: Mask | None = None
    ) -> Tensor:
        assert label is not None
        return F.nll_loss(self.log_probs(x0, rng), label[:, 0], reduction="none")

    def log_probs(self, x0: Tokens, rng: Rng) -> Tensor:
        """log p(y | z_t) [B, C]."""
        (noise,) = self._noise
        t, symbols = torch.zeros(len(x0), device=x0.device), x0
        if noise is not None:
            t = rng.uniform(len(x0))
            symbols = noise.to_symbols(noise.corrupt(x0, t, rng))
        log_probs: Tensor = self.classifier(F.one_hot(symbols, self.classifier.symbols).to(t.dtype), t)
        return log_probs


@dataclass(frozen=True)
class ClassifierTask:
    """A classifier that is trained."""

    network: Classifier
    config: ClassifierConfig
    tokenizer: Tokenizer
    noise: Method | None

    @property
    def about(self) -> str:
        return f"{self.config.kind} classifier of {self.config.label}"

    @property
    def rates(self) -> dict[str, float]:
        return {}

    def objective(self, compile: bool) -> Objective:
        return ClassifierObjective(self.network, self.noise)

    def write(self, folder: Path) -> None:
        config = json.dumps(dataclasses.asdict(self.config), indent=2) + "\n"
        (folder / CONFIG).write_text(config, encoding="utf-8")
        (folder / TOKENIZER).write_text(self.tokenizer.json, encoding="utf-8")

    def sample(self, weights: dict[str, Tensor], settings: FitSettings, device: torch.device) -> list[str]:
        return []


def train_classifier(settings: ClassifierSettings, model: Model) -> Path:
    """Train a classifier for a model until its steps are done, continuing what the folder holds.

    Returns the newest checkpoint. How well it does is written beside it.
    """
    corpus, run, fabric = (
        Corpus(settings.data, settings.text_field, model.config.rows or None),
        Run(settings.out),
        connect(settings),
    )
    with together(fabric, settings.nodes, lambda: newest(run)) as team, disk_errors(run):
        team.share(settings.out)
        train, valid, config = team.in_turn(lambda: _prepare(settings, model, corpus))
        reads = f"{config.noise or 'clean'} {config.tokenizer}"  # what counts of the run, whose folder may move
        record = RunRecord(settings.to_json() | {"run": reads}, corpus.fingerprint, settings.defaults())
        torch.manual_seed(settings.seed)
        noise = copy.deepcopy(model.denoiser.method).to(fabric.device) if settings.noisy else None
        task = ClassifierTask(config.build(), config, model.tokenizer, noise)
        with claimed(run, record, settings, model.tokenizer):
            team.all_ready()
            fabric.launch()
            folder = Loop(task, train, valid, settings, fabric, run).go()
            if fabric.is_global_zero:
                quality = _quality(task, folder, valid, fabric.device)
                write_text(settings.out / QUALITY, json.dumps(dataclasses.asdict(quality)) + "\n")
                print(_in_words(config, quality), file=sys.stderr)
            fabric.barrier()
    return folder


def _prepare(settings: ClassifierSettings, model: Model, corpus: Corpus) -> tuple[Rows, Rows, ClassifierConfig]:
    """Molecules to train and to validate on, and what the classifier is."""
    tokenizer, method, cache = model.tokenizer, model.denoiser.method, settings.cache or default_folder()
    if not model.rows:
        raise UserError(
            f"{settings.run} writes one stream, which has no documents to classify; train it with --rows or "
            "--tokenizer smiles."
        )
    if settings.noisy and method.extra_symbols is None:
        raise UserError(f"{model.config.method} needs no classifier that knows noise: leave out --noisy.")
    documents = load_documents(corpus, tokenizer, model.config.length, cache, skip_bad=settings.skip_bad)
    labels, rule = _label(settings.label).of_corpus(corpus, kind_of(tokenizer), cache)
    parts = documents.split(settings.valid_fraction)
    if not all(len(part) for part in parts):
        raise UserError(f"{len(documents)} documents are too few to keep some for validation; give more.")
    train, valid = (Rows(part, settings.seed, labels[part.numbers, None]) for part in parts)
    size = model.config.vocab_size
    return train, valid, ClassifierConfig(
        symbols=size + (method.extra_symbols or 0) if settings.noisy else size,
        pad=None if settings.noisy else tokenizer.pad,
        length=model.config.length,
        label=settings.label,
        threshold=rule.threshold,
        classes=list(rule.classes),
        noise=model.config.method if settings.noisy else None,
        tokenizer=tokenizer.fingerprint,
        data=_how(settings, corpus),
        model=settings.model,
        kind=settings.kind,
        column=corpus.has(rule.name),
    )  # fmt: skip


def _label(spec: str) -> Rule:
    rules = rules_of(spec)
    if len(rules) > 1:
        raise UserError(f"A classifier tells one label apart, not {spec}; train one for each.")
    return rules[0]


def _in_words(config: ClassifierConfig, quality: Quality) -> str:
    area = math.nan if quality.area is None else quality.area
    what = f"{len(config.classes)} classes" if config.threshold is None else f"threshold {config.threshold:g}"
    return (
        f"{config.label} ({what}): area under the curve {area:.3f} on {quality.held_out:,} held-out sequences after "
        f"{quality.steps} steps; {quality.accuracy:.1%} are told right, {quality.commonest:.1%} by always saying the "
        "most common class."
    )


def _how(settings: ClassifierSettings, corpus: Corpus) -> str:
    how = (corpus.fingerprint, settings.seed, settings.batch_size, settings.learning_rate, settings.valid_fraction)
    return hashlib.sha256(repr(how).encode()).hexdigest()[:16]


@torch.no_grad()
def _quality(task: ClassifierTask, folder: Path, valid: Rows, device: torch.device) -> Quality:
    """How well a checkpoint does on held-out sequences."""
    network = task.config.build()
    network.load_state_dict(read_weights(folder / WEIGHTS))
    objective = ClassifierObjective(network.to(device).eval(), task.noise)
    x0 = torch.from_numpy(valid.first(_HELD_OUT)).to(device)
    label = valid.first_labels(_HELD_OUT)
    assert label is not None
    parts = [objective.log_probs(part, Rng.from_seed(0, device)) for part in x0.split(512)]
    scores, right = torch.cat(parts).cpu().numpy(), label[:, 0]
    classes = range(1, 2) if scores.shape[1] == 2 else range(scores.shape[1])  # of two, one says it all
    areas = [area for one in classes if (area := _area(scores[:, one], right == one)) is not None]
    return Quality(
        step_of(folder) or 0, len(right), float(np.mean(areas)) if areas else None,
        float((scores.argmax(1) == right).mean()), float(np.bincount(right).max() / len(right)),
    )  # fmt: skip


def _area(scores: NDArray[np.floating[Any]], inside: NDArray[np.bool_]) -> float | None:
    """The chance that one inside scores above one outside: a tie is half of it."""
    positive, negative = scores[inside], scores[~inside]
    if not len(positive) or not len(negative):
        return None
    return float((positive[:, None] > negative).mean() + 0.5 * (positive[:, None] == negative).mean())
