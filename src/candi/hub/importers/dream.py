"""Dream: masked diffusion that began as Qwen2, and still predicts the next position."""

from collections.abc import Mapping
from typing import Any

from candi.diffusion.methods import MdlmSettings
from candi.hub.importers.imported import Imported, Importer
from candi.hub.importers.language_model import language_model_weights, row, table_of, trunk_settings_of, trunk_shapes
from candi.hub.importers.source import Source
from candi.nets.config import ModelConfig


class DreamImporter(Importer):
    name = "dream"
    about = "Dream-org/Dream-v0-Base-7B and others of its layout"
    padded = True

    def recognises(self, config: Mapping[str, Any]) -> bool:
        return str(config.get("model_type", "")).lower() == "dream"

    def convert(self, source: Source, mask: int | None = None) -> Imported:
        """The prediction of a position is read one place before it, that of the first at its own."""
        config = {name: value for name, value in source.config.items() if name not in ("mask_token_id", "model_type")}
        settings = trunk_settings_of(source, {**config, "model_type": "qwen2"}, shift="repeat")
        table = table_of(source, source.tensors)
        place = source.size("mask_token_id") if mask is None else mask
        vector = row(source, table, place, "mask (mask_token_id, or --mask)")
        model = ModelConfig(
            len(table), source.size("max_position_embeddings") or 2048, "mdlm", MdlmSettings(), settings,
            trunk="transformers", unit_vectors=False,
        )  # fmt: skip
        return Imported(
            model, language_model_weights(source, source.tensors, trunk_shapes(source, settings, False), vector, place),
            "t = 0 is clean and t = 1 is masked; the network is not told the time. The prediction of a position is "
            f"read from the one before it, that of the first from itself. The mask is token {place}, never predicted.",
        )  # fmt: skip
