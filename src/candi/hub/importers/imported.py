"""What an importer makes of a published checkpoint, and what an importer is."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from candi.hub.importers.source import Source
from candi.nets.config import ModelConfig


@dataclass(frozen=True)
class Imported:
    """A model of ours, but for its tokenizer. `conventions` tells of time, direction and mask in a sentence or two."""

    config: ModelConfig
    weights: Mapping[str, Tensor]
    conventions: str

    def cut(self, size: int) -> "Imported":
        """Without the rows of the table from `size` on, which stand for no token."""
        names = ("method.embedding.weight", "head.weight", "head.bias")
        weights = {name: tensor[:size] if name in names else tensor for name, tensor in self.weights.items()}
        return Imported(dataclasses.replace(self.config, vocab_size=size), weights, self.conventions)


class Importer(ABC):
    """A layout in which networks are published. `tokenizer` is the one that its models share, if there is one."""

    name: str
    about: str
    tokenizer: str | None = None
    padded: bool = False  # may its table have more rows than there are tokens?

    @abstractmethod
    def recognises(self, config: Mapping[str, Any]) -> bool:
        """Is this config.json of the layout?"""

    @abstractmethod
    def convert(self, source: Source, mask: int | None = None) -> Imported:
        """The model. `mask` is the id of the mask where it is not the one of the layout."""
