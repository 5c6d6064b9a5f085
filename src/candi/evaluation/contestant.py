"""A run that takes part in a comparison."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import torch

from candi.codebook import Codebook
from candi.config import ModelConfig, read_json
from candi.data.tokenizer import Tokenizer
from candi.errors import UserError
from candi.evaluation.card import Point
from candi.files import sha256
from candi.loading import locate
from candi.machine import memory
from candi.methods.base import Method
from candi.model import CONFIG, TOKENIZER, WEIGHTS

_MOST_ON_A_CPU = 64  # larger batches are not faster there


@dataclass(frozen=True)
class Contestant:
    """A checkpoint with the name it has in figures."""

    name: str
    folder: Path

    @classmethod
    def of(cls, source: str) -> "Contestant":
        folder = Path(source).expanduser()
        return cls(folder.name or folder.resolve().name, locate(source))

    @cached_property
    def config(self) -> ModelConfig:
        return ModelConfig.from_json(read_json(self.folder / CONFIG), str(self.folder / CONFIG))

    @cached_property
    def method(self) -> Method:
        """Without a network: for what it declares."""
        return self.config.settings.build(Codebook(self.config.vocab_size, 2))

    @cached_property
    def tokenizer(self) -> str:
        return Tokenizer.load(self.folder / TOKENIZER).fingerprint

    @cached_property
    def checkpoint(self) -> str:
        return sha256(self.folder / WEIGHTS)

    def points(
        self, steps: Sequence[int], temperatures: Sequence[float], options: Mapping[str, Sequence[str]], *,
        top_k: int | None, nucleus: float | None, length: int | None, seed: int, n: int, precision: str,
        guides: Sequence[Mapping[str, Any] | None] = (None,),
    ) -> Iterator[Point]:  # fmt: skip
        """The grid. Options that the method does not have are left out, those that are not swept stand as trained."""
        length = self.config.length if length is None else length
        counts = [len(self.method.times(count, length)) - 1 for count in steps]
        trained = asdict(self.config.settings)  # type: ignore[call-overload]
        # discrete guidance has a step of its own, which has no options
        judged = any(guide is not None and guide["classifier"] is not None for guide in guides)
        replaced = judged and self.method.gaussian() is None
        names = () if replaced else tuple(self.method.options)
        axes = {name: self._values(name, options.get(name, ()), trained.get(name)) for name in names}
        axes = {name: values for name, values in axes.items() if values}
        for values in product(*axes.values()):
            for count in dict.fromkeys(counts):
                for temperature, guide in product(temperatures, guides):
                    yield Point(
                        self.name, self.checkpoint, self.config.method, self.tokenizer, self.config.vocab_size, length,
                        count, self.method.own_steps, temperature, top_k, nucleus, dict(zip(axes, values, strict=True)),
                        seed, n, precision, guide,
                    )  # fmt: skip

    def _values(self, name: str, asked: Sequence[str], trained: str | None) -> tuple[str, ...]:
        """Those of an option that the method has: others are meant for other runs. None where its step decides."""
        known = tuple(dict.fromkeys(value for value in asked if value in self.method.options[name]))
        return known or (() if trained is None else (trained,))

    def batch(self, length: int, most: int, device: torch.device) -> int:
        """As many sequences as half of the memory surely holds; the same on the same machine."""
        sequence = 160 * length * self.config.model.width  # forty float32 activations of a block at once
        most = most if device.type == "cuda" else min(most, _MOST_ON_A_CPU)
        return max(1, min(most, memory(device) // 2 // sequence))


def contestants(sources: Sequence[str]) -> list[Contestant]:
    found = [Contestant.of(source) for source in sources]
    names = [one.name for one in found]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise UserError(f"Two runs are called {double!r}; rename one of the folders, so that they can be told apart.")
    return found
