"""What a network is taught to tell apart, or to generate by: labels, each with the names of its classes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from candi.base.errors import UserError

NO_YES = ("no", "yes")  # the classes of a rule about numbers: below, and at least so much
Asked: TypeAlias = int | str | Mapping[str, int | str]  # a class, or one of each label that is asked for


@dataclass(frozen=True)
class Label:
    """A rule, such as qed:top, or the name of a column, and the names of its classes in their order."""

    rule: str
    classes: tuple[str, ...] = NO_YES

    @property
    def name(self) -> str:
        """The property or column."""
        return re.split(r":|>=", self.rule)[0]

    def number(self, value: int | str) -> int:
        """Of a class, by its name or its number."""
        if str(value) in self.classes:
            return self.classes.index(str(value))
        if str(value).isdecimal() and int(value) < len(self.classes):
            return int(value)
        shown = ", ".join(f"{number} ({name})" for number, name in enumerate(self.classes[:20]))
        more = ", ..." if len(self.classes) > 20 else ""
        raise UserError(f"{self.rule} has no label {value}; it has {shown}{more}.")


def class_numbers(labels: Sequence[Label], asked: Asked) -> list[int]:
    """The class of each label that is asked for. One that nobody asks for is the number of its classes: none of them.

    Text is a class, or NAME=CLASS of each, with commas between them.
    """
    if not labels:
        raise UserError(f"The model has no label {asked}; it was trained without --label.")
    if not isinstance(asked, Mapping):
        asked = _named(labels, asked)
    found = [len(label.classes) for label in labels]
    for name, value in asked.items():
        places = [place for place, label in enumerate(labels) if name in (label.name, label.rule)]
        if len(places) != 1:
            known = ", ".join(label.rule for label in labels)
            many = "several" if places else "no"
            raise UserError(f"The model has {many} labels called {name!r}; it has {known}.")
        found[places[0]] = labels[places[0]].number(value)
    return found


def _named(labels: Sequence[Label], asked: int | str) -> dict[str, int | str]:
    """By the names of their labels. A label's name may stand before a class that holds any sign itself."""
    if isinstance(asked, int) or (len(labels) == 1 and asked in labels[0].classes):
        asked = f"{labels[0].rule}={asked}" if len(labels) == 1 else str(asked)
    names = "|".join(re.escape(name) for label in labels for name in (label.rule, label.name))
    parts = re.split(rf",(?=(?:{names})=)", asked)
    found = {}
    for part in parts:
        match = re.fullmatch(rf"({names})=(.*)", part, re.DOTALL)
        if match is None and len(labels) > 1:
            wanted = ",".join(f"{label.name}={label.classes[-1]}" for label in labels)
            raise UserError(f"{part!r} does not say which label is meant; write for example {wanted}.")
        name, value = match.groups() if match is not None else (labels[0].rule, part)
        found[name] = value.strip()
    return dict(found)
