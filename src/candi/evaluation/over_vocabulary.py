"""How methods fare as the vocabulary grows, and what identifiability predicts of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Interval = tuple[float, float, float]  # a value, and the ends of its 95% interval


@dataclass(frozen=True)
class OfVocabulary:
    """A run among those of the same text, trunk and training, in vocabularies of different size.

    `ratios` are its quality over that of the run it is held against, at matched diversity, by the number of steps; that
    run itself has none. `longer` are the same if both are trained longer. `identifiable` and `rank` are averages over
    the walk.
    """

    family: str
    vocab_size: int
    identifiable: float
    rank: float
    ratios: Mapping[int, Interval]
    longer: Mapping[int, Interval] = field(default_factory=dict)
