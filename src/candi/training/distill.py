"""Distillation: students that take twice as large steps as their teacher, round by round, each a run of its own."""

import dataclasses
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from candi.base.errors import UserError
from candi.base.rng import fold_in
from candi.base.shards import tensors_hash
from candi.base.types import Labels, Tokens
from candi.data.datasets import Dataset, load_dataset
from candi.diffusion.prediction import Prediction
from candi.diffusion.state import State
from candi.model.checkpoint import step_of
from candi.model.files import CARD, WEIGHTS
from candi.model.model import Model
from candi.nets.denoiser import Denoiser
from candi.training.devices import connect
from candi.training.distill_objective import Distillation, DistillObjective
from candi.training.fit import DenoiserTask, claimed, disk_errors, run_record
from candi.training.loop import Loop, newest
from candi.training.objective import Objective
from candi.training.run import SETTINGS, Run, read_record
from candi.training.settings import FitSettings
from candi.training.team import together

_MOST_STEPS = 1 << 16
_OF_DATA = ("valid", "valid_fraction", "text_field", "rows", "chat", "stream", "label", "skip_bad")


@dataclass(frozen=True, kw_only=True)
class DistillSettings(Distillation, FitSettings):
    """A distillation.

    Args:
        run: The teacher: a run or model of any method but ar.
        rounds: How often the size of the steps is doubled; each round is a run in --out, the next one's teacher.
        teacher_steps: Steps of the teacher; by default as many as the rounds need, or those that it recommends.
        student: A model of the same vocabulary to begin with; by default the teacher itself.
        data: What to learn on; by default what the teacher was trained on.
        cache: Folder for tokenized data; by default under the user's cache folder.
    """

    run: str
    rounds: int = 5
    teacher_steps: int | None = None
    student: str | None = None
    data: str | None = None
    cache: Path | None = None
    steps: int = 1000
    learning_rate: float = 1e-4
    warmup: int = 50
    cooldown: int = 200
    ema: float = 0.99
    checkpoint_every: int = 200
    keep: int = 1
    sample_every: int = 0
    validate_every: int = 200
    devices: Literal["auto"] | int = 1
    deterministic: bool = True

    def __post_init__(self) -> None:
        FitSettings.__post_init__(self)
        Distillation.__post_init__(self)
        if self.rounds < 1:
            raise UserError(f"--rounds must be at least 1, not {self.rounds}.")
        if self.devices not in (1, "auto") or self.nodes > 1 or self.strategy != "auto":
            raise UserError("Distillation uses one device; leave out --devices, --nodes and --strategy.")

    @property
    def how(self) -> Distillation:
        return Distillation(**{field.name: vars(self)[field.name] for field in dataclasses.fields(Distillation)})


@dataclass(frozen=True)
class DistillTask(DenoiserTask):
    """A student of so many steps."""

    teacher: Denoiser | None = None
    steps: int = 1
    how: Distillation = dataclasses.field(default_factory=Distillation)
    origin: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def about(self) -> str:
        return f"student of {self.steps} steps, {super().about}"

    def objective(self, compile: bool) -> Objective:
        assert self.teacher is not None
        teacher = self.teacher

        def asked(state: State, label: Labels | None, x0: Tokens) -> Prediction:
            return teacher(state, label, x0)

        return DistillObjective(self.network, asked, teacher.method, self.steps, self.how, compile=compile)

    def write(self, folder: Path) -> None:
        super().write(folder)
        card = {"recommended": {"steps": self.steps}, "distilled": dict(self.origin)}
        (folder / CARD).write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")

    def sample(self, weights: dict[str, Tensor], settings: FitSettings, device: torch.device) -> list[str]:
        return super().sample(weights, dataclasses.replace(settings, sample_steps=self.steps), device)


def distill(settings: DistillSettings, teacher: Path, student: Path | None = None) -> list[Path]:
    """Train the rounds, continuing what their folders hold. Returns the newest checkpoint of each.

    `teacher` is the folder of the model that --run names, `student` of the one that --student names.
    """
    model = Model.read(teacher)
    steps = teacher_steps(settings, model)
    dataset = _dataset(settings, model)
    begin = None if student is None else _student(settings, Model.read(student), model)
    found: list[Path] = []
    for number in range(1, settings.rounds + 1):
        steps //= 2
        here = dataclasses.replace(settings, out=settings.out / f"round-{number}", seed=fold_in(settings.seed, number))
        last = _round(here, found[-1] if found else teacher, begin if number == 1 else None, steps, dataset)
        found.append(last)
        if not _done(last, here):  # stopped; the same command goes on
            break
    else:
        said = ", ".join(f"{settings.out / f'round-{number}'}" for number in range(1, settings.rounds + 1))
        print(f"Students of {', '.join(map(str, _halves(settings, model)))} steps: {said}", file=sys.stderr)
    return found


