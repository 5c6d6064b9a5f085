"""Words of text8: do they exist, and are they different ones?"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from candi.base.errors import UserError
from candi.data.corpus import Corpus
from candi.evaluation.wordfilter import WordFilter

Known = frozenset[str] | WordFilter


@dataclass(frozen=True)
class Words:
    """Shares of all whitespace-separated words of the samples.

    `letters` says whether words of one letter were counted: they are nearly always in the list.
    """

    valid: float
    unique: float
    count: int
    letters: bool


@dataclass(frozen=True)
class WordList:
    """The words that count as valid, and whether those of one letter are counted at all."""

    known: Known
    letters: bool = True

    @property
    def identity(self) -> dict[str, Any]:
        return {"list": _digest(self.known), "words": len(self.known), "letters": self.letters}


def _digest(known: Known) -> str:
    if isinstance(known, WordFilter):
        return known.digest
    return hashlib.sha256("\n".join(sorted(known)).encode()).hexdigest()[:16]


def word_list(source: str, letters: bool = True, field: str = "text") -> WordList:
    """The words of a text (of a table's column), or those of a word filter, FILE.bloom."""
    if source.endswith(".bloom"):
        return WordList(WordFilter.read(Path(source)), letters)
    return WordList(words_of(Corpus(source, field)), letters)


def known_words(texts: Iterable[str]) -> frozenset[str]:
    """Every word that occurs in the texts."""
    return frozenset(word for text in texts for word in text.split())


def words_of(corpus: Corpus) -> frozenset[str]:
    """Every word of a corpus, also those that lie across two pieces of it."""
    return _words_of(corpus, corpus.fingerprint)


@lru_cache(maxsize=1)  # several sweeps of one experiment ask for the same
def _words_of(corpus: Corpus, fingerprint: str) -> frozenset[str]:
    found: set[str] = set()
    rest = ""
    for piece in corpus.pieces():
        text = rest + piece.text
        parts = text.split()
        rest = parts.pop() if parts and not piece.ends and not text[-1].isspace() else ""
        found.update(parts)
    return frozenset(found | {rest} - {""})


def words(samples: Sequence[str], known: Known, letters: bool = True) -> Words:
    """valid: words that are known; unique: distinct words. Both over all words, so repeating lowers the second."""
    valid, count = (sum(column) for column in count_words(samples, known, letters))
    if not count:
        return Words(float("nan"), float("nan"), 0, letters)
    different = {word for sample in samples for word in _words(sample, letters)}
    return Words(valid / count, len(different) / count, count, letters)


def count_words(samples: Sequence[str], known: Known, letters: bool = True) -> tuple[list[int], list[int]]:
    """Of each sample, how many words are known and how many there are."""
    if not known:
        raise UserError("The list of known words is empty; make it from a text with words in it.")
    found = [_words(sample, letters) for sample in samples]
    return [sum(word in known for word in some) for some in found], [len(some) for some in found]


def _words(sample: str, letters: bool) -> list[str]:
    return [word for word in sample.split() if letters or len(word) > 1]
