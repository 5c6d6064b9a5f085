"""How good generated sequences are: molecules by RDKit, proteins, DNA and text by sums over their letters."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from candi.data.molecules import canonical
from candi.data.properties import Kind, check_property, properties
from candi.evaluation.words import Known


@dataclass(frozen=True)
class Measured:
    """Shares of all samples that are valid, different ones, and not in the training data; properties of the first.

    `texts` are in the one spelling that all of their kind share, None where there is no molecule, or nothing at all.
    """

    texts: Sequence[str | None]
    valid: float
    unique: float
    novel: float | None
    values: dict[str, list[float]]

    @property
    def distinct(self) -> list[str]:
        """Each of them once, in order of appearance."""
        return list(dict.fromkeys(text for text in self.texts if text is not None))

    def mean(self, name: str) -> float:
        """Of a property over the valid samples."""
        known = self._known(name)
        return float(np.mean(known)) if len(known) else float("nan")

    def hit(self, name: str, threshold: float) -> float:
        """The share of the valid samples whose property reaches the threshold."""
        known = self._known(name)
        return float(np.mean(known >= threshold)) if len(known) else float("nan")

    def _known(self, name: str) -> NDArray[np.float64]:
        """Of those that have it: the share of G and C in nothing but N is no number."""
        values = np.asarray(self.values[name], np.float64)
        return values[np.isfinite(values)]


def measured(
    samples: Sequence[str], names: Sequence[str] = ("qed", "rings"), training: Known | None = None,
    kind: Kind = "molecules",
) -> Measured:  # fmt: skip
    """`training` holds sequences in their one spelling."""
    for name in names:
        check_property(name, kind)
    texts = [canonical(text) if kind == "molecules" else text or None for text in samples]
    valid = [text for text in texts if text is not None]
    different = list(dict.fromkeys(valid))
    computed = {name: dict(zip(different, properties(different, name, kind).tolist(), strict=True)) for name in names}
    return Measured(
        texts=texts,
        valid=len(valid) / len(samples) if samples else float("nan"),
        unique=len(different) / len(samples) if samples else float("nan"),
        novel=None if training is None else sum(text not in training for text in different) / max(1, len(different)),
        values={name: [computed[name][text] for text in valid] for name in names},
    )
