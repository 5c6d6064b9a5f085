"""Numbers from samples. Most are ratios of sums over samples, which is what makes their bands easy."""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candi.base.errors import unknown

Columns = Mapping[str, Sequence[float] | NDArray[np.float64]]  # one number for each sample


@dataclass(frozen=True)
class Measure:
    """A number of a point.

    It is the ratio of the sums of two columns over the samples (the mean of the numerator without a denominator). A
    measure without columns belongs to all samples together (how many words are distinct, say). `must_match`: fields of
    the provenance that two values must share to mean the same.
    """

    label: str
    higher_is_better: bool
    diversity: bool
    numerator: str | None = None
    denominator: str | None = None
    exponential: bool = False
    additive: bool = False  # compared by difference, not by ratio: it may be 0 or below
    must_match: tuple[str, ...] = ()

    def of(self, columns: Columns) -> float:
        """Of all samples; nan where there is nothing to divide by."""
        return float(self.bootstrap(columns, np.arange(len(columns[self.numerator or ""]))[None])[0])

    def bootstrap(self, columns: Columns, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """Of samples drawn with replacement: a value for each row of numbers in `chosen` [R, N]."""
        numbers, weights = self._columns(columns)
        return self._ratio(numbers[chosen].sum(-1), weights[chosen].sum(-1))

    def jackknife(self, columns: Columns) -> NDArray[np.float64]:
        """Of all samples but one, for each of them [N]."""
        numbers, weights = self._columns(columns)
        return self._ratio(numbers.sum() - numbers, weights.sum() - weights)

    def _columns(self, columns: Columns) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        assert self.numerator is not None
        numbers = np.asarray(columns[self.numerator], dtype=np.float64)
        if self.denominator is None:
            return numbers, np.ones_like(numbers)
        return numbers, np.asarray(columns[self.denominator], dtype=np.float64)

    def _ratio(self, numbers: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = numbers / weights
            return np.exp(ratio) if self.exponential else ratio


# what version 0.1 called unique_words: it falls with the number of samples, and is only read from its points
POOLED_WORDS = "unique_words_pooled"
_TOKENS = ("tokenizer", "length", "n", "ema", "precision", "draws")
_TEXT = ("n", "ema", "precision", "draws", "characters")
MEASURES = {
    "entropy": Measure("entropy of a sample (nats)", True, True, numerator="entropy", must_match=_TOKENS),
    "word_entropy": Measure(
        "entropy of a sample's words (nats)", True, True, numerator="word_entropy", must_match=_TEXT
    ),
    "distinct_2": Measure("distinct pairs of tokens", True, True, must_match=_TOKENS),
    "compression": Measure("size after compression", True, True, must_match=(*_TEXT, "length")),
    "unique_words": Measure(
        "unique words", True, True, numerator="unique_words", must_match=(*_TEXT, "length", "words")
    ),
    POOLED_WORDS: Measure("unique words of all samples together", True, True, must_match=(*_TEXT, "length", "words")),
    "perplexity": Measure(
        "generative perplexity",
        False,
        False,
        numerator="nats",
        denominator="tokens",
        exponential=True,
        must_match=(*_TEXT, "scorer"),
    ),
    "mauve": Measure("MAUVE", True, False, must_match=(*_TEXT, "mauve")),
    "unique_molecules": Measure("unique valid molecules", True, True, must_match=(*_TEXT, "length")),
    "valid_molecules": Measure("valid molecules", True, False, numerator="is_molecule", must_match=(*_TEXT, "length")),
    "property": Measure(
        "mean property of the valid molecules",
        True,
        False,
        numerator="property",
        denominator="is_molecule",
        additive=True,
        must_match=(*_TEXT, "length", "property", "kind"),
    ),
    "unique_sequences": Measure("unique sequences", True, True, must_match=(*_TEXT, "length")),
    "valid_words": Measure(
        "valid words", True, False, numerator="known_words", denominator="all_words", must_match=(*_TEXT, "words")
    ),
}


def measure_named(name: str, diversity: bool) -> Measure:
    known = {key: measure for key, measure in MEASURES.items() if measure.diversity == diversity}
    if name not in known:
        raise unknown("measure of " + ("diversity" if diversity else "quality"), name, known)
    return known[name]


def compression(texts: Sequence[str]) -> float:
    """Bytes after zlib over bytes before, of all samples together: repetition within and between them lowers it."""
    data = "\n".join(texts).encode()
    return len(zlib.compress(data, 9)) / len(data) if data else math.nan


def plain(values: Mapping[str, float]) -> dict[str, Any]:
    """As JSON has it: no nan, but null."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
