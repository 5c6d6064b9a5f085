"""Labels from properties: above a threshold, or in the top decile."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from candi.base.errors import UserError
from candi.data.corpus import Corpus
from candi.data.molecules import property_values

_TOP = 0.1


@dataclass(frozen=True)
class Label:
    """1 where the property is at least the threshold; a threshold of None is the one that the top decile reaches."""

    name: str
    threshold: float | None = None

    @classmethod
    def of(cls, spec: str) -> "Label":
        """qed:top, qed>=0.6, or the name of a column in the place of qed."""
        found = re.fullmatch(
            r"(?P<name>[^:<>=]+)(?::(?P<top>top)|>=(?P<value>-?[0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?))", spec.strip()
        )
        if found is None:
            raise UserError(f"{spec!r} is no label; write a property and a rule, as qed:top or rings>=2.")
        return cls(found["name"], None if found["top"] else float(found["value"]))

    def __str__(self) -> str:
        return f"{self.name}:top" if self.threshold is None else f"{self.name}>={self.threshold:g}"

    def fixed(self, corpus: Corpus, folder: Path) -> "Label":
        """With the threshold that decides in this corpus, to be used in others."""
        return Label(self.name, self.of_corpus(corpus, folder)[1])

    def of_corpus(self, corpus: Corpus, folder: Path, both: bool = True) -> tuple[NDArray[np.int64], float]:
        """A label for every document, and the threshold that decided. `both` kinds must be there to be learned."""
        values = property_values(corpus, self.name, folder)
        known = values[np.isfinite(values)]
        if not len(known):
            raise UserError(f"No document has a {self.name}; there is nothing to label.")
        threshold = float(np.quantile(known, 1 - _TOP)) if self.threshold is None else self.threshold
        labels = (values >= threshold).astype(np.int64)
        if both and labels.min() == labels.max():
            what = "every document" if labels.max() else "no document"
            raise UserError(
                f"{what.capitalize()} has a {self.name} of at least {threshold:g}; choose another threshold."
            )
        return labels, threshold
