"""Tensors on disk: safetensors, never pickles."""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from candi.base.errors import UserError
from candi.base.files import need_file


def read_tensors(path: Path) -> dict[str, Tensor]:
    with _readable(path):
        return load_file(path)


def tensor_shapes(path: Path) -> dict[str, torch.Size]:
    """The shapes of tensors by their names, from the beginning of the file alone."""
    with _readable(path), safe_open(path, framework="pt") as file:
        return {name: torch.Size(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    need_file(path)
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path} is missing; {path.parent} is not a checkpoint.") from None
    except (SafetensorError, OSError, KeyError, AttributeError) as error:  # a kind of number that torch has not, too
        raise UserError(f"{path} cannot be read ({error}); it is damaged or cut short.") from None


def check_numbers(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Refuse weights with which nothing can be computed: numbers that are none, or zeros alone."""
    alive = False
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not tensor.numel():
            continue
        low, high = (tensor.float() if tensor.itemsize == 1 else tensor).aminmax()
        if not (torch.isfinite(low) and torch.isfinite(high)):
            raise UserError(f"{path} holds numbers that are none (NaN or infinity, in {name}); the weights are spoilt.")
        alive = alive or bool(low != 0 or high != 0)
    if not alive:
        raise UserError(f"{path} holds nothing but zeros; these are the weights of no trained model.")


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Whatever the disk refuses is an OSError, as for any other file."""
    try:
        save_file({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        full = f"os error {errno.ENOSPC}" in str(error)
        raise OSError(errno.ENOSPC if full else errno.EIO, str(error), str(path)) from error
