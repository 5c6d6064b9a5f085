"""One method against others, at every number of steps: what a figure of advice shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Gain:
    """By how much the first is better than another, with its 95% interval; to the left of no difference it is worse."""

    steps: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Choice:
    """`where` is the data, `gain` what there is more or less of, and by whom; `others` by run, `names` are theirs.

    Gains are differences or percent, which begin at 0, or where they are large `ratios`, which begin at 1.
    """

    where: str
    gain: str
    ratios: bool
    others: Mapping[str, Sequence[Gain]]
    names: Mapping[str, str]
