"""What a denoiser is built from: config.json."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from candi.base.config import from_json, short
from candi.base.errors import UserError, unknown
from candi.base.labels import NO_YES, Label
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.methods import METHODS, Method, MethodSettings
from candi.nets.trunk import TrunkSettings
from candi.nets.trunks import trunk_settings

_LONGEST = 1 << 24  # tokens in a sequence


@dataclass(frozen=True)
class ModelConfig:
    """All that is needed to build a denoiser."""

    vocab_size: int
    length: int
    method: str
    settings: MethodSettings
    model: TrunkSettings
    labels: tuple[Label, ...] = ()  # what the model was taught to generate by
    trunk: str = "dit"
    unit_vectors: bool = True  # are token vectors used at length 1?
    rows: bool = False  # is each sequence a document, which ends and is padded?
    block: int | None = None  # the size of the blocks that sequences are written in, of models that do so

    def __post_init__(self) -> None:
        expected = trunk_settings(self.trunk)
        if not isinstance(self.model, expected):
            raise UserError(
                f"The trunk {self.trunk!r} is described by {expected.__name__}, not by {type(self.model).__name__}; "
                "name the trunk that the settings are of."
            )
        check_block(self.block, self.length)

    @property
    def classes(self) -> tuple[int, ...]:
        """Of each label."""
        return tuple(len(label.classes) for label in self.labels)

    @property
    def label(self) -> str | None:
        """The rules of its labels."""
        return ",".join(label.rule for label in self.labels) or None

    def build_method(self, width: int | None = None) -> Method:
        """The method around new token vectors; of another width where only its declarations matter."""
        width = self.model.width if width is None else width
        embedding = TokenEmbedding(self.vocab_size, width, self.settings.mask_vector, self.unit_vectors)
        return self.settings.build(embedding)

    def to_json(self) -> dict[str, Any]:
        """The method's settings stand under its name."""
        return {
            "vocab_size": self.vocab_size,
            "length": self.length,
            **self._labels_json(),
            **({} if self.unit_vectors else {"unit_vectors": False}),
            **({"rows": True} if self.rows else {}),
            **({} if self.block is None else {"block": self.block}),
            "method": self.method,
            self.method: dataclasses.asdict(self.settings),
            "trunk": self.trunk,
            "model": dataclasses.asdict(self.model),
        }

    def _labels_json(self) -> dict[str, Any]:
        """One rule about numbers as it was always written."""
        if not self.labels or (len(self.labels) == 1 and self.labels[0].classes == NO_YES):
            return {"label": self.label}
        return {"labels": {label.rule: list(label.classes) for label in self.labels}}

    @classmethod
    def from_json(cls, values: object, where: str) -> "ModelConfig":
        if not isinstance(values, Mapping):
            raise UserError(f"{where}: expected an object, not {short(values)}.")
        name, trunk = values.get("method"), values.get("trunk", "dit")
        if not isinstance(name, str) or name not in METHODS:
            raise UserError(f"{where}: {unknown('method', name if isinstance(name, str) else short(name), METHODS)}")
        if not isinstance(trunk, str):
            raise UserError(f"{where}: trunk must be a name, not {short(trunk)}.")
        rest = {key: value for key, value in values.items() if key not in ("method", name, "model", "trunk")}
        sizes = from_json(_Sizes, rest, where)
        if min(sizes.vocab_size, sizes.length) < 1:
            raise UserError(f"{where}: vocab_size and length must be at least 1.")
        if sizes.length > _LONGEST:  # no weight has this size, so that none could tell
            raise UserError(f"{where}: a length of more than {_LONGEST:,} tokens is none.")
        return cls(
            sizes.vocab_size,
            sizes.length,
            name,
            from_json(METHODS[name], values.get(name, {}), f"{where}, {name}"),
            from_json(trunk_settings(trunk), values.get("model", {}), f"{where}, model"),
            sizes.taught,
            trunk,
            sizes.unit_vectors,
            sizes.rows,
            sizes.block,
        )


def check_block(block: int | None, length: int) -> None:
    """Blocks must fill a sequence."""
    if block is None:
        return
    if block < 1 or length % block:
        fits = [size for size in range(1, length + 1) if length % size == 0]
        near = min(fits, key=lambda size: (abs(size - block), size))
        raise UserError(
            f"Blocks of {block} tokens do not fill a sequence of {length}; --block {near} does, or choose another "
            "--length."
        )


@dataclass(frozen=True)
class _Sizes:
    vocab_size: int
    length: int
    label: str | None = None
    labels: dict[str, list[str]] | None = None
    unit_vectors: bool = True
    rows: bool = False
    block: int | None = None

    @property
    def taught(self) -> tuple[Label, ...]:
        if self.labels is not None:
            return tuple(Label(rule, tuple(classes)) for rule, classes in self.labels.items())
        return () if self.label is None else (Label(self.label),)
