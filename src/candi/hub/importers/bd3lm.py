"""BD3-LM as its authors publish it: masked diffusion in blocks."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from candi.base.errors import UserError
from candi.hub.importers.imported import Imported, Importer
from candi.hub.importers.mdlm import masked_dit
from candi.hub.importers.source import Source


class Bd3lmImporter(Importer):
    name = "bd3lm"
    about = "kuleshov-group/bd3lm-owt-block_size4 and others of its layout"
    tokenizer = "hf:openai-community/gpt2"

    def recognises(self, config: Mapping[str, Any]) -> bool:
        return config.get("model_type") == "bd3lm"

    def convert(self, source: Source, mask: int | None = None) -> Imported:
        """In blocks where it reads two copies side by side (cross_attn); without that it is MDLM of whole sequences."""
        config = source.config
        if config.get("causal", False) or not config.get("adaln", True):
            raise UserError(f"{source.name} is the autoregressive baseline of BD3-LM, which is not known here.")
        if config.get("time_conditioning", False):
            raise UserError(
                f"{source.name} tells its clean blocks the time of the noisy ones (time_conditioning), which is not "
                "known here; the published networks are told no time."
            )
        blocks = bool(config.get("cross_attn", True))
        size = source.size("block_size") if blocks else None
        if blocks and size is None:
            raise UserError(f"{source.name}: config.json does not say how large its blocks are (block_size).")
        found = masked_dit(source, mask, size)
        how = f"It writes blocks of {size} tokens, each from those before it. " if blocks else ""
        first = "It has learned texts that begin with the token that ends a text; give it as the first one."
        return dataclasses.replace(found, conventions=f"{found.conventions} {how}{first}")
