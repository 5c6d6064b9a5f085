"""What is swept and how it is measured, checked before a run is looked at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from candi.base.checks import at_least
from candi.base.errors import UserError, unknown
from candi.base.machine import device_named
from candi.data.molecules import need_rdkit
from candi.data.properties import Kind, check_property
from candi.diffusion.guidance import DCBG
from candi.evaluation.run_handle import RunHandle, check_names
from candi.evaluation.words import Letters
from candi.model.model import PRECISIONS


@dataclass(frozen=True)
class SweepSettings:
    """What is swept, and how it is measured."""

    runs: Sequence[RunHandle]
    out: Path
    steps: Sequence[int] = (8, 16, 32, 64)
    temperatures: Sequence[float] = (1.0,)
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    top_k: int | None = None
    top_p: float | None = None
    length: int | None = None
    n: int = 128
    seed: int = 0
    batch_size: int | None = None
    device: str = "auto"
    workers: int | None = None
    precision: str = "auto"
    compile: bool = False
    scorers: Sequence[str] = ()
    context: int = 1024
    words: str | None = None
    words_field: str = "text"
    mauve: str | None = None
    letters: Letters = "count"
    characters: int | None = None  # of each text that are scored, for runs of different tokenizers
    measured_property: str | None = None
    classifiers: Sequence[str] = ()
    target: int | str = 1
    weights: Sequence[float] = (1.0,)
    reveal: float = 0.0
    dcbg: Sequence[str] = ("first-order",)  # forms of discrete guidance
    label: int | str | None = None  # for runs that were trained with labels; the weights are then those of CFG
    shared: int = 1  # commands that use the device at the same time, for whoever reads how long samples took

    def __post_init__(self) -> None:
        if not self.runs:
            raise UserError("A sweep needs at least one run: candi frontier RUN [RUN ...].")
        check_names(self.runs)
        if not self.steps or min(self.steps) < 1:
            raise UserError("A sweep needs --steps of at least 1, for example 8,16,32,64.")
        if not self.temperatures or not all(0 < t < float("inf") for t in self.temperatures):
            raise UserError("A sweep needs --temperatures above 0, for example 0.7:1.0:0.025.")
        for name in ("length", "characters", "batch_size", "workers"):
            at_least(name, vars(self)[name], 1)
        if self.context < 2:
            raise UserError(f"--context must be at least 2 tokens, not {self.context}.")
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        if self.n < 2:
            raise UserError(f"A point needs at least 2 samples for its band, not {self.n}.")
        if self.measured_property is not None:
            if self.kind == "molecules":
                need_rdkit("Measuring molecules")
            check_property(self.measured_property, self.kind)
        for form in self.dcbg:
            if form not in DCBG:
                raise unknown("dcbg", form, DCBG)
        named = [Path(scorer).name for scorer in self.scorers]
        if len(set(named)) < len(named):
            raise UserError(f"Two scorers have the same name ({', '.join(named)}); rename one of them.")
        if self.mauve is not None and not self.scorers:
            raise UserError("--mauve needs --scorers, whose features it compares.")

    @property
    def kind(self) -> Kind:
        """What the sequences are, of which a property is measured."""
        kinds = {run.kind for run in self.runs}
        if len(kinds) > 1:
            what = " and ".join(sorted(kinds))
            raise UserError(f"These runs write {what}, which share no property; compare them apart.")
        return next(iter(kinds))

    @property
    def sampling_precision(self) -> str:
        """The precision that auto means here."""
        kind = device_named(self.device).type
        return self.precision if self.precision != "auto" else "bf16" if kind == "cuda" else "float32"

    @property
    def devices(self) -> list[torch.device]:
        """One for each process: all GPUs there are, or one CPU."""
        device = device_named(self.device)
        several = torch.cuda.device_count() if device.type == "cuda" and device.index is None else 1
        return [
            torch.device("cuda", i % several) if device.type == "cuda" and several > 1 else device
            for i in range(self.workers or several)
        ]
