"""A run packed to be shared: weights in bf16, configuration, tokenizer, and a card that says what it is."""

import csv
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from candi.base.config import read_json
from candi.base.errors import UserError
from candi.base.files import sha256, write_text
from candi.base.tensors import write_tensors
from candi.data.cache import default_folder
from candi.data.corpus import Corpus
from candi.data.datasets import load_sequences
from candi.data.molecules import canonical_corpus, need_rdkit, speller
from candi.diffusion.sampler import bind_step
from candi.evaluation.fingerprint_loss import fingerprint_loss
from candi.evaluation.likelihood import likelihood
from candi.evaluation.points import Point, read_points
from candi.evaluation.wordfilter import WordFilter
from candi.evaluation.words import words_of
from candi.hub.loading import locate
from candi.hub.model_card import (
    ClassifierFacts,
    FingerprintLoss,
    KnownMolecules,
    LikelihoodFacts,
    ModelCard,
    TrainingFacts,
    Value,
    model_page,
)
from candi.hub.shipped import MOLECULES, WORDS
from candi.model.classifiers import (
    CLASSIFIERS,
    QUALITY,
    Quality,
    check_classifier,
    classifier_steps,
    load_classifier,
)
from candi.model.files import CARD, CONFIG, TOKENIZER, WEIGHTS, write_model
from candi.model.model import Model
from candi.nets.trunk import parameter_count
from candi.training.loop import Progress
from candi.training.run import SETTINGS, read_record

README = "README.md"
_SEQUENCES, _TIMES = 256, 8  # of held-out text, and times drawn for each
_LENGTH = 64  # of the text whose loss is a model's fingerprint
_SHOWN = ("valid_words", "unique_words", "entropy", "perplexity", "valid_molecules", "unique_molecules")


def export(
    source: str, out: Path, about: Mapping[str, str], points: Sequence[Path] = (),
    recommended: Mapping[str, Any] | None = None, words: str | None = None,
    classifiers: Mapping[str, str] | None = None, molecules: str | None = None, repository: str | None = None,
    held_out: str | None = None,
) -> Path:  # fmt: skip
    """`about` holds title, data and licence, `repository` is its OWNER/NAME on the hub. What is packed already can be
    packed again, with measures this time.

    `classifiers` are folders by the name of the property that they guide to. `words` and `molecules` are data of which
    the model shall know the words, to measure others by, or the molecules, to say which ones are new. The card tells
    the likelihood of `held_out` text.
    """
    folder = locate(source)
    model = Model.read(folder)
    before = ModelCard.read(folder)
    advice: dict[str, Any] = {**before.recommended, **(recommended or {})}
    _check_advice(model, advice)
    check_place(out)
    measured = [point for path in points for point in read_points(path)]
    filters = _filters(words, molecules, _text_field_of(source))
    # made aside and put in its place at the end: what was packed before stays whole until then
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as aside:
        new = Path(aside) / out.name
        new.mkdir()
        weights = {name: tensor.to(torch.bfloat16) for name, tensor in model.denoiser.state_dict().items()}
        write_model(new, weights, model.tokenizer, model.config)
        digest = sha256(new / WEIGHTS)
        strangers = [point.cell.run for point in measured if point.cell.checkpoint != digest]
        if strangers:
            raise UserError(
                f"These are points of other weights ({strangers[0]}); pack the run first, then sweep what was packed."
            )
        for name in (WORDS, MOLECULES, CLASSIFIERS):  # what came with the model goes with it
            if (folder / name).exists():
                copy = shutil.copytree if (folder / name).is_dir() else shutil.copyfile
                copy(folder / name, new / name)
        for name, source_folder in (classifiers or {}).items():
            _pack_classifier(source_folder, new / CLASSIFIERS / name, model)
        for name, known in filters.items():
            known.write(new / name)
        packed = Model.read(new)
        length = min(_LENGTH, model.config.length) if not packed.tokenizer.framed else None  # molecules are rows
        text = packed.generate(**advice, length=length)[0]
        card = ModelCard(
            name=out.name,
            title=about.get("title") or before.title,
            data=about.get("data") or before.data,
            licence=about.get("licence") or before.licence,
            method=model.config.method,
            parameters=parameter_count(model.denoiser),
            bytes=(new / WEIGHTS).stat().st_size,
            sha256=digest,
            training=before.training or _training(Path(source).expanduser(), folder),
            recommended=advice,
            classifiers={path.name: _classifier(path) for path in sorted((new / CLASSIFIERS).glob("*"))},
            measures=[_measured(point) for point in measured] or before.measures,
            known_molecules=_known_molecules(new / MOLECULES),
            repository=repository or before.repository,
            likelihood=before.likelihood if held_out is None else _likelihood(packed, held_out, _text_field_of(source)),
            check=FingerprintLoss(text, fingerprint_loss(packed, text)),
        )
        write_text(new / CARD, card.to_json())
        write_text(new / README, model_page(card, read_json(new / CONFIG)))
        for file in new.rglob("*.safetensors"):
            file.chmod(0o644)  # to be shared
        if out.exists():
            out.rename(Path(aside) / "before")
        new.rename(out)
    return out


def _filters(words: str | None, molecules: str | None, field: str) -> dict[str, WordFilter]:
    """What shall be known, by the name of its file."""
    found = {}
    if words is not None:
        found[WORDS] = WordFilter.of(words_of(Corpus(words, field)))
    if molecules is not None:
        need_rdkit("Packing molecules")
        known = canonical_corpus(Corpus(molecules, field), default_folder())
        found[MOLECULES] = WordFilter.of(known, speller=speller())
    for name, source, kind in ((WORDS, words, "words"), (MOLECULES, molecules, "molecules")):
        if name in found and not len(found[name]):
            raise UserError(f"{source} holds no {kind}; give --{kind} a file that does.")
    return found


