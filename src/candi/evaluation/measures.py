"""Numbers from samples. Most are ratios of sums over samples, which is what makes their bands easy."""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candi.errors import unknown

Columns = Mapping[str, Sequence[float] | NDArray[np.float64]]  # one number for each sample


@dataclass(frozen=True)
class Measure:
    """A number of a point.

    above / below: columns whose sums over samples it is the ratio of (the mean of `above` without `below`); a measure
    without columns belongs to all samples together (how many words are distinct, say). `agree`: fields of the cards
    without which two values of it mean different things.
    """

    label: str
    higher_is_better: bool
    diversity: bool
    above: str | None = None
    below: str | None = None
    exponential: bool = False
    additive: bool = False  # compared by difference, not by ratio: it may be 0 or below
    agree: tuple[str, ...] = ()

    def of(self, columns: Columns) -> float:
        """Of all samples; nan where there is nothing to divide by."""
        return float(self.again(columns, np.arange(len(columns[self.above or ""]))[None])[0])

    def again(self, columns: Columns, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """Of chosen samples, some of them more than once; a row of numbers for each value [R, N]."""
        assert self.above is not None
        numbers = np.asarray(columns[self.above], dtype=np.float64)
        weights = np.ones_like(numbers) if self.below is None else np.asarray(columns[self.below], dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = numbers[chosen].sum(-1) / weights[chosen].sum(-1)
            return np.exp(ratio) if self.exponential else ratio


_TOKENS = ("tokenizer", "length", "n", "ema", "precision", "draws")
_TEXT = ("n", "ema", "precision", "draws", "characters")
MEASURES = {
    "entropy": Measure("entropy of a sample (nats)", True, True, above="entropy", agree=_TOKENS),
    "word_entropy": Measure("entropy of a sample's words (nats)", True, True, above="word_entropy", agree=_TEXT),
    "distinct_2": Measure("distinct pairs of tokens", True, True, agree=_TOKENS),
    "compression": Measure("size after compression", True, True, agree=(*_TEXT, "length")),
    "unique_words": Measure("unique words", True, True, agree=(*_TEXT, "length", "words")),
    "perplexity": Measure(
        "generative perplexity", False, False, above="nats", below="tokens", exponential=True, agree=(*_TEXT, "scorer")
    ),
    "mauve": Measure("MAUVE", True, False, agree=(*_TEXT, "mauve")),
    "unique_molecules": Measure("unique valid molecules", True, True, agree=(*_TEXT, "length")),
    "valid_molecules": Measure("valid molecules", True, False, above="is_molecule", agree=(*_TEXT, "length")),
    "property": Measure(
        "mean property of the valid molecules",
        True,
        False,
        above="property",
        below="is_molecule",
        additive=True,
        agree=(*_TEXT, "length", "property"),
    ),
    "valid_words": Measure("valid words", True, False, above="known_words", below="all_words", agree=(*_TEXT, "words")),
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
