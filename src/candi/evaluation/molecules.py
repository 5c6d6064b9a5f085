"""How good generated molecules are, by RDKit."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from candi.base.errors import unknown
from candi.data.molecules import PROPERTIES, canonical, parse
from candi.evaluation.words import Known


@dataclass(frozen=True)
class Molecules:
    """Shares of all samples that are molecules, different ones, and not in the training data; properties of the first.

    `smiles` are canonical, None where there is no molecule. `values` and `hit` are over the valid ones.
    """

    smiles: Sequence[str | None]
    valid: float
    unique: float
    novel: float | None
    values: dict[str, list[float]]

    @property
    def distinct(self) -> list[str]:
        """Each molecule once, in order of appearance."""
        return list(dict.fromkeys(text for text in self.smiles if text is not None))

    def mean(self, name: str) -> float:
        """Of a property over the valid samples."""
        return float(np.mean(self.values[name])) if self.values[name] else float("nan")

    def hit(self, name: str, threshold: float) -> float:
        """The share of the valid samples whose property reaches the threshold."""
        found = self.values[name]
        return float(np.mean(np.asarray(found) >= threshold)) if found else float("nan")


def molecules(
    samples: Sequence[str], names: Sequence[str] = ("qed", "rings"), training: Known | None = None
) -> Molecules:
    """`training` holds canonical SMILES."""
    for name in names:
        if name not in PROPERTIES:
            raise unknown("property", name, PROPERTIES)
    smiles = [canonical(text) for text in samples]
    valid = [text for text in smiles if text is not None]
    different = set(valid)
    computed = {text: [PROPERTIES[name](parse(text)) for name in names] for text in different}
    return Molecules(
        smiles=smiles,
        valid=len(valid) / len(samples) if samples else float("nan"),
        unique=len(different) / len(samples) if samples else float("nan"),
        novel=None if training is None else sum(text not in training for text in different) / max(1, len(different)),
        values={name: [computed[text][index] for text in valid] for index, name in enumerate(names)},
    )
