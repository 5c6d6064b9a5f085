"""Words of text8: do they exist, and are they different ones?"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

from candi.base.errors import UserError
from candi.data.corpus import Corpus
from candi.evaluation.wordfilter import WordFilter

Known = frozenset[str] | WordFilter
# What is done with words of one letter: they count like others, are left out, or are invalid (as the paper's authors
# have it, who take them from the list and leave them in the count).
Letters = Literal["count", "leave-out", "invalid"]
LETTERS: tuple[Letters, ...] = get_args(Letters)


@dataclass(frozen=True)
class Words:
    """`valid` is a share of all whitespace-separated words, `unique` the mean over samples of each one's own share.

    `letters` says what was done with words of one letter: they are nearly always in the list.
    """

    valid: float
    unique: float
    count: int
    letters: Letters


@dataclass(frozen=True)
class WordList:
    """The words that count as valid, and what is done with those of one letter."""

    known: Known
    letters: Letters = "count"

    @property
    def identity(self) -> dict[str, Any]:
        # as points of 0.1 have it, where there is no other way
        letters = {"count": True, "leave-out": False}.get(self.letters, self.letters)
        return {"list": _digest(self.known), "words": len(self.known), "letters": letters}


def _digest(known: Known) -> str:
    if isinstance(known, WordFilter):
        return known.digest
    return hashlib.sha256("\n".join(sorted(known)).encode()).hexdigest()[:16]


def word_list(source: str, letters: Letters = "count", field: str = "text") -> WordList:
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


def words(samples: Sequence[str], known: Known, letters: Letters = "count") -> Words:
    """valid: words that are known, over all words; unique: distinct words of a sample over its words, on average."""
    counted = count_words(samples, known, letters)
    count = sum(counted.all)
    if not count:
        return Words(float("nan"), float("nan"), 0, letters)
    return Words(sum(counted.known) / count, fmean(counted.unique), count, letters)


@dataclass(frozen=True)
class WordCounts:
    """Of each sample, how many words are known, how many there are, and the share of them that are distinct.

    The share of distinct words of all samples together would fall with the number of samples: sooner or later every
    word has been said.
    """

    known: list[int]
    all: list[int]
    unique: list[float]


def count_words(samples: Sequence[str], known: Known, letters: Letters = "count") -> WordCounts:
    """A sample without words has a share of 0."""
    if not known:
        raise UserError("The list of known words is empty; make it from a text with words in it.")
    found = [_words(sample, letters) for sample in samples]
    return WordCounts(
        [sum(word in known and (letters != "invalid" or len(word) > 1) for word in some) for some in found],
        [len(some) for some in found],
        [len(set(some)) / len(some) if some else 0.0 for some in found],
    )


def _words(sample: str, letters: Letters) -> list[str]:
    return [word for word in sample.split() if letters != "leave-out" or len(word) > 1]
