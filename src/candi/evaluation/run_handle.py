"""A run that takes part in a comparison."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from pathlib import Path

import torch

from candi.base.errors import UserError
from candi.base.memory import memory
from candi.base.shards import tensors_hash
from candi.data.properties import Kind, kind_of
from candi.data.tokenizer import Tokenizer
from candi.diffusion.methods.base import Method
from candi.evaluation.provenance import Cell, Guide
from candi.model.files import TOKENIZER, WEIGHTS, read_config
from candi.nets.config import ModelConfig

_MOST_ON_A_CPU = 64  # larger batches are not faster there


@dataclass(frozen=True)
class RunHandle:
    """A checkpoint with the name it has in figures. What it declares is read when it is asked for."""

    name: str
    folder: Path

    def __reduce__(self) -> tuple[type["RunHandle"], tuple[str, Path]]:
        return RunHandle, (self.name, self.folder)  # another process reads it itself

    @cached_property
    def config(self) -> ModelConfig:
        return read_config(self.folder)

    @cached_property
    def method(self) -> Method:
        """Without a network: for what it declares."""
        return self.config.build_method(width=2)

    @cached_property
    def tokenizer(self) -> str:
        return Tokenizer.load(self.folder / TOKENIZER).fingerprint

    @cached_property
    def kind(self) -> Kind:
        """What its sequences are."""
        return kind_of(Tokenizer.load(self.folder / TOKENIZER))

    @cached_property
    def checkpoint(self) -> str:
        return tensors_hash(self.folder / WEIGHTS)

    def cells(
        self, steps: Sequence[int], temperatures: Sequence[float], options: Mapping[str, Sequence[str]], *,
        top_k: int | None, top_p: float | None, length: int | None, seed: int, n: int, precision: str,
        guides: Sequence[Guide | None] = (None,),
    ) -> Iterator[Cell]:  # fmt: skip
        """The grid. Options that the method does not have are left out, those that are not swept stay as trained."""
        length = self.config.length if length is None else length
        counts = [len(self.method.timesteps(count, length)) - 1 for count in steps]
        trained = asdict(self.config.settings)  # type: ignore[call-overload]
        # discrete guidance has a step of its own, which has no options; prior and grid are not the step's
        classified = any(guide is not None and guide.classifier is not None for guide in guides)
        replaced = classified and self.method.gaussian() is None
        names = [name for name in self.method.options if not replaced or name in ("grid", "prior")]
        axes = {name: self._values(name, options.get(name, ()), trained.get(name)) for name in names}
        axes = {name: values for name, values in axes.items() if values}
        for values in product(*axes.values()):
            for count in dict.fromkeys(counts):
                for temperature, guide in product(temperatures, guides):
                    yield Cell(
                        self.name, self.checkpoint, self.config.method, self.tokenizer, self.config.vocab_size, length,
                        count, self.method.fixed_steps, temperature, top_k, top_p, dict(zip(axes, values, strict=True)),
                        seed, n, precision, guide,
                    )  # fmt: skip

    def _values(self, name: str, asked: Sequence[str], trained: str | None) -> tuple[str, ...]:
        """Those of an option that the method has: others are meant for other runs. None where its step decides."""
        known = tuple(dict.fromkeys(value for value in asked if value in self.method.options[name]))
        return known or (() if trained is None else (trained,))

    def batch_size(self, length: int, most: int, device: torch.device) -> int:
        """As many sequences as half of the memory surely holds; the same on the same machine."""
        sequence = 160 * length * self.config.model.width  # forty float32 activations of a block at once
        most = most if device.type == "cuda" else min(most, _MOST_ON_A_CPU)
        return max(1, min(most, memory(device) // 2 // sequence))


def check_names(runs: Sequence[RunHandle]) -> None:
    """Refuse two runs of one name."""
    names = [one.name for one in runs]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise UserError(f"Two runs are called {double!r}; rename one of the folders, so that figures can name both.")
