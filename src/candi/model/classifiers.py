"""Classifiers as they lie on disk: what one is, how well it does, and whether it fits a run."""

from dataclasses import dataclass, field
from pathlib import Path

import torch

from candi.base.config import from_json, read_json
from candi.base.errors import UserError, unknown
from candi.base.labels import NO_YES, Label
from candi.base.shards import tensors_hash
from candi.base.tensors import check_numbers
from candi.diffusion.methods.base import Method
from candi.model.checkpoint import find_checkpoint, step_of, to_stderr
from candi.model.files import CONFIG, WEIGHTS, read_weights, weight_shapes
from candi.nets.classifier import READERS, Classifier
from candi.nets.dit import DiTSettings
from candi.nets.outline import outline

QUALITY = "quality.json"  # how well it tells held-out molecules apart
CLASSIFIERS = "classifiers"  # the folder of those that came with a model, each under the name of its property


@dataclass(frozen=True)
class ClassifierConfig:
    """What a classifier is: its config.json."""

    symbols: int
    pad: int | None
    length: int
    label: str
    threshold: float | None  # None of classes that a column names
    noise: str | None  # the method whose noise it reads
    tokenizer: str
    data: str  # a hash of what it was trained on, and how
    model: DiTSettings
    kind: str = "transformer"
    column: bool = False  # whether the values were a column of the data, and not computed
    classes: list[str] = field(default_factory=lambda: list(NO_YES))

    @classmethod
    def read(cls, path: Path) -> "ClassifierConfig":
        values = read_json(path)
        if not isinstance(values, dict) or "noise" not in values:
            raise UserError(f"{path} is not the config.json of a classifier; train one with candi train-classifier.")
        trunk = from_json(DiTSettings, values.get("model"), f"{path}, model")
        config = from_json(cls, {**values, "model": trunk}, str(path))
        if config.kind not in READERS:
            raise UserError(f"{path}: {unknown('kind of classifier', config.kind, READERS)}")
        return config

    def build(self) -> Classifier:
        return Classifier(self.symbols, self.model, len(self.classes), self.pad, self.noise is not None, self.kind)

    @property
    def taught(self) -> Label:
        """What it tells apart."""
        return Label(self.label, tuple(self.classes))


@dataclass(frozen=True)
class Quality:
    """How well a classifier does on what it has not learned from.

    `area` is the chance that one of a class is thought likelier of it than one that is not, averaged over the classes;
    `accuracy` how often the likeliest class is right, `commonest` how often the most common one would be.
    """

    steps: int
    held_out: int
    area: float | None  # None where they are all alike
    accuracy: float | None = None
    commonest: float | None = None

    @classmethod
    def read(cls, source: str) -> "Quality | None":
        """Of a classifier's folder, if it tells."""
        path = Path(source).expanduser() / QUALITY
        return from_json(cls, read_json(path), str(path)) if path.exists() else None


def _checkpoint(source: str) -> Path:
    found = find_checkpoint(Path(source).expanduser(), to_stderr)
    if found is None:
        raise UserError(f"There is no classifier at {source!r}; train one first with candi train-classifier.")
    return found


def load_classifier(source: str, device: torch.device) -> tuple[Classifier, ClassifierConfig]:
    """A classifier's folder, or one of its checkpoints."""
    folder = _checkpoint(source)
    config = ClassifierConfig.read(folder / CONFIG)
    path = folder / WEIGHTS
    shapes = weight_shapes(path)
    try:
        fits = outline(config.build, shapes.values()) == shapes
    except UserError:
        fits = False
    if not fits:
        raise UserError(f"{path} does not fit its config.json; train the classifier anew.")
    network, weights = config.build(), read_weights(path)
    check_numbers(weights, path)
    network.load_state_dict(weights)
    return network.to(device).eval(), config


def check_classifier(config: ClassifierConfig, name: str, method: Method, kind: str, tokenizer: str) -> None:
    """Refuse a classifier that reads something else than a run of this method and tokenizer writes."""
    if config.tokenizer != tokenizer:
        raise UserError(f"The classifier {name} has another vocabulary than the run; train one for this run.")
    gaussian = method.gaussian() is not None
    if not gaussian and method.extra_symbols is None:
        raise UserError(f"{kind} cannot be guided by a classifier; train it with --label instead.")
    if gaussian and config.noise is not None:
        raise UserError(
            f"{kind} is guided by a classifier of clean molecules, but {name} reads the noise of {config.noise}; train "
            "one without --noisy."
        )
    if not gaussian and config.noise != kind:
        reads = f"the noise of {config.noise}" if config.noise else "clean molecules alone"
        raise UserError(
            f"{kind} is guided by a classifier that knows its noise, but {name} reads {reads}; train one for this run "
            "with --noisy true."
        )


def classifier_steps(source: str) -> int | None:
    """How long the checkpoint that is used was trained; None of a classifier that was packed."""
    return step_of(_checkpoint(source))


def classifier_content(source: str) -> str:
    """The hash of a classifier's weights."""
    return tensors_hash(_checkpoint(source) / WEIGHTS)


def classifier_of(folder: Path, name: str) -> str:
    """The folder of a classifier: a path, or, where there is none, one that came with the model, by its property."""
    packed = folder / CLASSIFIERS / name
    return str(packed) if packed.is_dir() and not Path(name).expanduser().exists() else name
