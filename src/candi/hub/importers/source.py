"""What is imported: the files of a published checkpoint, in a folder or on the hub. Nothing is unpickled."""

import hashlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError
from torch import Tensor

from candi.base.config import read_json
from candi.base.errors import UserError, extra
from candi.base.files import sha256
from candi.base.tensors import read_tensors
from candi.data.tokenizer import Tokenizer
from candi.evaluation.scorers import SMOLLM2, smollm2_file

HUB = "hf:"
FILES = ["config.json", "*.safetensors", "tokenizer.json", "vocab.json", "merges.txt", "encoder.json", "vocab.bpe"]
_PICKLES = (".ckpt", ".bin", ".pth", ".pt")


@dataclass(frozen=True)
class Source:
    """A published checkpoint: where it is, its config.json, its tensors, and a hash of their files."""

    name: str
    folder: Path
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    sha256: str
    tokenizer: Tokenizer | None = None  # where the file of the weights holds it

    def size(self, *names: str) -> int | None:
        """A number of the config by the first of some names, dots for what lies inside; None if it says nothing."""
        for name in names:
            value: Any = self.config
            for part in name.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            if value is not None:
                return int(self._number(name, value))
        return None

    def number(self, name: str, default: float) -> float:
        """A number of the config that need not be whole."""
        return float(self._number(name, self.config.get(name, default)))

    def _number(self, name: str, value: Any) -> int | float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not abs(value) <= sys.float_info.max:
            raise UserError(f"{self.name}: {name} in config.json must be a number, not {str(value)[:60]}.")
        return value  # type: ignore[no-any-return]


def read_source(name: str) -> Source:
    """From hf:OWNER/NAME, a folder, a GGUF file, or smollm2, which comes in a wheel."""
    if name == SMOLLM2 or name.endswith(".gguf"):
        return _read_gguf(name, smollm2_file() if name == SMOLLM2 else Path(name).expanduser())
    folder = fetched(name, FILES) if name.startswith(HUB) else Path(name).expanduser()
    if folder.suffix in _PICKLES and folder.is_file():
        raise UserError(_of_pickles(name))
    if not folder.is_dir():
        raise UserError(
            f"There is no folder {name!r}; give one with config.json and model.safetensors, or hf:OWNER/NAME."
        )
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        pickle = next((path for path in sorted(folder.iterdir()) if path.suffix in _PICKLES), None)
        if pickle is not None or name.startswith(HUB):
            raise UserError(_of_pickles(name if pickle is None else str(pickle)))
        raise UserError(f"{folder} holds no *.safetensors; give the folder of a published checkpoint.")
    config = read_json(folder / "config.json")
    if not isinstance(config, dict):
        raise UserError(f"{folder / 'config.json'} holds no table of settings.")
    tensors: dict[str, Tensor] = {}
    for path in files:
        found = read_tensors(path)
        if twice := sorted(tensors.keys() & found.keys()):
            raise UserError(f"{path} holds {twice[0]} for a second time; keep one set of weights in the folder.")
        tensors |= found
    digests = [sha256(path) for path in files]
    whole = digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    return Source(name, folder, config, tensors, whole)


def _read_gguf(name: str, file: Path) -> Source:
    """Weights of few bits, made whole by the transformers library, which also reads the tokenizer in the file."""
    if importlib.util.find_spec("transformers") is None:
        raise UserError(f"A GGUF file is read by the transformers library; get it with {extra('scorers')}.")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        words = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
        network = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name)
    except (OSError, ValueError, ImportError) as error:
        raise UserError(f"{file} cannot be read as GGUF ({str(error).strip().splitlines()[0]}).") from None
    config = {**network.config.to_dict(), "architectures": [type(network).__name__]}
    tensors = {key: tensor.float() for key, tensor in network.state_dict().items()}
    return Source(name, file.parent, config, tensors, sha256(file), Tokenizer(words.backend_tokenizer))


def fetched(name: str, files: list[str]) -> Path:
    """Files of hf:OWNER/NAME on this machine."""
    try:
        return Path(snapshot_download(name.removeprefix(HUB), allow_patterns=files))
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"{name} cannot be fetched from the hub: {reason}") from None


def _of_pickles(name: str) -> str:
    return (
        f"{name} holds weights as a pickle, which can run any code and is not opened here; where its authors' code is "
        "installed, load it and write the weights with safetensors.torch.save_file(weights, 'model.safetensors') "
        "beside a config.json (of a training checkpoint the averaged ones, ema.shadow_params, by their names)."
    )
