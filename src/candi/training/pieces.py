"""Tensors that are written as they lie on the processes: each writes its rows, and nobody holds them all."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from candi.base.shards import Index
from candi.base.tensors import write_tensors
from candi.training.devices import own_rows


@dataclass(frozen=True)
class Pieces:
    """A file of tensors in the making: some `cut` among the processes, some that each has `whole`, and further names
    of some of them."""

    cut: Mapping[str, Tensor]
    whole: Mapping[str, Tensor] = field(default_factory=dict)
    same: Mapping[str, str] = field(default_factory=dict)

    def write(self, path: Path, part: int, parts: int) -> Path:
        """One process's file in the place of `path`."""
        mine = {name: own_rows(tensor)[0].detach() for name, tensor in self.cut.items()}
        file = path.with_name(_names(path, parts)[part])
        write_tensors(mine | (dict(self.whole) if part == 0 else {}), file)
        return file

    def write_index(self, path: Path, parts: int) -> None:
        """The list of all processes' files."""
        Index.of(_names(path, parts), self.cut, self.whole, self.same).write(path)


def _names(path: Path, parts: int) -> list[str]:
    return [f"{path.stem}-{part + 1:05d}-of-{parts:05d}.safetensors" for part in range(parts)]
