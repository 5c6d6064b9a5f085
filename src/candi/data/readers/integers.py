"""Integers in NumPy's files: a row [L] of an array [N, L] is a sequence, an array [N] one long stream.

An .npz has `tokens` (or a single array) and, if some are given, `given`: how many of each row [N], or which [N, L].
Its other arrays [N] are columns of the rows.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from candi.base.errors import UserError
from candi.data.files import DataFile
from candi.data.pieces import Place, Row

_CHUNK = 1 << 20  # tokens of a stream at once


class Stretch(NamedTuple):
    """A part of a stream, after which the stream goes on."""

    tokens: NDArray[np.integer[Any]]


def integer_rows(file: DataFile, columns: Sequence[str] | None = None) -> Iterator[Row]:
    tokens, more = _arrays(file)
    given = more.pop("given", None)
    if not np.issubdtype(tokens.dtype, np.integer) or tokens.ndim not in (1, 2):
        shape = "x".join(map(str, tokens.shape))
        raise UserError(f"{file.name} holds {tokens.dtype} [{shape}]; integers [N] or [N, L] are expected.")
    if tokens.ndim == 1:
        for start in range(0, len(tokens), _CHUNK):
            yield Row(Place(file.name), {"tokens": Stretch(tokens[start : start + _CHUNK])})
        yield Row(Place(file.name), {"tokens": tokens[:0]})
        return
    if given is not None and given.shape not in ((len(tokens),), tokens.shape):
        raise UserError(f"{file.name}: given has the shape {given.shape}; it says how many of each row, or which.")
    columns_of = {name: array for name, array in more.items() if array.shape == (len(tokens),)}
    for number, row in enumerate(tokens):
        values = {"tokens": row} | {name: array[number] for name, array in columns_of.items()}
        yield Row(Place(file.name, "row", number + 1), values if given is None else values | {"given": given[number]})


def _arrays(file: DataFile) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """The tokens, and the other arrays by their names."""
    try:
        if file.path is not None and file.kind == ".npy":
            return np.load(file.path, mmap_mode="r", allow_pickle=False), {}
        found = np.load(file.seekable(), allow_pickle=False)
        if file.kind == ".npy":
            return found, {}
        names = [name for name in found.files if name != "given"]
        name = "tokens" if "tokens" in names or len(names) != 1 else names[0]
        if name not in names:
            raise UserError(f"{file.name} has no array 'tokens'; it has: {', '.join(names)}.")
        return found[name], {other: found[other] for other in found.files if other != name}
    except (ValueError, EOFError, OSError, KeyError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{file.name} is no array of integers ({error}); save one with numpy.save.") from None
