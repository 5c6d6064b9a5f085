"""DUO as its authors publish it, distilled or not."""

from collections.abc import Mapping
from typing import Any

from candi.base.errors import UserError
from candi.diffusion.methods import DuoSettings
from candi.hub.importers.dit import check_sizes, our_weights, read_dit
from candi.hub.importers.imported import Imported, Importer
from candi.hub.importers.source import Source
from candi.nets.config import ModelConfig


class DuoImporter(Importer):
    name = "duo"
    about = "s-sahoo/duo and s-sahoo/duo-distilled"
    tokenizer = "hf:openai-community/gpt2"

    def recognises(self, config: Mapping[str, Any]) -> bool:
        return str(config.get("model_type", "")).lower() == "duo"

    def convert(self, source: Source, mask: int | None = None) -> Imported:
        """Every row of the table is a token of the uniform process."""
        if mask is not None:
            raise UserError("DUO has no mask; leave out --mask.")
        if source.config.get("causal"):
            raise UserError(f"{source.name} is a causal network, which DUO is not; it cannot be imported.")
        network = read_dit(source, "backbone.", source.size("n_heads"), source.number("dropout", 0.0))
        check_sizes(
            source, network, width=source.size("hidden_dim"), blocks=source.size("n_blocks"),
            rows=source.size("vocab_size"), conditioning=source.size("cond_dim"),
        )  # fmt: skip
        length = source.size("model_length")
        if length is None:
            raise UserError(f"{source.name}: config.json does not say how long its sequences are (model_length).")
        settings = DuoSettings(schedule="linear", curriculum=0.0)
        config = ModelConfig(network.rows, length, "duo", settings, network.settings, unit_vectors=False)
        return Imported(
            config, our_weights(source, network, network.rows, None),
            "t = 0 is clean and t = 1 is uniform noise, alpha(t) = 1 - 0.999 t; the network is told -log alpha(t). "
            "There is no mask. The curriculum belongs to training alone.",
        )  # fmt: skip
