"""A word list that fits in a package: a Bloom filter, which never misses a word and rarely takes a stranger for one.

Molecules in their one spelling are words as well.
"""

import hashlib
import json
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from candi.base.errors import UserError
from candi.base.files import need_file

_HASHES = 64  # of a word at most; ten are usual


class WordFilter:
    """k bits of a table for each word, at (a + i b) mod size. A stranger finds all k of his set with chance 2^-k."""

    def __init__(self, table: NDArray[np.uint8], hashes: int, words: int, speller: str = "") -> None:
        self._bits, self._hashes, self._words = np.unpackbits(table), hashes, words
        self._table, self.speller = table, speller

    @classmethod
    def of(cls, words: Iterable[str], hashes: int = 10, speller: str = "") -> "WordFilter":
        """size = k n / ln 2 leaves half of the bits set, which is best. `speller` is the program that spelled them."""
        listed = sorted(set(words))
        size = max(64, math.ceil(hashes * len(listed) / math.log(2) / 8) * 8)
        bits = np.zeros(size, np.uint8)
        for word in listed:
            bits[_places(word, hashes, size)] = 1
        return cls(np.packbits(bits), hashes, len(listed), speller)

    def __contains__(self, word: str) -> bool:
        return bool(self._bits[_places(word, self._hashes, len(self._bits))].all())

    def __len__(self) -> int:
        return self._words

    @property
    def digest(self) -> str:
        return hashlib.sha256(self._table.tobytes()).hexdigest()[:16]

    def write(self, path: Path) -> None:
        """A line of JSON, then the table."""
        head = json.dumps({"words": self._words, "hashes": self._hashes, "speller": self.speller})
        path.write_bytes(head.encode() + b"\n" + self._table.tobytes())

    @classmethod
    def read(cls, path: Path) -> "WordFilter":
        need_file(path)
        head, _, table = path.read_bytes().partition(b"\n")
        try:
            values = json.loads(head)
            if not 1 <= values["hashes"] <= _HASHES:
                raise ValueError
            return cls(np.frombuffer(table, np.uint8), values["hashes"], values["words"], values.get("speller", ""))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UserError(f"{path} is no word filter; candi export makes one.") from None


def _places(word: str, hashes: int, size: int) -> list[int]:
    digest = hashlib.blake2b(word.encode(), digest_size=16).digest()
    first, step = (int.from_bytes(part, "little") for part in (digest[:8], digest[8:]))
    return [(first + i * (step | 1)) % size for i in range(hashes)]
