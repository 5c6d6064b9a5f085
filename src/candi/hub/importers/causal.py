"""Causal language models of the transformers library: autoregressive models, and where diffusion can start from."""

from collections.abc import Mapping
from typing import Any

from candi.base.errors import UserError
from candi.diffusion.methods import ArSettings
from candi.hub.importers.imported import Imported, Importer
from candi.hub.importers.language_model import language_model_weights, row, table_of, trunk_settings_of, trunk_shapes
from candi.hub.importers.source import Source
from candi.nets.config import ModelConfig


class CausalImporter(Importer):
    name = "causal"
    about = "Llama, Qwen, SmolLM, GPT-2 and other ...ForCausalLM of the transformers library"
    padded = True

    def recognises(self, config: Mapping[str, Any]) -> bool:
        kinds = config.get("architectures")
        return isinstance(kinds, list) and any(str(kind).endswith(("ForCausalLM", "LMHeadModel")) for kind in kinds)

    def convert(self, source: Source, mask: int | None = None) -> Imported:
        """What stands before the first token is the one that its texts begin with."""
        if mask is not None:
            raise UserError("A causal language model has no mask; leave out --mask.")
        settings, table = trunk_settings_of(source, source.config), table_of(source, source.tensors)
        start = source.size("bos_token_id", "eos_token_id")
        vector = row(source, table, start, "token that texts begin with (bos_token_id)")
        length = source.size("max_position_embeddings", "n_positions") or 1024
        model = ModelConfig(len(table), length, "ar", ArSettings(), settings, trunk="transformers", unit_vectors=False)
        return Imported(
            model, language_model_weights(source, source.tensors, trunk_shapes(source, settings, True), vector),
            f"Left to right, one token after another; before the first stands token {start}.",
        )  # fmt: skip
