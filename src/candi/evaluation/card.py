"""What a point was made with: enough to make it again, and to refuse what cannot be compared."""

import dataclasses
import hashlib
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import candi
from candi.draws import PRECISION
from candi.errors import UserError
from candi.model import Model
from candi.nets.transformer import parameter_count

Card = Mapping[str, Any]


@dataclass(frozen=True)
class Point:
    """What is asked for: it decides the samples, but for the last bits of another machine's arithmetic.

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
    nucleus: float | None
    options: Mapping[str, str]
    seed: int
    n: int
    precision: str
    guidance: Mapping[str, Any] | None = None  # classifier or None, its content, target, weight, reveal

    @classmethod
    def of(cls, card: Card) -> "Point":
        """What a card was asked for."""
        return cls(**{field.name: card[field.name] for field in dataclasses.fields(cls)})

    @property
    def key(self) -> str:
        """A name for its files. The run may be renamed; its checkpoint is what counts."""
        values = {name: value for name, value in dataclasses.asdict(self).items() if name not in ("run", "steps_fixed")}
        if values["guidance"] is None:
            del values["guidance"]
        return fingerprint(values)

    @property
    def label(self) -> str:
        options = "".join(f", {value}" for value in self.options.values())
        weight = f", weight {self.guidance['weight']:g}" if self.guidance else ""
        return f"{self.run}, {self.steps} steps{options}, temperature {self.temperature:g}{weight}"


def fingerprint(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def card(point: Point, model: Model, batch: int) -> dict[str, Any]:
    """The point, and the circumstances under which it was made."""
    cuda = model.device.type == "cuda"
    return {
        **dataclasses.asdict(point),
        "parameters": parameter_count(model.denoiser),
        "ema": True,  # a checkpoint's model.safetensors holds the averaged weights
        "batch": batch,
        "draws": PRECISION,
        "device": torch.cuda.get_device_name(model.device) if cuda else "cpu",
        "candi": candi.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def must_agree(cards: Sequence[Card], fields: Iterable[str]) -> None:
    """Refuse to compare points that differ in one of the fields."""
    for field in fields:
        first = cards[0].get(field)
        for other in cards[1:]:
            if other.get(field) != first:
                raise UserError(
                    f"{cards[0]['run']} and {other['run']} cannot be compared: their {field} differs "
                    f"({_short(first)} and {_short(other.get(field))}); make both points with the same."
                )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
