"""A model's card: what card.json holds, and the same as a page with the head that the hub reads."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from candi.base.config import from_json, read_json
from candi.base.errors import UserError
from candi.base.markdown import table
from candi.model.files import CARD

Value = str | int | float
_OLD_NAMES = {"batch": "batch_size"}  # of cards of 0.1


@dataclass(frozen=True)
class TrainingFacts:
    """How the model was trained."""

    steps: int
    batch_size: int
    length: int
    tokens: int
    minutes: float
    valid_loss: float | None
    device: str
    torch: str
    learning_rate: float | None = None
    start: str | None = None  # the weights that it started from, and their hash
    start_sha256: str | None = None
    student_steps: int | None = None  # of a student, in how many steps it learned to do what its teacher does


@dataclass(frozen=True)
class ClassifierFacts:
    """A classifier that was packed with the model. How well it does is None where nobody measured these weights."""

    label: str
    threshold: float | None
    kind: str
    noise: str | None
    parameters: int
    bytes: int
    sha256: str
    steps: int | None
    area: float | None
    held_out: int | None
    classes: list[str] = field(default_factory=list)  # where they are more than below and above a threshold


@dataclass(frozen=True)
class KnownMolecules:
    """The filter of the molecules of its data."""

    count: int
    speller: str


@dataclass(frozen=True)
class FingerprintLoss:
    """A text and its loss, by which the model is recognised."""

    text: str
    loss: float


@dataclass(frozen=True)
class LikelihoodFacts:
    """Bits of held-out text: exactly, or at most; `parts` are bits per token of what a bound is the sum of."""

    bits_per_token: float
    low: float
    high: float
    bits_per_byte: float
    bits_per_character: float
    exact: bool
    sequences: int
    times: int
    parts: dict[str, float]
    text: str  # a hash of it


@dataclass(frozen=True)
class ImportFacts:
    """Where a published network came from: its layout, a hash of its weights' files, and what its numbers mean."""

    source: str
    layout: str
    sha256: str
    conventions: str


@dataclass(frozen=True)
class ModelCard:
    name: str = ""
    title: str = ""
    data: str = ""
    licence: str = ""
    method: str = ""
    parameters: int = 0
    bytes: int = 0
    sha256: str = ""
    training: TrainingFacts | None = None
    recommended: Mapping[str, Value] = field(default_factory=dict)
    classifiers: Mapping[str, ClassifierFacts] = field(default_factory=dict)
    measures: Sequence[Mapping[str, Value]] = ()
    known_molecules: KnownMolecules | None = None
    check: FingerprintLoss | None = None
    imported: ImportFacts | None = None
    likelihood: LikelihoodFacts | None = None
    repository: str = ""  # OWNER/NAME on the hub

    @classmethod
    def read(cls, folder: Path) -> "ModelCard":
        """The card of a packed model, as far as it is one of ours; an empty one elsewhere."""
        values = read_json(folder / CARD) if (folder / CARD).exists() else {}
        values = values if isinstance(values, dict) else {}
        measures, classifiers = values.get("measures"), values.get("classifiers")
        rows = measures if isinstance(measures, list) and all(isinstance(row, dict) for row in measures) else []
        packed = classifiers.items() if isinstance(classifiers, dict) else ()
        facts = {name: _facts(ClassifierFacts, one) for name, one in packed}
        return cls(
            name=str(values.get("name", "")),
            title=str(values.get("title", "")),
            data=str(values.get("data", "")),
            licence=str(values.get("licence", "")),
            method=str(values.get("method", "")),
            sha256=str(values.get("sha256", "")),
            parameters=_whole(values.get("parameters")),
            bytes=_whole(values.get("bytes")),
            training=_facts(TrainingFacts, values.get("training")),
            recommended=values["recommended"] if isinstance(values.get("recommended"), dict) else {},
            classifiers={name: one for name, one in facts.items() if one is not None},
            measures=rows,
            known_molecules=_facts(KnownMolecules, values.get("known_molecules")),
            check=_facts(FingerprintLoss, values.get("check")),
            imported=_facts(ImportFacts, values.get("imported")),
            likelihood=_facts(LikelihoodFacts, values.get("likelihood")),
            repository=str(values.get("repository", "")),
        )

    def to_json(self) -> str:
        """What card.json holds; facts that there are none of are left out."""
        values = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        return json.dumps(values, indent=1) + "\n"


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _facts(kind: Any, values: object) -> Any:
    """None where they are not what the card should hold."""
    if not isinstance(values, Mapping):
        return None
    try:
        return from_json(kind, {_OLD_NAMES.get(name, name): value for name, value in values.items()}, CARD)
    except UserError:
        return None


