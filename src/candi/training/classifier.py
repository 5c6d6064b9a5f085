"""Training a classifier on clean molecules, or on what a method's noise makes of them."""

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import Tensor
from torch.nn import functional as F

from candi.classifiers import QUALITY, ClassifierConfig, Quality
from candi.data.cache import default_folder
from candi.data.corpus import Corpus
from candi.data.labels import Label
from candi.data.rows import Rows, load_documents
from candi.data.tokenizer import Tokenizer
from candi.errors import UserError, unknown
from candi.files import write_text
from candi.loading import device_named, load
from candi.methods.base import Method
from candi.model import CONFIG, TOKENIZER, WEIGHTS
from candi.nets.classifier import READERS
from candi.nets.transformer import TrunkSettings
from candi.rng import Rng, derive
from candi.tensors import read_tensors, write_tensors
from candi.training import checkpoint
from candi.training.display import Display
from candi.training.interrupt import graceful

_TRAINING = "training.safetensors"


@dataclass(frozen=True)
class ClassifierSettings:
    """A classifier for a run.

    Args:
        run: The run whose tokenizer, length and (with --noisy) noise it reads.
        data: Molecules, of any kind that candi train takes.
        label: A property and a rule: qed:top, rings>=2, or COLUMN>=0.5.
        out: Folder of the classifier. The same command again continues it.
        kind: transformer, recurrent, or bag: how often each token occurs, in no order.
        noisy: Learn to read the run's noise, as discrete guidance needs it; by default clean molecules alone.
        text_field: Column with the molecules in tables.
        cache: Folder for tokenized data; by default under the user's cache folder.
        steps: Optimizer steps.
        batch: Molecules in a step.
        learning_rate: Of AdamW, after a warm-up of 100 steps.
        seed: Decides the weights at the start, the order of the data and all noise.
        valid_fraction: Share of the molecules kept for validation.
        checkpoint_every: Steps between checkpoints.
        skip_bad: Leave out molecules that are too long or cannot be read, instead of refusing them.
        device: auto, cpu or cuda.
        model: The transformer.
    """

    run: str
    data: str
    label: str
    out: Path
    kind: Literal["transformer", "recurrent", "bag"] = "transformer"
    noisy: bool = False
    text_field: str = "text"
    cache: Path | None = None
    steps: int = 2000
    batch: int = 128
    learning_rate: float = 1e-3
    seed: int = 0
    valid_fraction: float = 0.05
    checkpoint_every: int = 500
    skip_bad: bool = False
    device: str = "auto"
    model: TrunkSettings = field(default_factory=lambda: TrunkSettings(width=128, blocks=3, heads=4, conditioning=64))

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "checkpoint_every"):
            if vars(self)[name] < 1:
                raise UserError(f"--{name} must be at least 1, not {vars(self)[name]}.")
        if not 0 < self.learning_rate < float("inf"):
            raise UserError(f"--learning_rate must be above 0, not {self.learning_rate}.")
        if self.out.exists() and not self.out.is_dir():
            raise UserError(f"{self.out} is a file; --out is the folder of the classifier.")
        if not 0 < self.valid_fraction < 1:
            raise UserError(f"--valid_fraction must be in (0, 1), not {self.valid_fraction}.")
        if self.kind not in READERS:
            raise unknown("kind of classifier", self.kind, READERS)
        if self.noisy and self.kind != "transformer":
            raise UserError(f"A classifier that is {self.kind} knows no time and cannot read noise; leave out --kind.")


def train_classifier(settings: ClassifierSettings) -> Path:
    """Train until the steps are done, continuing what the folder holds. Returns the newest checkpoint."""
    try:
        training = _prepared(settings)  # a mistake is told before anything is written
        settings.out.mkdir(parents=True, exist_ok=True)
        with FileLock(settings.out / ".lock", timeout=0):
            return training.go()
    except Timeout:
        raise UserError(f"Another process trains in {settings.out}; wait for it or choose another --out.") from None
    except OSError as error:
        raise UserError(
            f"Reading or writing failed ({error}); {settings.out} keeps its last good checkpoint. Mend that and run "
            "the same command again."
        ) from error


def _prepared(settings: ClassifierSettings) -> "_Training":
    device = device_named(settings.device)
    model = load(settings.run, "cpu")
    tokenizer, method = model.tokenizer, model.denoiser.method
    if tokenizer.pad is None:
        raise UserError(f"{settings.run} has no documents of its own to classify; train it with --tokenizer smiles.")
    if settings.noisy and method.symbols is None:
        raise UserError(f"{model.config.method} needs no classifier that knows noise: leave out --noisy.")
    corpus, cache = Corpus(settings.data, settings.text_field), settings.cache or default_folder()
    documents = load_documents(
        corpus, tokenizer, model.config.length, cache, molecules=True, skip_bad=settings.skip_bad
    )
    labels, threshold = Label.of(settings.label).of_corpus(corpus, cache)
    parts = documents.split(settings.valid_fraction)
    if not all(len(part.tokens) for part in parts):
        raise UserError(f"{len(documents.tokens)} molecules are too few to keep some for validation; give more.")
    train, valid = (Rows(part.tokens, settings.seed, labels[part.numbers]) for part in parts)
    size = model.config.vocab_size
    config = ClassifierConfig(
        symbols=size + (method.symbols or 0) if settings.noisy else size,
        pad=None if settings.noisy else tokenizer.pad,
        length=model.config.length,
        label=settings.label,
        threshold=threshold,
        noise=model.config.method if settings.noisy else None,
        tokenizer=tokenizer.fingerprint,
        data=_how(settings, corpus),
        model=settings.model,
        kind=settings.kind,
        column=corpus.has(Label.of(settings.label).name),
    )
    return _Training(settings, config, tokenizer, method, train, valid, device)


