"""Tensors on disk: safetensors, never pickles."""

import errno
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from candi.base.errors import UserError


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except FileNotFoundError:
        raise UserError(f"{path} is missing; {path.parent} is not a checkpoint.") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} cannot be read ({error}); it is damaged or cut short.") from None


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Whatever the disk refuses is an OSError, as for any other file."""
    try:
        save_file({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        full = f"os error {errno.ENOSPC}" in str(error)
        raise OSError(errno.ENOSPC if full else errno.EIO, str(error), str(path)) from error
