"""Finding a model by path."""

import sys
from pathlib import Path

import torch
from huggingface_hub.errors import HfHubHTTPError

from candi.errors import UserError
from candi.model import CONFIG, Model, read_model
from candi.training import checkpoint

_HUB = "hf:"


def load(path: str | Path, device: torch.device | str = "auto") -> Model:
    """The model of a run (its newest intact checkpoint), of a checkpoint's folder, or of the hub (hf:OWNER/NAME)."""
    device = _device(device)
    if str(path).startswith(_HUB):
        return _from_hub(str(path).removeprefix(_HUB), device)
    return read_model(find(Path(path).expanduser()), device)


def _from_hub(name: str, device: torch.device) -> Model:
    try:
        model: Model = Model.from_pretrained(name, device=device)
    except UserError:
        raise
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"The model {name!r} cannot be fetched from the hub: {reason}") from None
    return model


def find(folder: Path) -> Path:
    """The checkpoint that a path means."""
    if not folder.exists():
        raise UserError(f"There is no run or checkpoint at {str(folder)!r}; train one first with candi train.")
    if folder.is_dir() and (folder / CONFIG).exists():
        return folder
    checkpoints = folder / "checkpoints"
    if checkpoints.is_dir():
        newest = next(checkpoint.intact(checkpoints, _report), None)
        if newest is not None:
            return newest
        raise UserError(f"{folder} has no intact checkpoint yet; let its training reach the first one.")
    raise UserError(f"{folder} is neither a run nor a checkpoint: it holds no config.json.")


def _device(device: torch.device | str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):  # torch asserts that it was built for the device
        raise UserError(f"There is no device {str(device)!r} on this machine; use auto, cpu or cuda.") from None
    return torch.device(device)


def _report(text: str) -> None:
    print(text, file=sys.stderr)
