"""Words of text8: do they exist, and are they different ones?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from candi.errors import UserError


@dataclass(frozen=True)
class Words:
    """Shares of all whitespace-separated words of the samples.

    `letters` says whether words of one letter were counted: they are nearly always in the list.
    """

    valid: float
    unique: float
    count: int
    letters: bool


def known_words(texts: Iterable[str]) -> frozenset[str]:
    """Every word that occurs in the texts."""
    return frozenset(word for text in texts for word in text.split())


def words(samples: Sequence[str], known: frozenset[str], letters: bool = True) -> Words:
    """valid: words that are known; unique: distinct words. Both over all words, so repeating lowers the second."""
    if not known:
        raise UserError("The list of known words is empty; make it from a text with words in it.")
    found = [word for sample in samples for word in sample.split() if letters or len(word) > 1]
    if not found:
        return Words(float("nan"), float("nan"), 0, letters)
    valid = sum(word in known for word in found) / len(found)
    return Words(valid, len(set(found)) / len(found), len(found), letters)
