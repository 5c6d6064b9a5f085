"""MDLM as its authors publish it."""

from collections.abc import Mapping
from typing import Any

from candi.base.errors import UserError
from candi.diffusion.methods import MdlmSettings
from candi.hub.importers.dit import check_sizes, our_weights, read_dit
from candi.hub.importers.imported import Imported, Importer
from candi.hub.importers.source import Source
from candi.nets.config import ModelConfig


class MdlmImporter(Importer):
    name = "mdlm"
    about = "kuleshov-group/mdlm-owt and others of its layout"
    tokenizer = "hf:openai-community/gpt2"

    def recognises(self, config: Mapping[str, Any]) -> bool:
        return config.get("model_type") == "mdlm"

    def convert(self, source: Source, mask: int | None = None) -> Imported:
        return masked_dit(source, mask)


def masked_dit(source: Source, mask: int | None, block: int | None = None) -> Imported:
    """Masked positions show the last row of the table, or another one that is named; the network has no clock

    unless its configuration says so.
    """
    network = read_dit(source, "backbone.", source.size("n_heads"), source.number("dropout", 0.0))
    check_sizes(
        source, network, width=source.size("hidden_dim"), blocks=source.size("n_blocks"),
        rows=source.size("vocab_size"), conditioning=source.size("cond_dim"),
    )  # fmt: skip
    place = mask_row(source, network.rows, mask)
    vocab_size = network.rows - 1 if place == network.rows - 1 else network.rows
    clock = bool(source.config.get("time_conditioning", False))
    length = source.size("model_length")
    if length is None:
        raise UserError(f"{source.name}: config.json does not say how long its sequences are (model_length).")
    config = ModelConfig(
        vocab_size, length, "mdlm", MdlmSettings(clock=clock), network.settings, unit_vectors=False, block=block
    )
    told = "is told -log alpha(t), alpha(t) = 1 - 0.999 t" if clock else "is not told the time (0 in its place)"
    return Imported(
        config, our_weights(source, network, vocab_size, place),
        f"t = 0 is clean and t = 1 is masked; the network {told}. The mask is row {place} of its table of "
        f"{network.rows}, and is never predicted.",
    )  # fmt: skip


def mask_row(source: Source, rows: int, given: int | None) -> int:
    """The row of the mask: the one that is named, or the last."""
    place = rows - 1 if given is None else given
    if not 0 <= place < rows:
        raise UserError(f"{source.name} has {rows} rows of token vectors; the mask cannot be row {place}.")
    return place