def model_page(card: ModelCard, config: Mapping[str, Any]) -> str:
    """README.md of a packed model; `config` is what config.json holds."""
    licence = json.dumps(card.licence)  # quoted, as YAML wants it
    parts = [
        f"---\nlibrary_name: candi\nlicense: other\nlicense_name: {licence}\ntags: [discrete-diffusion]\n---",
        f"# {card.name}\n\n{card.title}",
        f"Written by `candi {'export' if card.imported is None else 'import'}`; every number in it was measured.",
        _network(card, config),
        _loading(card),
    ]
    if card.imported is not None:
        parts.append(_imported(card.imported))
    if card.training is not None:
        parts.append(_training(card.training))
    if card.likelihood is not None:
        parts.append(_likelihood(card.likelihood))
    if card.recommended:
        advice = ", ".join(f"{key} {value}" for key, value in card.recommended.items())
        parts.append(f"Recommended for sampling, and what `candi sample {card.name}` does by itself: {advice}.")
    if card.classifiers:
        parts.append(_classifiers(card.name, card.classifiers))
    if card.known_molecules is not None:
        known = card.known_molecules
        parts.append(
            f"It knows {known.count:,} molecules, as {known.speller} spells them, by a filter: `candi guide "
            f"{card.name}` says which ones are new. One new molecule in a thousand is taken for a known one."
        )
    if card.measures:
        parts.append("## Measures\n\n" + _rows(card.measures))
    return "\n\n".join(parts) + "\n"


def _network(card: ModelCard, config: Mapping[str, Any]) -> str:
    return (
        f"- Method: {card.method}, with {json.dumps(config[card.method])}\n"
        f"- Network: {config['trunk']}, with {json.dumps(config['model'])}; {card.parameters:,} parameters, "
        f"{card.bytes / 1e6:.1f} MB in bf16\n"
        f"- Vocabulary: {config['vocab_size']} tokens; sequences of {config['length']}\n"
        f"- Data: {card.data}\n- Licence: {card.licence}\n- SHA-256 of the weights: `{card.sha256}`"
    )


def _loading(card: ModelCard) -> str:
    place = f"hf:{card.repository}" if card.repository else card.name
    what = "" if card.repository else f" (`{card.name}` is its folder, or its name where it ships with the package)"
    return (
        f"## How to load it\n\n```\ncandi sample {place} --n 2\n```\n\n```python\nimport candi\n\n"
        f'model = candi.load("{place}")\nprint(model.generate(n=2, seed=0))\n```\n\n'
        f"Any command of candi takes it as a run{what}; training starts from it with `candi train --init {place}`."
    )


def _imported(facts: ImportFacts) -> str:
    return (
        f"The weights are those of {facts.source}, of the layout of {facts.layout}; SHA-256 of their files: "
        f"`{facts.sha256}`. {facts.conventions}"
    )


def _training(training: TrainingFacts) -> str:
    start = (
        "" if training.start is None
        else f" It started from the weights of {training.start} (SHA-256 `{training.start_sha256}`)."
    )  # fmt: skip
    what = "loss" if training.student_steps is None else "distance to its teacher"
    loss = "" if training.valid_loss is None else f"; {what} on held-out data {training.valid_loss:.3f} nats"
    if training.student_steps is not None:
        steps = "a single step" if training.student_steps == 1 else f"{training.student_steps} steps"
        start += f" That was its teacher; it learned to take {steps}."
    return (
        f"Trained for {training.steps:,} steps of {training.batch_size} x {training.length} tokens "
        f"({training.tokens / 1e6:,.0f}M tokens), {training.minutes:g} minutes on {training.device} with "
        f"torch {training.torch}{loss}.{start}"
    )


def _likelihood(found: LikelihoodFacts) -> str:
    how = "Exactly" if found.exact else "At most"
    shares = ", ".join(f"{name} {bits:.3f}" for name, bits in found.parts.items())
    of_which = f" Of the bits per token, {shares}." if len(found.parts) > 1 else ""
    return (
        f"{how} {found.bits_per_token:.3f} bits per token ({found.low:.3f} to {found.high:.3f}), "
        f"{found.bits_per_byte:.3f} per byte, {found.bits_per_character:.3f} per character of {found.sequences} "
        f"held-out sequences, {found.times} times each (text `{found.text[:16]}…`).{of_which}"
    )


def _positive(one: ClassifierFacts) -> str:
    if one.threshold is None:
        return f"{one.label}: {', '.join(one.classes)}"
    return f"{one.label}, at least {one.threshold:g}"


def _classifiers(name: str, classifiers: Mapping[str, ClassifierFacts]) -> str:
    """What guides it, each under the name that --classifier takes."""
    rows = [
        {
            "property": key, "positive": _positive(one), "kind": one.kind,
            "parameters": f"{one.parameters:,}", "MB": f"{one.bytes / 1e6:.1f}",
            **({} if one.steps is None else {"steps of training": f"{one.steps:,}"}),
            **({} if one.area is None else {"area under the curve": f"{one.area:.3f}"}),
            **({} if one.held_out is None else {"of held-out molecules": f"{one.held_out:,}"}),
            "SHA-256": f"`{one.sha256[:16]}…`",
        }
        for key, one in classifiers.items()
    ]  # fmt: skip
    example = f"`candi guide {name} --classifier {next(iter(classifiers))} --weight 2` is guided by one of them."
    clean = all(one.noise is None for one in classifiers.values())
    reads = "clean molecules alone" if clean else "molecules under the model's own noise"
    return f"## Classifiers\n\nThey read {reads}. {example}\n\n" + _rows(rows)


def _rows(rows: Sequence[Mapping[str, Value]]) -> str:
    head = list(dict.fromkeys(key for row in rows for key in row))
    return table([key.replace("_", " ") for key in head], [[str(row.get(key, "")) for key in head] for row in rows])
