"""Masked language models of the transformers library: BERT and ModernBERT, as masked diffusion without a clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from candi.base.errors import UserError
from candi.data.tokenizer import Tokenizer
from candi.diffusion.methods import MdlmSettings
from candi.hub.importers.imported import Imported, Importer
from candi.hub.importers.language_model import NEVER, check_fit, row, trunk_settings_of, trunk_shapes
from candi.hub.importers.source import Source
from candi.nets.config import ModelConfig
from candi.nets.transformers_trunk import TRANSFORMS

_MASKS = ("[MASK]", "<mask>")


@dataclass(frozen=True)
class _Names:
    """Where a kind of model keeps what; a last layer that is missing is the table again."""

    base: str
    table: str
    head: str
    bias: str
    unused: tuple[str, ...] = ()


_KINDS = {
    "bert": _Names("bert.", "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight",
                   "cls.predictions.bias", ("bert.pooler.", "bert.embeddings.position_ids", "cls.seq_relationship.",
                                            "cls.predictions.decoder.bias")),
    "modernbert": _Names("model.", "model.embeddings.tok_embeddings.weight", "decoder.weight", "decoder.bias"),
}  # fmt: skip


class MaskedImporter(Importer):
    name = "masked"
    about = "BERT and ModernBERT, ...ForMaskedLM of the transformers library"
    padded = True

    def recognises(self, config: Mapping[str, Any]) -> bool:
        kinds = config.get("architectures")
        return isinstance(kinds, list) and any(str(kind).endswith("ForMaskedLM") for kind in kinds)

    def convert(self, source: Source, mask: int | None = None) -> Imported:
        """What it predicts at a masked position is p(x0_i | z_t) at any share of masks; the mask is never predicted."""
        kind = str(source.config.get("model_type"))
        if kind not in _KINDS:
            raise UserError(f"{source.name} is of the kind {kind!r}; of masked language models {', '.join(_KINDS)} can "
                            "be imported.")  # fmt: skip
        names = _KINDS[kind]
        settings = trunk_settings_of(source, source.config, transform=True)
        tensors = {_renamed(name): tensor.float() for name, tensor in source.tensors.items()}
        table = tensors.get(names.table)
        if table is None or table.dim() != 2:
            raise UserError(f"{source.name} has no table of token vectors ({names.table}).")
        place = _mask_of(source) if mask is None else mask
        vector = row(source, table, place, "mask")
        transform = TRANSFORMS[kind] + "."
        theirs = {
            _ours(name, names.base, transform): tensor for name, tensor in tensors.items()
            if name not in (names.table, names.head, names.bias) and not name.startswith(names.unused)
        }  # fmt: skip
        check_fit(source, trunk_shapes(source, settings, False), theirs)
        head, bias = tensors.get(names.head, table).clone(), tensors.get(names.bias, torch.zeros(len(table))).clone()
        head[place], bias[place] = 0.0, NEVER
        model = ModelConfig(
            len(table), source.size("max_position_embeddings") or 512, "mdlm", MdlmSettings(), settings,
            trunk="transformers", unit_vectors=False,
        )  # fmt: skip
        weights: dict[str, Tensor] = {f"trunk.{name}": tensor for name, tensor in theirs.items()}
        weights |= {
            "method.embedding.weight": table, "method.embedding.mask": vector.clone(), "head.weight": head,
            "head.bias": bias,
        }  # fmt: skip
        return Imported(
            model, weights,
            "t = 0 is clean and t = 1 is masked; the network is not told the time, and was trained at one share of "
            f"masks alone. The mask is token {place}, which is never predicted.",
        )  # fmt: skip


def _renamed(name: str) -> str:
    """As the library has it; the first BERTs call a norm's weight and bias gamma and beta."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _ours(name: str, base: str, transform: str) -> str:
    if name.startswith(transform):
        return f"transform.{name.removeprefix(transform)}"
    return f"network.{name.removeprefix(base)}"


def _mask_of(source: Source) -> int:
    """By its text, in the tokenizer beside the weights."""
    if (source.folder / "tokenizer.json").exists():
        backend = Tokenizer.load(source.folder).backend
        found = [backend.token_to_id(text) for text in _MASKS]
        place = next((one for one in found if one is not None), None)
        if place is not None:
            return int(place)
    raise UserError(f"{source.name} does not say which token is the mask; give its id, --mask ID.")
