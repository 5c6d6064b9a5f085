"""Language models in the names of the transformers library: token vectors, blocks and last layer as our weights."""

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from candi.base.errors import UserError
from candi.hub.importers.source import Source
from candi.nets.outline import outline
from candi.nets.transformers_trunk import TransformersSettings

NEVER = -1e6  # the logit of a token that cannot be predicted
_LEFT_OUT = ("architectures", "auto_map", "torch_dtype", "dtype", "transformers_version", "_name_or_path")


def trunk_settings_of(
    source: Source, config: Mapping[str, Any], shift: str = "no", transform: bool = False
) -> TransformersSettings:
    """The trunk of a config.json that the library knows."""
    kept = {name: value for name, value in config.items() if name not in _LEFT_OUT}
    width = kept.get("hidden_size", kept.get("n_embd"))
    if not isinstance(width, int):
        raise UserError(f"{source.name}: config.json does not say how wide the network is (hidden_size).")
    return TransformersSettings(width, json.dumps(kept, sort_keys=True), shift, time=False, transform=transform)  # type: ignore[arg-type]


def trunk_shapes(source: Source, settings: TransformersSettings, causal: bool) -> dict[str, torch.Size]:
    """Of its tensors by their names; nothing of its size is made."""
    try:
        return outline(lambda: settings.build(causal), [tensor.shape for tensor in source.tensors.values()])
    except UserError as error:
        raise UserError(f"{source.name}: {error}") from None


def language_model_weights(
    source: Source, tensors: Mapping[str, Tensor], trunk: Mapping[str, torch.Size], mask: Tensor,
    never: int | None = None,
) -> dict[str, Tensor]:  # fmt: skip
    """Our weights from those of a ...ForCausalLM: a table, what lies under the base model's prefix, and lm_head.

    `mask` is the vector of a position that shows nothing, `never` a token that is never predicted.
    """
    prefix = next(
        (p for p in ("model.", "transformer.", "") if f"{p}{_TABLE[0]}" in tensors or f"{p}{_TABLE[1]}" in tensors),
        None,
    )
    if prefix is None:
        raise UserError(f"{source.name} has no table of token vectors (model.embed_tokens.weight).")
    table = next(tensors[f"{prefix}{name}"] for name in _TABLE if f"{prefix}{name}" in tensors)
    theirs = {
        f"network.{name.removeprefix(prefix)}": tensor for name, tensor in tensors.items() if name.startswith(prefix)
    }
    theirs = {
        name: tensor
        for name, tensor in theirs.items()
        if name.removeprefix("network.") not in (*_TABLE, "lm_head.weight", "lm_head.bias")
    }
    check_fit(source, {name: shape for name, shape in trunk.items() if name.startswith("network.")}, theirs)
    head = tensors.get("lm_head.weight", table).float().clone()  # tied where there is none
    bias = tensors.get("lm_head.bias", torch.zeros(len(head))).float().clone()
    if never is not None:
        head[never], bias[never] = 0.0, NEVER
    weights = {f"trunk.{name}": tensor.float() for name, tensor in theirs.items()}
    return weights | {
        "method.embedding.weight": table.float(), "method.embedding.mask": mask.float().clone(), "head.weight": head,
        "head.bias": bias,
    }  # fmt: skip


def check_fit(source: Source, expected: Mapping[str, torch.Size], found: Mapping[str, Tensor]) -> None:
    """Every tensor is there, no other, each of its shape."""
    wrong = sorted(expected.keys() ^ found.keys()) or [n for n in expected if expected[n] != found[n].shape]
    if wrong:
        raise UserError(f"{source.name}: {wrong[0].removeprefix('network.')} missing, unexpected or of another shape.")


_TABLE = ("embed_tokens.weight", "wte.weight")


def table_of(source: Source, tensors: Mapping[str, Tensor]) -> Tensor:
    found = [tensor for name, tensor in tensors.items() if name.endswith(_TABLE)]
    if len(found) != 1 or found[0].dim() != 2:
        raise UserError(f"{source.name} has no table of token vectors (model.embed_tokens.weight).")
    return found[0]


def row(source: Source, table: Tensor, place: int | None, what: str) -> Tensor:
    if place is None or not 0 <= place < len(table):
        raise UserError(f"{source.name}: the {what} must be a row of the table of {len(table):,}, not {place}.")
    return table[place]