def _text_field_of(source: str) -> str:
    return _text_field(Path(source).expanduser())


def _likelihood(model: Model, text: str, field: str) -> LikelihoodFacts:
    corpus = Corpus(text, field, model.config.rows or None)
    data = load_sequences(corpus, model.tokenizer, model.config.length, rows=model.rows, block=model.config.block)
    found = likelihood(model, data.first(_SEQUENCES), given=data.first_given(_SEQUENCES), times=_TIMES)
    return LikelihoodFacts(
        found.bits_per_token, found.low, found.high, found.per_byte[0], found.per_character[0], found.exact,
        found.sequences, found.times, found.parts, corpus.fingerprint,
    )  # fmt: skip


def _text_field(run: Path) -> str:
    """The column of a table that the run has read, where its folder says so."""
    return str(read_record(run)["settings"].get("text_field", "text")) if (run / SETTINGS).exists() else "text"


def _known_molecules(file: Path) -> KnownMolecules | None:
    """What the card says of the filter, if there is one."""
    known = WordFilter.read(file) if file.exists() else None
    return None if known is None else KnownMolecules(len(known), known.speller)


def _check_advice(model: Model, advice: Mapping[str, Any]) -> None:
    """A model recommends nothing that it would refuse."""
    options = {name: value for name, value in advice.items() if name not in ("steps", "temperature")}
    bind_step(model.denoiser.method, **options)
    if advice.get("steps", 1) < 1 or advice.get("temperature", 1.0) <= 0:
        raise UserError("A model recommends at least 1 step and a temperature above 0.")


def check_place(out: Path) -> None:
    """A new folder, or one that was packed before."""
    if not out.exists():
        return
    if not out.is_dir():
        raise UserError(f"{out} is a file; --out is the folder of the packed model.")
    known = {WEIGHTS, CONFIG, TOKENIZER, CARD, README, WORDS, MOLECULES, CLASSIFIERS}
    strange = sorted(path.name for path in out.iterdir() if path.name not in known)
    if strange:
        raise UserError(f"{out} holds more than a packed model ({strange[0]}); choose another --out.")


def _pack_classifier(source: str, out: Path, model: Model) -> None:
    network, config = load_classifier(source, torch.device("cpu"))
    check_classifier(config, source, model.denoiser.method, model.config.method, model.tokenizer.fingerprint)
    out.mkdir(parents=True, exist_ok=True)
    write_tensors({name: tensor.to(torch.bfloat16) for name, tensor in network.state_dict().items()}, out / WEIGHTS)
    write_text(out / CONFIG, json.dumps(asdict(config), indent=1) + "\n")
    quality = Quality.read(source)
    if quality is not None and classifier_steps(source) in (None, quality.steps):  # of these weights
        write_text(out / QUALITY, json.dumps(asdict(quality)) + "\n")


def _classifier(folder: Path) -> ClassifierFacts:
    """What the card says of a classifier that was packed."""
    network, config = load_classifier(str(folder), torch.device("cpu"))
    quality = Quality.read(str(folder))
    return ClassifierFacts(
        label=config.label,
        threshold=config.threshold,
        kind=config.kind,
        noise=config.noise,
        parameters=parameter_count(network),
        bytes=(folder / WEIGHTS).stat().st_size,
        sha256=sha256(folder / WEIGHTS),
        steps=None if quality is None else quality.steps,
        area=None if quality is None else quality.area,
        held_out=None if quality is None else quality.held_out,
        classes=config.classes if config.threshold is None else [],
    )


def _training(run: Path, checkpoint: Path) -> TrainingFacts | None:
    """What the run's folder says; None if the checkpoint stands alone."""
    if not (run / SETTINGS).exists() or not (checkpoint / "progress.json").exists():
        return None
    record, progress = read_record(run), Progress.read(checkpoint / "progress.json")
    settings, start = record["settings"], record.get("start")
    where = record.get("machine", {"device": "an unknown machine", "torch": "of unknown version"})  # of older runs
    try:
        with (run / "metrics.csv").open(encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if int(row["step"]) <= progress.step]
        losses = [float(row["valid_loss"]) for row in rows if row["valid_loss"]]
        return TrainingFacts(
            steps=progress.step,
            batch_size=_batch_size(settings),
            length=settings["length"],
            tokens=progress.step * _batch_size(settings) * settings["length"],
            learning_rate=settings["learning_rate"],
            minutes=round(progress.seconds / 60, 1),
            valid_loss=losses[-1] if losses else None,
            device=where["device"],
            torch=where["torch"],
            **({} if start is None else {"start": start["source"], "start_sha256": start["sha256"]}),
            student_steps=settings.get("student_steps"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{run} does not say how it was trained ({type(error).__name__}: {error}).") from None


def _batch_size(settings: Mapping[str, Any]) -> int:
    return int(settings["batch_size"] if "batch_size" in settings else settings["batch"])  # as 0.1 called it


def _measured(point: Point) -> dict[str, Value]:
    cell, measures = point.cell, point.measures
    kept = {name: round(value, 4) for name in _SHOWN if (value := measures.get(name)) is not None}
    if (value := measures.get("property")) is not None:
        kept[f"mean_{point.provenance.property}"] = round(value, 4)
    guided: dict[str, Value] = {"guided": cell.guidance.label, "weight": cell.guidance.weight} if cell.guidance else {}
    sampled: dict[str, Value] = {"steps": cell.steps, "temperature": cell.temperature, **cell.options}
    return {**sampled, **guided, "n": cell.n, **kept}
