"""Importers of other people's checkpoints: one file a layout; this is the registry."""

import hashlib
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken

from candi.base.config import read_json
from candi.base.errors import UserError, unknown
from candi.base.files import sha256, write_text
from candi.data.tokenizer import Tokenizer
from candi.evaluation.scorers import SMOLLM2, smollm2_file
from candi.hub.export import README, check_place
from candi.hub.importers.bd3lm import Bd3lmImporter
from candi.hub.importers.candi_authors import CandiImporter
from candi.hub.importers.causal import CausalImporter
from candi.hub.importers.dream import DreamImporter
from candi.hub.importers.duo import DuoImporter
from candi.hub.importers.imported import Imported, Importer
from candi.hub.importers.llada import LladaImporter
from candi.hub.importers.masked import MaskedImporter
from candi.hub.importers.mdlm import MdlmImporter
from candi.hub.importers.sedd import SeddImporter
from candi.hub.importers.source import FILES, HUB, Source, fetched, read_source
from candi.hub.loading import locate
from candi.hub.model_card import ImportFacts, ModelCard, model_page
from candi.model.files import CARD, CONFIG, WEIGHTS, write_model
from candi.model.model import Model
from candi.nets.trunk import parameter_count

IMPORTERS: dict[str, Importer] = {
    one.name: one
    for one in (
        MdlmImporter(),
        Bd3lmImporter(),
        DuoImporter(),
        SeddImporter(),
        CandiImporter(),
        LladaImporter(),
        DreamImporter(),
        CausalImporter(),
        MaskedImporter(),
    )
}
_TOKENIZERS = ("tokenizer.json", "vocab.json", "encoder.json")


def register_importer(importer: Importer) -> None:
    """Make a layout of your own known to candi import."""
    if importer.name in IMPORTERS:
        raise UserError(f"There is an importer {importer.name!r} already; choose another name.")
    IMPORTERS[importer.name] = importer


def import_model(
    source: str, out: Path, *, tokenizer: str | None = None, layout: str | None = None, mask: int | None = None
) -> Path:
    """A published checkpoint, hf:OWNER/NAME or a folder, as a model of ours in the folder `out`.

    `tokenizer` is the place of its tokenizer where it has none beside it, `layout` the name of an importer where
    config.json does not tell, `mask` the id of the mask where it is not the layout's own. Nothing is written unless
    everything fits.
    """
    check_place(out)
    read = read_source(source)
    importer = _importer(read, layout)
    imported = importer.convert(read, mask)
    words = _tokenizer(read, importer, imported, tokenizer)
    if importer.padded:
        imported = imported.cut(words.vocab_size)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as aside:
        new = Path(aside) / out.name
        new.mkdir()
        write_model(new, dict(imported.weights), words, imported.config)
        model = Model.read(new)  # refuses what does not fit
        facts = ImportFacts(source, importer.name, read.sha256, imported.conventions)
        card = ModelCard(
            name=out.name, title=f"Imported from {source} ({importer.name} layout).", data="see its source",
            licence="that of its source", method=imported.config.method, parameters=parameter_count(model.denoiser),
            bytes=(new / WEIGHTS).stat().st_size, sha256=sha256(new / WEIGHTS), imported=facts,
        )  # fmt: skip
        write_text(new / CARD, card.to_json())
        write_text(new / README, model_page(card, read_json(new / CONFIG)))
        if out.exists():
            shutil.move(out, Path(aside) / "before")
        new.rename(out)
    return out


def start_folder(source: str, cache: Path) -> Path:
    """The folder of a model to start from: one of ours, or a published checkpoint, imported into the cache once."""
    folder = fetched(source, ["config.json"]) if source.startswith(HUB) else Path(source).expanduser()
    published = source == SMOLLM2 or source.endswith(".gguf")
    if (folder / "config.json").exists():
        config = read_json(folder / "config.json")
        published = isinstance(config, dict) and "method" not in config  # which every model of ours has
    if not published:
        return locate(source)
    name = re.sub(r"[^\w.-]+", "_", source.removeprefix(HUB))[-60:]
    out = cache / "imported" / f"{name}-{_stamp(source)}"
    return out if out.exists() else import_model(source, out)


def _stamp(source: str) -> str:
    """Of what is imported, without reading it into memory."""
    if source == SMOLLM2 or source.endswith(".gguf"):
        files = [smollm2_file() if source == SMOLLM2 else Path(source).expanduser()]
    else:
        folder = fetched(source, list(FILES)) if source.startswith(HUB) else Path(source).expanduser()
        files = [folder / "config.json", *sorted(folder.glob("*.safetensors"))]
    return hashlib.sha256("".join(map(sha256, files)).encode()).hexdigest()[:16]


def _importer(source: Source, layout: str | None) -> Importer:
    if layout is not None:
        if layout not in IMPORTERS:
            raise unknown("layout", layout, IMPORTERS)
        return IMPORTERS[layout]
    found = [one for one in IMPORTERS.values() if one.recognises(source.config)]
    if len(found) != 1:
        kind = _kind(source.config)
        raise UserError(
            f"{source.name} is of no layout that is known here{kind}; there are: {', '.join(IMPORTERS)}. Name it with "
            "--layout if it is one of them."
        )
    return found[0]


def _kind(config: Mapping[str, Any]) -> str:
    kind = config.get("model_type")
    return f" (model_type {kind!r})" if isinstance(kind, str) else ""


def _tokenizer(source: Source, importer: Importer, imported: Imported, place: str | None) -> Tokenizer:
    """The one that is named, or that lies beside the weights, or that all models of the layout share."""
    if place is None and source.tokenizer is not None:
        return source.tokenizer
    beside = any((source.folder / name).exists() for name in _TOKENIZERS)
    where = place or (str(source.folder) if beside else importer.tokenizer)
    if where is None:
        raise UserError(f"{source.name} has no tokenizer beside it; give its own, --tokenizer PLACE.")
    folder = fetched(where, [*_TOKENIZERS, "merges.txt", "vocab.bpe"]) if where.startswith(HUB) else Path(where)
    found, size = Tokenizer.load(folder.expanduser()), imported.config.vocab_size
    if importer.padded and found.vocab_size <= size:
        return found
    if found.vocab_size == size - 1:  # many add a token to pad with, which has no text
        found.backend.add_special_tokens([AddedToken("[PAD]", special=True)])
        found = Tokenizer(found.backend)
    if found.vocab_size != size:
        raise UserError(
            f"The tokenizer at {where} has {found.vocab_size:,} tokens, {source.name} {size:,}; give its own, "
            "--tokenizer PLACE."
        )
    return found
