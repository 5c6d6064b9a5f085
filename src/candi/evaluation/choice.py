"""One method against others, at every number of steps: what a figure of advice shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Gain:
    """By how much the first is better than another, with its 95% interval; below 0 it is worse."""

    steps: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Choice:
    """`where` is the data, `gain` what there is more or less of; `others` by run, `names` are theirs."""

    where: str
    first: str
    gain: str
    percent: bool
    others: Mapping[str, Sequence[Gain]]
    names: Mapping[str, str]
