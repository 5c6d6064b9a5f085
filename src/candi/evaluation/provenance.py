"""What a point was made with: enough to make it again, and to refuse what cannot be compared."""

import dataclasses
import hashlib
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from candi.base.config import from_json
from candi.base.errors import UserError
from candi.base.version import __version__
from candi.diffusion.draws import PRECISION
from candi.model.model import Model
from candi.nets.trunk import parameter_count

_OLD_NAMES = {"nucleus": "top_p", "batch": "batch_size"}  # of points of 0.1


@dataclass(frozen=True)
class Guide:
    """How samples are guided: by a classifier, or by the run's own labels, where `classifier` is None.

    `target` is a class, or of a run with several labels NAME=CLASS for those that are asked for.

    `content` is a hash of the classifier, `noise` the method whose noise it reads; `reveal` tilts what is drawn.
    `dcbg` is "exact" for discrete guidance that reads every neighbour, None for its first order and for all others.
    """

    classifier: str | None
    label: str
    target: int | str
    weight: float
    reveal: float = 0.0
    noise: str | None = None
    content: str | None = None
    dcbg: str | None = None


@dataclass(frozen=True)
class Cell:
    """One cell of a sweep's grid. It decides the samples, but for the last bits of another machine's arithmetic.

    `steps` counts evaluations of the network; `steps_fixed` says that the method decides how many (autoregression).
    """

    run: str
    checkpoint: str
    method: str
    tokenizer: str
    vocab_size: int
    length: int
    steps: int
    steps_fixed: bool
    temperature: float
    top_k: int | None
    top_p: float | None
    options: Mapping[str, str]
    seed: int
    n: int
    precision: str
    guidance: Guide | None = None

    @property
    def key(self) -> str:
        """A name for its files. The run may be renamed; its checkpoint is what counts."""
        values = {name: value for name, value in dataclasses.asdict(self).items() if name not in ("run", "steps_fixed")}
        values["nucleus"] = values.pop("top_p")  # as it was called when the first samples were made
        if values["guidance"] is None:
            del values["guidance"]
        elif values["guidance"]["dcbg"] is None:  # as the first guided samples were made
            del values["guidance"]["dcbg"]
        return fingerprint(values)

    @property
    def title(self) -> str:
        options = "".join(f", {value}" for value in self.options.values())
        weight = f", weight {self.guidance.weight:g}" if self.guidance else ""
        return f"{self.run}, {self.steps} steps{options}, temperature {self.temperature:g}{weight}"


@dataclass(frozen=True)
class Provenance:
    """A cell, and the circumstances under which its samples were made and measured."""

    cell: Cell
    parameters: int
    ema: bool  # a checkpoint's model.safetensors holds the averaged weights
    batch_size: int
    draws: str
    device: str
    candi: str
    torch: str
    python: str
    scorer: Mapping[str, Any] | None = None  # what it is: see Scorer.identity
    other_scorers: Sequence[Mapping[str, Any]] = ()
    words: Mapping[str, Any] | None = None
    mauve: Mapping[str, Any] | None = None
    property: str | None = None
    kind: str | None = None  # of sequences whose property is measured; None stands for molecules
    characters: int | None = None

    @classmethod
    def of(cls, cell: Cell, model: Model, batch_size: int) -> "Provenance":
        cuda = model.device.type == "cuda"
        return cls(
            cell=cell,
            parameters=parameter_count(model.denoiser),
            ema=True,
            batch_size=batch_size,
            draws=PRECISION,
            device=torch.cuda.get_device_name(model.device) if cuda else "cpu",
            candi=__version__,
            torch=torch.__version__,
            python=platform.python_version(),
        )

    def to_json(self) -> dict[str, Any]:
        """One flat table: the cell's fields and its own."""
        values = {f.name: vars(self)[f.name] for f in dataclasses.fields(self) if f.name != "cell"}
        return dataclasses.asdict(self.cell) | values | {"other_scorers": list(self.other_scorers)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Provenance":
        values = {_OLD_NAMES.get(name, name): value for name, value in values.items()}
        guide = values.get("guidance")
        guidance = None if guide is None else from_json(Guide, guide, "guidance")
        names = {f.name for f in dataclasses.fields(Cell)}
        cell = Cell(**{name: value for name, value in values.items() if name in names} | {"guidance": guidance})
        rest = {f.name for f in dataclasses.fields(cls)} - {"cell"}
        return cls(cell, **{name: value for name, value in values.items() if name in rest})


def fingerprint(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def check_match(made: Sequence[Provenance], fields: Iterable[str]) -> None:
    """Refuse to compare points that differ in one of the fields."""
    tables = [one.to_json() for one in made]
    for name in fields:
        for one, other in zip(tables, tables[1:], strict=False):
            if one[name] != other[name]:
                raise UserError(
                    f"{one['run']} and {other['run']} cannot be compared: their {name} differs "
                    f"({_short(one[name])} and {_short(other[name])}); make both points with the same."
                )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
