"""Finding a model by path."""

import sys
from pathlib import Path

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError

from candi.errors import UserError
from candi.model import CONFIG, TOKENIZER, WEIGHTS, Model, read_model
from candi.shipped import CARD, CLASSIFIERS, WORDS, shipped
from candi.training import checkpoint

_HUB = "hf:"


def load(path: str | Path, device: torch.device | str = "auto") -> Model:
    """The model of a run (its newest intact checkpoint), of a checkpoint's folder, of the hub (hf:OWNER/NAME), or one
    that ships, by its name."""
    device = device_named(device)
    if str(path).startswith(_HUB):
        return _from_hub(str(path).removeprefix(_HUB), device)
    return read_model(find(Path(path).expanduser()), device)


def locate(source: str) -> Path:
    """The folder of a model's files, fetched from the hub if it is there."""
    if not source.startswith(_HUB):
        return find(Path(source).expanduser())
    name = source.removeprefix(_HUB)
    try:
        return Path(
            snapshot_download(name, allow_patterns=[WEIGHTS, CONFIG, TOKENIZER, CARD, WORDS, f"{CLASSIFIERS}/**"])
        )
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise _unreachable(name, error) from None


def _unreachable(name: str, error: Exception) -> UserError:
    reason = str(error).strip().splitlines()[0]
    return UserError(f"The model {name!r} cannot be fetched from the hub: {reason}")


def _from_hub(name: str, device: torch.device) -> Model:
    try:
        model: Model = Model.from_pretrained(name, device=device)
    except UserError:
        raise
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise _unreachable(name, error) from None
    return model


def find(folder: Path) -> Path:
    """The checkpoint that a path means."""
    known = shipped()
    if not folder.exists():
        if str(folder) in known:
            return known[str(folder)]
        raise UserError(
            f"There is no run or checkpoint at {str(folder)!r}; train one first with candi train, or take one that "
            f"ships: {', '.join(known) or 'none'}."
        )
    if folder.is_dir() and (folder / CONFIG).exists():
        return folder
    checkpoints = folder / "checkpoints"
    if checkpoints.is_dir():
        newest = next(checkpoint.intact(checkpoints, _report), None)
        if newest is not None:
            return newest
        raise UserError(f"{folder} has no intact checkpoint yet; let its training reach the first one.")
    if str(folder) in known:  # a file of data, say, that is called as it is
        return known[str(folder)]
    raise UserError(f"{folder} is neither a run nor a checkpoint: it holds no config.json.")


def device_named(device: torch.device | str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):  # torch asserts that it was built for the device
        raise UserError(f"There is no device {str(device)!r} on this machine; use auto, cpu or cuda.") from None
    return torch.device(device)


def _report(text: str) -> None:
    print(text, file=sys.stderr)
