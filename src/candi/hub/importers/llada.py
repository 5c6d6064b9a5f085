"""LLaDA: masked diffusion in the blocks of Llama, under other names."""

import re
from collections.abc import Mapping
from typing import Any

from candi.base.errors import UserError
from candi.diffusion.methods import MdlmSettings
from candi.hub.importers.imported import Imported, Importer
from candi.hub.importers.language_model import language_model_weights, row, table_of, trunk_settings_of, trunk_shapes
from candi.hub.importers.source import Source
from candi.nets.config import ModelConfig

_MASK = 126336
_NAMES = {
    "attn_norm": "input_layernorm", "ff_norm": "post_attention_layernorm", "q_proj": "self_attn.q_proj",
    "k_proj": "self_attn.k_proj", "v_proj": "self_attn.v_proj", "attn_out": "self_attn.o_proj",
    "ff_proj": "mlp.gate_proj", "up_proj": "mlp.up_proj", "ff_out": "mlp.down_proj",
}  # fmt: skip
_OUTSIDE = {
    "model.transformer.wte.weight": "model.embed_tokens.weight", "model.transformer.ln_f.weight": "model.norm.weight",
    "model.transformer.ff_out.weight": "lm_head.weight",
}  # fmt: skip


class LladaImporter(Importer):
    name = "llada"
    about = "GSAI-ML/LLaDA-8B-Base and others of its layout"
    padded = True

    def recognises(self, config: Mapping[str, Any]) -> bool:
        return str(config.get("model_type", "")).lower() == "llada"

    def convert(self, source: Source, mask: int | None = None) -> Imported:
        """No clock; predictions are read at their own positions; the mask is a token that is never predicted."""
        config = source.config
        for name, wanted in (("block_type", "llama"), ("layer_norm_type", "rms"), ("activation_type", "silu")):
            if config.get(name, wanted) != wanted:
                raise UserError(f"{source.name}: {name} is {config[name]!r}; only {wanted!r} can be imported.")
        sizes = {name: source.size(*theirs) for name, theirs in _SIZES.items()}
        lacking = next((name for name, size in sizes.items() if size is None), None)
        if lacking is not None:
            raise UserError(f"{source.name}: config.json does not say the {lacking} ({_SIZES[lacking][0]}).")
        tensors = {_renamed(name): tensor for name, tensor in source.tensors.items()}
        table = table_of(source, tensors)
        theta = source.number("rope_theta", 10_000.0)
        architecture = {
            "model_type": "llama", **sizes, "vocab_size": len(table), "rms_norm_eps": config.get("rms_norm_eps", 1e-5),
            "rope_theta": theta, "rope_parameters": {"rope_type": "default", "rope_theta": theta},
            "tie_word_embeddings": False, "attention_bias": bool(config.get("include_qkv_bias", False)),
        }  # fmt: skip
        settings, place = trunk_settings_of(source, architecture), mask
        place = source.size("mask_token_id") if place is None else place
        place = _MASK if place is None else place
        vector = row(source, table, place, "mask")
        model = ModelConfig(
            len(table), source.size("max_sequence_length") or 4096, "mdlm", MdlmSettings(), settings,
            trunk="transformers", unit_vectors=False,
        )  # fmt: skip
        return Imported(
            model, language_model_weights(source, tensors, trunk_shapes(source, settings, False), vector, place),
            "t = 0 is clean and t = 1 is masked; the network is not told the time, and predicts each position at its "
            f"own place. The mask is token {place}, which is never predicted.",
        )  # fmt: skip


_SIZES = {
    "hidden_size": ("d_model",), "intermediate_size": ("mlp_hidden_size",), "num_hidden_layers": ("n_layers",),
    "num_attention_heads": ("n_heads",), "num_key_value_heads": ("n_kv_heads", "n_heads"),
    "max_position_embeddings": ("max_sequence_length",),
}  # fmt: skip


def _renamed(name: str) -> str:
    """model.transformer.blocks.N.PART.KIND as Llama has it."""
    found = re.fullmatch(r"model\.transformer\.blocks\.(\d+)\.(\w+)\.(weight|bias)", name)
    if found is None or found[2] not in _NAMES:
        return _OUTSIDE.get(name, name)
    return f"model.layers.{found[1]}.{_NAMES[found[2]]}.{found[3]}"