def _how(settings: ClassifierSettings, corpus: Corpus) -> str:
    how = (corpus.fingerprint, settings.seed, settings.batch, settings.learning_rate, settings.valid_fraction)
    return hashlib.sha256(repr(how).encode()).hexdigest()[:16]


class _Training:
    def __init__(
        self, settings: ClassifierSettings, config: ClassifierConfig, tokenizer: Tokenizer, method: Method, train: Rows,
        valid: Rows, device: torch.device,
    ) -> None:  # fmt: skip
        self.settings, self.config, self.tokenizer, self.method = settings, config, tokenizer, method.to(device)
        self.train, self.valid, self.device = train, valid, device
        torch.manual_seed(settings.seed)
        self.network = config.build().to(device)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=settings.learning_rate, weight_decay=0.0)
        self.step = 0

    def go(self) -> Path:
        with Display(self.settings.steps, silent=False) as display, graceful() as interrupt:
            self._restore(display)
            display.begin(self.step)
            while self.step < self.settings.steps and not interrupt.asked:
                loss = self._update()
                display.advance(self.step)
                if self.step % 20 == 0 or self.step == self.settings.steps:
                    display.show(self.step, {"loss": float(loss)})
                if self.step % self.settings.checkpoint_every == 0:
                    self._save()
            folder = self._save()
            quality = self.quality()
            write_text(self.settings.out / QUALITY, json.dumps(dataclasses.asdict(quality)) + "\n")
            area = math.nan if quality.area is None else quality.area
            display.say(
                f"{'Finished' if self.step >= self.settings.steps else 'Stopped'} at {self.step}: {self.config.label}"
                f" (threshold {self.config.threshold:g}), area under the curve {area:.3f} on held-out molecules."
            )
        return folder

    def _update(self) -> Tensor:
        settings = self.settings
        rows = range(self.step * settings.batch, (self.step + 1) * settings.batch)
        x0 = torch.from_numpy(np.stack([self.train.window(i) for i in rows])).to(self.device)
        label = torch.tensor([self.train.label(i) or 0 for i in rows], device=self.device)
        for group in self.optimizer.param_groups:
            group["lr"] = settings.learning_rate * min(1.0, (self.step + 1) / 100)
        self.network.train()
        torch.manual_seed(derive(settings.seed, "dropout", self.step))  # dropout alone uses the global generator
        loss = F.nll_loss(self._read(x0, derive(settings.seed, "classifier", self.step)), label)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        return loss.detach()

    def _read(self, x0: Tensor, seed: int) -> Tensor:
        rng = Rng.from_seed(seed, self.device)
        t = torch.zeros(len(x0), device=self.device)
        shown = x0
        if self.config.noise is not None:
            t = rng.uniform(len(x0))
            shown = self.method.shown(self.method.corrupt(x0, t, rng))
        log_probs: Tensor = self.network(F.one_hot(shown, self.config.symbols).to(t.dtype), t)
        return log_probs

    @torch.no_grad()
    def quality(self) -> Quality:
        """Of up to 4,096 held-out molecules."""
        self.network.eval()
        x0 = torch.from_numpy(self.valid.first(4096)).to(self.device)
        label = np.array([value or 0 for value in self.valid.first_labels(4096)])
        scores = torch.cat([self._read(part, 0)[:, 1] for part in x0.split(512)]).cpu().numpy()
        positive, negative = scores[label == 1], scores[label == 0]
        if not len(positive) or not len(negative):
            return Quality(self.step, len(label), None)
        wins = (positive[:, None] > negative).mean() + 0.5 * (positive[:, None] == negative).mean()
        return Quality(self.step, len(label), float(wins))

    def _save(self) -> Path:
        moments = {
            f"{key}/{name}": self.optimizer.state[parameter][key]
            for name, parameter in self.network.named_parameters()
            if parameter in self.optimizer.state
            for key in ("exp_avg", "exp_avg_sq", "step")
        }

        folder = self.settings.out / "checkpoints" / f"step-{self.step:08d}"
        if folder.exists():  # nothing was learned since
            return folder

        def fill(folder: Path) -> None:
            write_tensors(self.network.state_dict(), folder / WEIGHTS)
            write_tensors(moments, folder / _TRAINING)
            (folder / CONFIG).write_text(json.dumps(dataclasses.asdict(self.config), indent=2) + "\n", encoding="utf-8")
            (folder / TOKENIZER).write_text(self.tokenizer.json, encoding="utf-8")

        return checkpoint.write(self.settings.out / "checkpoints", self.step, fill, keep=1)

    def _restore(self, display: Display) -> None:
        folder = next(checkpoint.intact(self.settings.out / "checkpoints", display.say), None)
        if folder is None:
            return
        if ClassifierConfig.read(folder / CONFIG) != self.config:
            raise UserError(
                f"{self.settings.out} holds another classifier; repeat its command, or choose another --out."
            )
        self.network.load_state_dict(read_tensors(folder / WEIGHTS))
        moments = read_tensors(folder / _TRAINING)
        for name, parameter in self.network.named_parameters():
            values = {key: moments[f"{key}/{name}"] for key in ("exp_avg", "exp_avg_sq", "step")}
            self.optimizer.state[parameter] = {
                key: value if key == "step" else value.to(self.device) for key, value in values.items()
            }
        self.step = int(folder.name.rpartition("-")[2])
        display.say(f"Continuing {self.settings.out} from step {self.step}.")
