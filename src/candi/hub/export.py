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
from candi.data.molecules import canonical_corpus, need_rdkit, speller
from candi.diffusion.sampler import bind_step
from candi.evaluation.fingerprint_loss import fingerprint_loss
from candi.evaluation.points import Point, read_points
from candi.evaluation.wordfilter import WordFilter
from candi.evaluation.words import words_of
from candi.hub.loading import locate
from candi.hub.model_card import model_card
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
from candi.training.run import SETTINGS

README = "README.md"
_LENGTH = 64  # of the text whose loss is a model's fingerprint
_ABOUT = ("title", "data", "licence")
_TRAINING = {"steps", "batch_size", "length", "tokens", "minutes", "valid_loss", "device", "torch"}
_SHOWN = ("valid_words", "unique_words", "entropy", "perplexity", "valid_molecules", "unique_molecules")


def export(
    source: str, out: Path, about: Mapping[str, str], points: Sequence[Path] = (),
    recommended: Mapping[str, Any] | None = None, words: str | None = None,
    classifiers: Mapping[str, str] | None = None, molecules: str | None = None,
) -> Path:  # fmt: skip
    """`about` holds title, data and licence. What is packed already can be packed again, with measures this time.

    `classifiers` are folders by the name of the property that they guide to. `words` and `molecules` are data of which
    the model shall know the words, to measure others by, or the molecules, to say which ones are new.
    """
    folder = locate(source)
    model = Model.read(folder)
    before = _card(folder)
    advice = {**before["recommended"], **(recommended or {})}
    _check_advice(model, advice)
    _check_place(out)
    measured = [point for path in points for point in read_points(path)]
    filters = _filters(words, molecules, _text_field(Path(source).expanduser()))
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
        card = {
            "name": out.name,
            **{key: about.get(key) or before[key] for key in _ABOUT},
            "method": model.config.method,
            "parameters": parameter_count(model.denoiser),
            "bytes": (new / WEIGHTS).stat().st_size,
            "sha256": digest,
            "training": before["training"] or _training(Path(source).expanduser(), folder),
            "recommended": advice,
            "classifiers": {path.name: _classifier(path) for path in sorted((new / CLASSIFIERS).glob("*"))},
            "measures": [_measured(point) for point in measured] or before["measures"],
            **_known_molecules(new / MOLECULES),
        }
        packed = Model.read(new)
        length = min(_LENGTH, model.config.length) if packed.tokenizer.pad is None else None  # molecules are rows
        text = packed.generate(**advice, length=length)[0]
        card["check"] = {"text": text, "loss": fingerprint_loss(packed, text)}
        write_text(new / CARD, json.dumps(card, indent=1) + "\n")
        write_text(new / README, model_card(card, read_json(new / CONFIG)))
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


def _text_field(run: Path) -> str:
    """The column of a table that the run has read; a packed model does not tell."""
    return str(read_json(run / SETTINGS)["settings"]["text_field"]) if (run / SETTINGS).exists() else "text"


def _known_molecules(file: Path) -> dict[str, Any]:
    """What the card says of the filter, if there is one."""
    if not file.exists():
        return {}
    known = WordFilter.read(file)
    return {"known_molecules": {"count": len(known), "speller": known.speller}}


def _card(folder: Path) -> dict[str, Any]:
    """What an earlier card says, as far as it is one of ours."""
    card = read_json(folder / CARD) if (folder / CARD).exists() else {}
    card = card if isinstance(card, dict) else {}
    training, measures = card.get("training"), card.get("measures")
    if isinstance(training, dict) and "batch" in training:  # as 0.1 called it
        training = {("batch_size" if key == "batch" else key): value for key, value in training.items()}
    return {
        **{key: str(card.get(key, "")) for key in _ABOUT},
        "recommended": card.get("recommended", {}),
        "training": training if isinstance(training, dict) and training.keys() >= _TRAINING else {},
        "measures": measures if isinstance(measures, list) and all(isinstance(row, dict) for row in measures) else [],
    }


def _check_advice(model: Model, advice: Mapping[str, Any]) -> None:
    """A model recommends nothing that it would refuse."""
    options = {name: value for name, value in advice.items() if name not in ("steps", "temperature")}
    bind_step(model.denoiser.method, **options)
    if advice.get("steps", 1) < 1 or advice.get("temperature", 1.0) <= 0:
        raise UserError("A model recommends at least 1 step and a temperature above 0.")


def _check_place(out: Path) -> None:
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


def _classifier(folder: Path) -> dict[str, Any]:
    """What the card says of a classifier that was packed."""
    network, config = load_classifier(str(folder), torch.device("cpu"))
    quality = Quality.read(str(folder))
    return {
        "label": config.label,
        "threshold": config.threshold,
        "kind": config.kind,
        "noise": config.noise,
        "parameters": parameter_count(network),
        "bytes": (folder / WEIGHTS).stat().st_size,
        "sha256": sha256(folder / WEIGHTS),
        "steps": quality and quality.steps,
        "area": quality and quality.area,
        "held_out": quality and quality.held_out,
    }


def _training(run: Path, checkpoint: Path) -> dict[str, Any]:
    """What the run's folder tells; nothing if the checkpoint stands alone."""
    if not (run / "run.json").exists() or not (checkpoint / "progress.json").exists():
        return {}
    record, progress = read_json(run / "run.json"), read_json(checkpoint / "progress.json")
    settings = record["settings"]
    where = record.get("machine", {"device": "an unknown machine", "torch": "of unknown version"})  # of older runs
    with (run / "metrics.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if int(row["step"]) <= progress["step"]]
    losses = [float(row["valid_loss"]) for row in rows if row["valid_loss"]]
    return {
        "steps": progress["step"],
        "batch_size": _batch_size(settings),
        "length": settings["length"],
        "tokens": progress["step"] * _batch_size(settings) * settings["length"],
        "learning_rate": settings["learning_rate"],
        "minutes": round(progress["seconds"] / 60, 1),
        "valid_loss": losses[-1] if losses else None,
        "device": where["device"],
        "torch": where["torch"],
    }


def _batch_size(settings: Mapping[str, Any]) -> int:
    return int(settings["batch_size"] if "batch_size" in settings else settings["batch"])  # as 0.1 called it


def _measured(point: Point) -> dict[str, Any]:
    cell, measures = point.cell, point.measures
    kept = {name: round(value, 4) for name in _SHOWN if (value := measures.get(name)) is not None}
    if (value := measures.get("property")) is not None:
        kept[f"mean_{point.provenance.property}"] = round(value, 4)
    guided = {"guided": cell.guidance.label, "weight": cell.guidance.weight} if cell.guidance else {}
    sampled = {"steps": cell.steps, "temperature": cell.temperature, **cell.options}
    return {**sampled, **guided, "n": cell.n, **kept}
