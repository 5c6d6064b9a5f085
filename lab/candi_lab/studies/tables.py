"""Tables of token vectors from wherever they are."""

import importlib.util
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from torch import Tensor

from candi.base.errors import UserError
from candi.evaluation.scorers import SMOLLM2, smollm2_file
from candi.hub.loading import load

_USUAL = ("embedding.weight", "embed_tokens.weight", "wte.weight", "token_embd.weight", "word_embeddings.weight")


def load_table(source: str) -> Float[Tensor, "V D"]:
    """The vectors of a run of ours (as it uses them), of FILE.safetensors or FILE.safetensors:TENSOR, of a GGUF file,

    or of SmolLM2 where its wheel is installed.
    """
    table = _read(source)
    if table.dim() != 2 or min(table.shape) < 2:
        raise UserError(
            f"The table of {source} has shape {list(table.shape)}; token vectors are [V, D], 2 by 2 at least."
        )
    if not bool(table.isfinite().all()) or not bool(table.any()):
        raise UserError(f"The table of {source} is all zero or not finite; it holds no token vectors.")
    return table


def _read(source: str) -> Tensor:
    if source == SMOLLM2:
        return _gguf(smollm2_file())
    path, _, name = source.partition(".safetensors:")
    if source.endswith(".safetensors") or name:
        return _safetensors(Path(path if source.endswith(".safetensors") else path + ".safetensors"), name)
    if source.endswith(".gguf"):
        return _gguf(Path(source))
    return load(source, "cpu").denoiser.method.embedding.rows().detach()


def _safetensors(path: Path, name: str) -> Tensor:
    try:
        with safe_open(path, "pt") as file:
            names = list(file.keys())
            usual = [n for n in names if n.endswith(_USUAL)]
            chosen = name or (usual[0] if len(usual) == 1 else "")
            if chosen not in names:
                listed = ", ".join(names[:6]) + (" ..." if len(names) > 6 else "")
                raise UserError(f"Which tensor of {path} is the table? Say {path}:NAME with one of {listed}")
            table: Tensor = file.get_tensor(chosen)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} cannot be read ({error}); it is damaged or no safetensors file.") from None
    return table.float()


def _gguf(path: Path) -> Tensor:
    if importlib.util.find_spec("gguf") is None:
        raise UserError("Reading a GGUF file needs the package gguf; get it with pip install --no-deps gguf")
    from gguf import GGUFReader, dequantize

    try:
        tensors = {tensor.name: tensor for tensor in GGUFReader(path).tensors}
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}); it is damaged or no GGUF file.") from None
    if "token_embd.weight" not in tensors:
        raise UserError(f"{path} holds no token vectors (token_embd.weight).")
    found = tensors["token_embd.weight"]
    return torch.from_numpy(np.array(dequantize(found.data, found.tensor_type), dtype=np.float32))
