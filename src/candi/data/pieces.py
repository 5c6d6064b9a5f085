"""What readers give: rows of values with their place, and pieces of documents."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Place(NamedTuple):
    """Where something stands: `line 3 of a.csv`, for sentences about it."""

    file: str
    unit: str = ""
    number: int = 0

    @property
    def short(self) -> str:
        """Without the folders."""
        return str(self._replace(file=PurePath(self.file).name))

    def __str__(self) -> str:
        return f"{self.file} {self.unit} {self.number}" if self.unit else self.file


class Row(NamedTuple):
    """Named values, and where they stand."""

    place: Place
    values: Mapping[str, Any]


class Part(NamedTuple):
    """A stretch of a document: what is given, as a prompt is, or what is to be learned."""

    text: str
    given: bool


class Piece(NamedTuple):
    """A piece of a document: text, or tokens that are integers already.

    `parts` say which stretches of the text are given, `given` which of the tokens.
    """

    text: str
    ends: bool  # does a document end here?
    place: Place = Place("")
    parts: tuple[Part, ...] | None = None
    tokens: NDArray[np.int64] | None = None
    given: NDArray[np.bool_] | None = None

    @property
    def size(self) -> int:
        """Characters, or tokens that are integers."""
        return len(self.text) if self.tokens is None else len(self.tokens)