def teacher_steps(settings: DistillSettings, model: Model) -> int:
    """How many steps the first teacher takes."""
    if model.denoiser.method.causal:
        raise UserError(f"{settings.run} writes token by token; there are no steps to distil.")
    advised = model.recommended["steps"]
    if _distilled(settings.run) and settings.teacher_steps is None and advised < 2:
        raise UserError(f"{settings.run} takes one step already; there is nothing to distil.")
    default = advised if _distilled(settings.run) else max(advised, 2**settings.rounds)
    steps = default if settings.teacher_steps is None else settings.teacher_steps
    if not 2 <= steps <= _MOST_STEPS:
        raise UserError(f"A teacher takes 2 to {_MOST_STEPS:,} steps, not {steps}; mend --teacher-steps.")
    if steps % 2**settings.rounds:
        halved = (steps & -steps).bit_length() - 1
        raise UserError(
            f"{steps} steps can be halved {halved} times, not {settings.rounds}; give --rounds {max(1, halved)}, or "
            f"--teacher-steps {2**settings.rounds}."
        )
    return steps


def _halves(settings: DistillSettings, model: Model) -> list[int]:
    steps = teacher_steps(settings, model)
    return [steps // 2**number for number in range(1, settings.rounds + 1)]


def _distilled(run: str) -> bool:
    """Whether the teacher is a student of somebody."""
    return any("distilled" in path.read_text(encoding="utf-8") for path in Path(run).glob(f"checkpoints/*/{CARD}"))


def _round(settings: DistillSettings, teacher: Path, student: Model | None, steps: int, dataset: Dataset) -> Path:
    """One student: begun from its teacher, or from another model."""
    source = Model.read(teacher)
    torch.manual_seed(settings.seed)
    config = source.config if student is None else student.config
    denoiser = Denoiser.build(config)
    denoiser.load_state_dict((source if student is None else student).denoiser.state_dict())
    run, fabric = Run(settings.out), connect(settings)
    origin = {"source": settings.run, "sha256": tensors_hash(teacher / WEIGHTS)}
    # what counts of the teacher are its weights: its folder may move
    own = dataclasses.replace(settings, run=origin["sha256"], student=None)
    record = run_record(own, config, dataset.fingerprint, origin)
    record = dataclasses.replace(record, settings={**record.settings, "student_steps": steps})
    with together(fabric, 1, lambda: newest(run)), disk_errors(run), claimed(run, record, own, source.tokenizer):
        fabric.launch()
        # noise lives among the token vectors: a student that moved them would see another noise than it was taught
        frozen = {name: 0.0 for name, _ in denoiser.named_parameters() if name.startswith("method.embedding.")}
        rates = frozen if denoiser.method.gaussian() is not None else {}
        task = DistillTask(
            denoiser, source.tokenizer, config, settings.label_dropout, rates,
            source.denoiser.to(fabric.device).eval().requires_grad_(False), steps, settings.how,
            {**origin, "teacher_steps": 2 * steps, "steps": steps, **dataclasses.asdict(settings.how)},
        )  # fmt: skip
        return Loop(task, dataset.train, dataset.valid, own, fabric, run).go()


def _done(checkpoint: Path, settings: DistillSettings) -> bool:
    return (step_of(checkpoint) or 0) >= settings.steps


def _student(settings: DistillSettings, student: Model, teacher: Model) -> Model:
    if student.tokenizer.fingerprint != teacher.tokenizer.fingerprint:
        raise UserError(
            f"{settings.student} has another vocabulary than its teacher {settings.run}; take a model that was trained "
            "with the same tokenizer."
        )
    if student.config.method != teacher.config.method or student.config.block != teacher.config.block:
        raise UserError(
            f"{settings.student} is another method than its teacher, or writes in other blocks; both must be the same."
        )
    return student


def _dataset(settings: DistillSettings, model: Model) -> Dataset:
    """What the teacher was trained on, or what is named."""
    folder = Path(settings.run)
    known: dict[str, Any] = {}
    if (folder / SETTINGS).exists():
        known = read_record(folder)["settings"]
    if settings.data is None and "data" not in known:
        raise UserError(f"{settings.run} does not say what it was trained on; give --data.")
    kept = {name: known[name] for name in _OF_DATA if name in known} if settings.data is None else {}
    return load_dataset(
        settings.data or known["data"], model.tokenizer, model.config.length, seed=settings.seed, cache=settings.cache,
        block=model.config.block, **{"rows": model.config.rows or None, **kept},
    )  # fmt: skip
