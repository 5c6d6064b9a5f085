"""The files of a model: model.safetensors, config.json, tokenizer.json, and card.json of one that was packed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from candi.base.config import read_json
from candi.base.errors import UserError
from candi.base.files import sha256
from candi.base.shards import TensorFile
from candi.base.tensors import check_numbers, write_tensors
from candi.data.tokenizer import Tokenizer
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.outline import outline

WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.json"
CARD = "card.json"  # what a model was made of, how well it does, what it should be sampled with

_TABLE, _TRUNK = "method.embedding.weight", "trunk."
_FREQUENCIES = "method.frequencies"  # of tokens in the training data; models of 0.1 have none

# weights of 0.1 had other names
_RENAMED = (
    ("codebook.weight", "embedding.weight"),
    ("codebook.empty", "embedding.mask"),
    ("trunk.clock.", "trunk.timestep_embedder."),
    (".neighbours.", ".short_conv."),
)


def open_weights(path: Path) -> TensorFile:
    """Tensors by the names that they have now, in one file or in shards, each read when it is asked for."""
    return TensorFile(path, _current)


def read_weights(path: Path) -> dict[str, Tensor]:
    """All of them."""
    return dict(open_weights(path))


def weight_shapes(path: Path) -> dict[str, torch.Size]:
    """Their shapes by the same names, before any of them is read."""
    file = open_weights(path)
    return {name: torch.Size(file.shape(name)) for name in file}


def _current(name: str) -> str:
    for old, new in _RENAMED:
        name = name.replace(old, new)
    return name


def write_model(folder: Path, weights: dict[str, Tensor], tokenizer: Tokenizer, config: ModelConfig) -> None:
    """model.safetensors, config.json and tokenizer.json."""
    write_tensors(weights, folder / WEIGHTS)
    write_about(folder, tokenizer, config)


def write_about(folder: Path, tokenizer: Tokenizer, config: ModelConfig) -> None:
    """What a model is beside its weights."""
    (folder / CONFIG).write_text(json.dumps(config.to_json(), indent=2) + "\n", encoding="utf-8")
    (folder / TOKENIZER).write_text(tokenizer.json, encoding="utf-8")


def read_config(folder: Path) -> ModelConfig:
    return ModelConfig.from_json(read_json(folder / CONFIG), str(folder / CONFIG))


def read_denoiser(folder: Path, config: ModelConfig) -> Denoiser:
    """The network of a folder. Its sizes are held against the weights before anything of it is made."""
    path = folder / WEIGHTS
    _check_sizes(config, path)
    denoiser = Denoiser.build(config)
    _load_weights(denoiser, path)
    return denoiser


def _check_sizes(config: ModelConfig, path: Path) -> None:
    """By names and shapes alone: the table of token vectors says vocabulary and width, the trunk all else."""
    found = weight_shapes(path)
    _compare({_TABLE: torch.Size((config.vocab_size, config.model.width))}, {_TABLE: found.get(_TABLE)}, path)
    causal = config.build_method(2).causal
    try:
        trunk = outline(lambda: config.model.build(causal), found.values())
    except UserError as error:
        raise UserError(f"{path} does not fit its config.json: {error}") from None
    _compare(
        {f"{_TRUNK}{name}": shape for name, shape in trunk.items()},
        {name: shape for name, shape in found.items() if name.startswith(_TRUNK)},
        path,
    )


def _compare(expected: Mapping[str, torch.Size | None], found: Mapping[str, torch.Size | None], path: Path) -> None:
    wrong = sorted(found.keys() ^ expected.keys()) or [name for name in expected if found[name] != expected[name]]
    if wrong:
        raise UserError(f"{path} does not fit its config.json: {_some(wrong)} missing, unexpected or of another shape.")


def _load_weights(denoiser: Denoiser, path: Path) -> None:
    """Strict: every weight must be there, no other, each of its shape. Token frequencies may be there or not."""
    weights = read_weights(path)
    check_numbers(weights, path)
    check_numbers({_TABLE: weights[_TABLE]}, path)
    expected = denoiser.state_dict()
    shapes = {name: tensor.shape for name, tensor in expected.items() if name != _FREQUENCIES}
    _compare(shapes, {name: tensor.shape for name, tensor in weights.items() if name != _FREQUENCIES}, path)
    frequencies = weights.get(_FREQUENCIES)
    if frequencies is not None and (frequencies.dim() != 2 or frequencies.shape[1] != denoiser.vocab_size):
        _compare({_FREQUENCIES: None}, {_FREQUENCIES: frequencies.shape}, path)
    denoiser.load_state_dict(weights)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def check_weights(folder: Path) -> None:
    """Refuse weights that are not those of the card, if there is one."""
    card = read_json(folder / CARD) if (folder / CARD).exists() else {}
    expected = card.get("sha256") if isinstance(card, dict) else None
    if expected is not None and sha256(folder / WEIGHTS) != expected:
        raise UserError(
            f"{folder / WEIGHTS} is not what {folder / CARD} was written for (SHA-256 differs); fetch the model anew."
        )


def recommended(folder: Path) -> dict[str, Any]:
    """The sampling options that the model's card recommends; none without a card."""
    path = folder / CARD
    if not path.exists():
        return {}
    card = read_json(path)
    advice = card.get("recommended", {}) if isinstance(card, dict) else None
    kinds: dict[str, Any] = {"steps": int, "temperature": (int, float)}
    if not isinstance(advice, dict) or not all(
        isinstance(v, kinds.get(k, str)) and not isinstance(v, bool) for k, v in advice.items()
    ):
        raise UserError(f"{path} is no card of a model: what it recommends is no table of sampling options.")
    return advice
