"""Everything a run is made of."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from candi.errors import UserError, unknown
from candi.methods import METHODS, MethodSettings
from candi.nets.transformer import TrunkSettings

# What may differ when a run is continued. Everything else would make it another run.
FREE = {
    "out", "cache", "steps", "minutes", "micro_batch", "checkpoint_every", "keep", "log_every",
    "validate_every", "validate_windows", "sample_every", "samples", "sample_steps",
    "accelerator", "devices", "nodes", "strategy", "precision", "compile", "keep_activations",
    "deterministic",
}  # fmt: skip


@dataclass(frozen=True)
class TrainSettings:
    """A training run.

    Args:
        data: Text to learn: a file, a folder, JSON lines, Parquet, hf:OWNER/NAME, or pydoc (Python's own manual).
        out: Folder of the run. The same command again continues it.
        method: The diffusion method.
        valid: Text to validate on; by default the end of the data.
        valid_fraction: Share of the data kept for validation if there is no separate text.
        tokenizer: char, smiles (molecules), bpe:SIZE (trained on the data), or a path: tokenizer.json, or a folder with
            GPT-2's files.
        text_field: Column with the text in JSON lines and Parquet.
        cache: Folder for tokenized data; by default under the user's cache folder.
        label: Learn to generate by label: a property and a rule, as qed:top, rings>=2 or COLUMN>=0.5.
        label_dropout: Share of the sequences that are learned without their label, for guidance.
        skip_bad: Leave out documents that are too long for a row or no molecules, instead of refusing them.
        length: Tokens in a sequence.
        steps: Optimizer steps. More of them continue a run; a cool-down or curriculum is measured against them.
        minutes: Stop after this much training time, if the steps are not done before.
        batch: Sequences in a step, over all devices.
        micro_batch: Sequences on one device at once; smaller ones are accumulated. By default all of its share, or what
            the memory of a single GPU holds of it.
        seed: Decides the weights at the start, the order of the data and all noise.
        learning_rate: Of AdamW, constant after the warm-up.
        warmup: Steps in which the learning rate rises from 0.
        cooldown: Steps at the end in which the learning rate falls to 0.
        weight_decay: Of AdamW.
        beta1: Of AdamW.
        beta2: Of AdamW.
        clip: Largest norm of the gradient.
        ema: Decay of the averaged weights that are used for sampling, reached after a warm-up.
        checkpoint_every: Steps between checkpoints.
        keep: Checkpoints kept.
        log_every: Steps between lines of metrics.csv.
        validate_every: Steps between validations; 0 for none.
        validate_windows: Sequences in a validation.
        sample_every: Steps between samples written to the run's folder; 0 for none.
        samples: How many are written.
        sample_steps: In how many sampling steps they are made.
        accelerator: auto, cpu or cuda.
        devices: How many on this machine: auto, or a number.
        nodes: How many machines.
        strategy: auto, ddp (copies of the model) or fsdp (pieces of it).
        precision: auto is bf16-mixed on CUDA and float32 elsewhere.
        compile: Compile the trunk with torch.compile, which takes a minute at the start; by default on a GPU.
        keep_activations: Of what a compiled trunk would keep for the backward pass, the share that it may. The rest is
            computed again: 1 is fastest, less needs less memory.
        deterministic: The same run gives the same weights on a GPU too, a little slower. A CPU does in any case.
        model: The transformer.
        settings: Of the method.
    """

    data: str
    out: Path
    method: str = "candi"
    valid: str | None = None
    valid_fraction: float = 0.05
    tokenizer: str = "char"
    text_field: str = "text"
    cache: Path | None = None
    label: str | None = None
    label_dropout: float = 0.1
    skip_bad: bool = False
    length: int = 256
    steps: int = 10_000
    minutes: float | None = None
    batch: int = 64
    micro_batch: int | None = None
    seed: int = 0
    learning_rate: float = 3e-4
    warmup: int = 250
    cooldown: int = 0
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    clip: float = 1.0
    ema: float = 0.9999
    checkpoint_every: int = 500
    keep: int = 2
    log_every: int = 10
    validate_every: int = 500
    validate_windows: int = 128
    sample_every: int = 500
    samples: int = 4
    sample_steps: int = 32
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    devices: Literal["auto"] | int = "auto"
    nodes: int = 1
    strategy: Literal["auto", "ddp", "fsdp"] = "auto"
    precision: Literal["auto", "32-true", "bf16-mixed", "64-true"] = "auto"
    compile: bool | None = None
    keep_activations: float = 0.85
    deterministic: bool = True
    model: TrunkSettings = field(default_factory=TrunkSettings)
    settings: MethodSettings | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise unknown("method", self.method, METHODS)
        if self.settings is None:
            object.__setattr__(self, "settings", METHODS[self.method]())
        values = vars(self)
        for name in ("length", "steps", "batch", "checkpoint_every", "keep", "log_every", "nodes", "sample_steps"):
            _at_least(name, values[name], 1)
        for name in ("warmup", "cooldown", "validate_every", "sample_every", "weight_decay", "seed"):
            _at_least(name, values[name], 0)
        for name in ("samples", "validate_windows"):
            _at_least(name, values[name], 1)
        for name in ("learning_rate", "clip"):
            if not 0 < values[name] < float("inf"):
                raise UserError(f"--{name} must be above 0, not {values[name]}.")
        for name in ("beta1", "beta2", "ema", "valid_fraction", "label_dropout"):
            if not 0 <= values[name] < 1:
                raise UserError(f"--{name} must be in [0, 1), not {values[name]}.")
        if self.label is not None and not self.label_dropout:
            raise UserError("--label_dropout must be above 0: what is learned without labels is needed as well.")
        if not 0 <= self.keep_activations <= 1:
            raise UserError(f"--keep_activations must be in [0, 1], not {self.keep_activations}.")
        if self.seed >= 2**63:
            raise UserError(f"--seed must be below 2^63, not {self.seed}.")
        if self.micro_batch is not None:
            _at_least("micro_batch", self.micro_batch, 1)
        if self.minutes is not None and self.minutes <= 0:
            raise UserError(f"--minutes must be above 0, not {self.minutes}.")

    def to_json(self) -> dict[str, Any]:
        """The method's settings stand under its name."""
        values = dataclasses.asdict(self)
        values[self.method] = values.pop("settings")
        return {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}

    def differences(self, earlier: dict[str, Any]) -> list[str]:
        """Fields that make this another run than `earlier` (a `to_json`)."""
        defaults = {f.name: f.default for f in dataclasses.fields(self) if f.default is not dataclasses.MISSING}
        defaults.pop("settings")  # stand under the method's name
        defaults |= {
            "model": dataclasses.asdict(TrunkSettings()),
            self.method: dataclasses.asdict(METHODS[self.method]()),
        }
        now = _flat({k: v for k, v in self.to_json().items() if k not in FREE})
        # a run may have been begun before a setting existed
        then = _flat(defaults) | _flat(earlier)
        then = {name: value for name, value in then.items() if name.partition(".")[0] not in FREE}
        return [
            f"{name} was {then.get(name)!r} and is now {now.get(name)!r}"
            for name in sorted(now.keys() | then.keys())
            if now.get(name) != then.get(name)
        ]


def _at_least(name: str, value: float, least: int) -> None:
    if value < least:
        raise UserError(f"--{name} must be at least {least}, not {value}.")


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat
