"""Labels of documents: classes that a column names, or rules about numbers, of a column or computed."""

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from candi.base.errors import UserError
from candi.base.labels import NO_YES, Label
from candi.data.corpus import Corpus
from candi.data.properties import Kind, known_properties, property_values

_TOP = 0.1
_MOST = 1000  # classes: a column of more is no column of classes
_RULE = re.compile(r"(?P<name>[^:<>=,]+)(?::(?P<top>top)|>=(?P<value>-?[0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?))?")


@dataclass(frozen=True)
class Rule:
    """1 where a number is at least the threshold, or as much as the top decile; or the classes that a column names.

    `classes` and `threshold` are known once a corpus has decided them.
    """

    name: str
    numeric: bool = True
    threshold: float | None = None
    classes: tuple[str, ...] = NO_YES

    @classmethod
    def of(cls, spec: str) -> "Rule":
        """qed:top, qed>=0.6, or the name of a column alone."""
        found = _RULE.fullmatch(spec.strip())
        if found is None:
            raise UserError(
                f"{spec!r} is no label; write a property and a rule, as qed:top or rings>=2, or the name of a column "
                "of classes."
            )
        value = found["value"]
        if found["top"] is None and value is None:
            return cls(found["name"].strip(), numeric=False, classes=())
        return cls(found["name"].strip(), threshold=None if value is None else float(value))

    def __str__(self) -> str:
        if not self.numeric:
            return self.name
        return f"{self.name}:top" if self.threshold is None else f"{self.name}>={self.threshold:g}"

    def of_corpus(
        self, corpus: Corpus, kind: Kind, folder: Path, both: bool = True
    ) -> tuple[NDArray[np.int64], "Rule"]:
        """The class of every document, and the rule as it was decided, to be used for others.

        `both`: at least two kinds must be there to be learned.
        """
        return self._numbers(corpus, kind, folder, both) if self.numeric else self._names(corpus, kind, both)

    def _numbers(self, corpus: Corpus, kind: Kind, folder: Path, both: bool) -> tuple[NDArray[np.int64], "Rule"]:
        values = property_values(corpus, self.name, kind, folder)
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
        return labels, dataclasses.replace(self, threshold=threshold)

    def _names(self, corpus: Corpus, kind: Kind, both: bool) -> tuple[NDArray[np.int64], "Rule"]:
        if self.name in known_properties(kind) and not corpus.has(self.name):
            raise UserError(f"{self.name} is a number; give a rule, as {self.name}:top or {self.name}>=1.")
        names = list(corpus.table(self.name))
        classes = self.classes or _in_order(set(names))
        if len(classes) > _MOST:
            raise UserError(
                f"The column {self.name!r} holds {len(classes):,} different values, too many for classes; of numbers "
                f"make two by a rule, as {self.name}>=1."
            )
        if both and len(classes) < 2:
            raise UserError(f"Every document has the {self.name} {classes[0]!r}; there is nothing to tell apart.")
        number = {name: place for place, name in enumerate(classes)}
        strange = next((name for name in names if name not in number), None)
        if strange is not None:
            raise UserError(f"{corpus.source} has the {self.name} {strange!r}, which what is learned from has not.")
        return np.array([number[name] for name in names], np.int64), dataclasses.replace(self, classes=classes)


def rules_of(spec: str) -> tuple[Rule, ...]:
    """One or several, with commas between them."""
    found = tuple(Rule.of(part) for part in spec.split(","))
    if len({str(rule) for rule in found}) < len(found):
        raise UserError(f"{spec!r} names a label twice; leave one out.")
    return found


@dataclass(frozen=True)
class Labels:
    """Rules that a corpus has decided."""

    rules: tuple[Rule, ...]
    taught: tuple[Label, ...]
    numbers: NDArray[np.int64]  # [N, K], of all its documents

    @classmethod
    def of(cls, spec: str, corpus: Corpus, kind: Kind, folder: Path) -> "Labels":
        rules = rules_of(spec)
        found = [rule.of_corpus(corpus, kind, folder) for rule in rules]
        return cls(
            tuple(decided for _, decided in found),
            tuple(Label(str(rule), decided.classes) for rule, (_, decided) in zip(rules, found, strict=True)),
            np.stack([numbers for numbers, _ in found], -1),
        )

    def of_other(self, corpus: Corpus, kind: Kind, folder: Path) -> NDArray[np.int64]:
        """The classes of another corpus's documents, by the same thresholds and names."""
        return np.stack([rule.of_corpus(corpus, kind, folder, both=False)[0] for rule in self.rules], -1)


def _in_order(names: set[str]) -> tuple[str, ...]:
    """Numbers by their size, other names by the alphabet."""
    try:
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    except ValueError:
        return tuple(sorted(names))
