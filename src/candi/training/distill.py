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

from candi.base.config import read_json
from candi.base.errors import UserError
from candi.base.rng import fold_in
from candi.base.shards import tensors_hash
from candi.base.types import Labels, Tokens
from candi.data.datasets import Dataset, load_dataset
from candi.diffusion.prediction import Prediction
from candi.diffusion.state import State
from candi.diffusion.steps import FIRST_HITTING
from candi.model.checkpoint import CHECKPOINTS, found, step_of
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
        label: Columns or rules of its labels, where --data is given and the teacher was taught some.
        cache: Folder for tokenized data; by default under the user's cache folder.
    """

    run: str
    rounds: int = 5
    teacher_steps: int | None = None
    student: str | None = None
    data: str | None = None
    label: str | None = None
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
        object.__setattr__(self, "devices", 1)
        if self.minutes is not None:
            raise UserError("A round of distillation ends by its --steps; leave out --minutes.")
        if self.precision in ("fp8-mixed", "float64"):
            raise UserError(f"Distillation is in float32 or bf16, not in {self.precision}; leave out --precision.")

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

        return DistillObjective(
            self.network, asked, teacher.method, self.steps, self.how, compile=compile, label_dropout=self.label_dropout
        )

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
    steps = teacher_steps(settings, model, teacher)
    source = _source(settings, model)
    dataset = _dataset(settings, model, source)
    begin = None if student is None else _student(settings, Model.read(student), model)
    own = {} if student is None else {"student": tensors_hash(student / WEIGHTS)}
    made: list[Path] = []
    for number in range(1, settings.rounds + 1):
        steps //= 2
        _check_later(settings, number)
        here = dataclasses.replace(settings, out=settings.out / f"round-{number}", seed=fold_in(settings.seed, number))
        name = str(settings.out / f"round-{number - 1}") if made else settings.run
        begun = begin if number == 1 else None
        last = _round(here, name, made[-1] if made else teacher, begun, steps, dataset, source | own)
        made.append(last)
        if not _done(last, here):  # stopped; the same command goes on
            break
    else:
        said = ", ".join(f"{settings.out / f'round-{number}'}" for number in range(1, settings.rounds + 1))
        halves = ", ".join(str(steps << (settings.rounds - number)) for number in range(1, settings.rounds + 1))
        print(f"Students of {halves} steps: {said}", file=sys.stderr)
    return made


def _check_later(settings: DistillSettings, number: int) -> None:
    """A round that has become a teacher is not trained further."""
    here, later = (settings.out / f"round-{n}" for n in (number, number + 1))
    folders = found(here / CHECKPOINTS) if here.exists() and (later / SETTINGS).exists() else []
    if folders and (step_of(folders[0]) or 0) < settings.steps:
        raise UserError(
            f"{here} is the teacher of {later} already, after {step_of(folders[0])} steps; repeat its command, or "
            "choose another --out."
        )


def teacher_steps(settings: DistillSettings, model: Model, folder: Path) -> int:
    """How many steps the first teacher takes."""
    if model.denoiser.method.causal:
        raise UserError(f"{settings.run} writes token by token; there are no steps to distil.")
    if vars(model.config.settings).get("order") == FIRST_HITTING:
        raise UserError(f"{settings.run} takes a step a token ({FIRST_HITTING}); there are no larger ones to learn.")
    advised, student = model.recommended["steps"], _is_student(folder)
    if student and settings.teacher_steps is None and advised < 2:
        raise UserError(f"{settings.run} takes one step already; there is nothing to distil.")
    default = advised if student else max(advised, 2**settings.rounds)
    steps = default if settings.teacher_steps is None else settings.teacher_steps
    if not 2 <= steps <= _MOST_STEPS:
        raise UserError(f"A teacher takes 2 to {_MOST_STEPS:,} steps, not {steps}; mend --teacher-steps.")
    if steps % 2**settings.rounds:
        halved = (steps & -steps).bit_length() - 1
        fewer = f"--rounds {halved}, or " if halved else ""
        raise UserError(
            f"{steps} steps can be halved {halved} times, not {settings.rounds}; give {fewer}--teacher-steps "
            f"{2**settings.rounds}."
        )
    return steps


def _is_student(folder: Path) -> bool:
    """By the card of a checkpoint, or of a model that was packed."""
    card = read_json(folder / CARD) if (folder / CARD).exists() else {}
    training = card.get("training") if isinstance(card, dict) else None
    packed = isinstance(training, dict) and training.get("student_steps") is not None
    return packed or (isinstance(card, dict) and "distilled" in card)


def _round(
    settings: DistillSettings, name: str, teacher: Path, student: Model | None, steps: int, dataset: Dataset,
    source_of_data: Mapping[str, Any],
) -> Path:  # fmt: skip
    """One student: begun from its teacher, called `name`, or from another model."""
    source = Model.read(teacher)
    torch.manual_seed(settings.seed)
    config = source.config if student is None else student.config
    denoiser = Denoiser.build(config)
    denoiser.load_state_dict((source if student is None else student).denoiser.state_dict())
    run, fabric = Run(settings.out), connect(settings)
    origin = {"source": name, "sha256": tensors_hash(teacher / WEIGHTS)}
    # what counts of the teacher are its weights: its folder may move
    own = dataclasses.replace(settings, run=origin["sha256"], student=None)
    record = run_record(own, config, dataset.fingerprint, origin)
    record = dataclasses.replace(record, settings={**record.settings, **source_of_data, "student_steps": steps})
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
    one, two = (dataclasses.replace(m.config, model=teacher.config.model, trunk=teacher.config.trunk)
                for m in (student, teacher))  # fmt: skip
    if one != two:
        raise UserError(
            f"{settings.student} is not of the kind of its teacher {settings.run}: method and its settings, length, "
            "labels, rows and blocks must be the same."
        )
    if teacher.denoiser.method.gaussian() is not None:  # its noise lives among the teacher's token vectors
        mine, theirs = student.config.model.width, teacher.config.model.width
        if mine != theirs:
            raise UserError(
                f"{settings.student} is {mine} wide and its teacher {theirs}; with Gaussian noise they must be alike."
            )
        student.denoiser.method.load_state_dict(teacher.denoiser.method.state_dict())
    return student


def _source(settings: DistillSettings, model: Model) -> dict[str, Any]:
    """Where the data is and how it is read: as the teacher's was, or as is named."""
    folder = Path(settings.run).expanduser()
    known: dict[str, Any] = read_record(folder)["settings"] if (folder / SETTINGS).exists() else {}
    if settings.data is None and known.get("data") is None:
        raise UserError(f"{settings.run} does not say what it was trained on; give --data.")
    plain = {"text_field": "text", "rows": model.config.rows or None, "label": settings.label}
    if settings.data is not None:
        return {"data": settings.data, **plain}
    return {"data": known["data"], **plain, **{name: known[name] for name in _OF_DATA if name in known}}


def _dataset(settings: DistillSettings, model: Model, source: Mapping[str, Any]) -> Dataset:
    config = model.config
    dataset = load_dataset(
        tokenizer=model.tokenizer, length=config.length, seed=settings.seed, cache=settings.cache, block=config.block,
        **source,
    )  # fmt: skip
    if dataset.labels != config.labels:
        known = ", ".join(label.rule for label in config.labels) or "none"
        raise UserError(f"The teacher was taught the labels {known}; give --label, or data that has the same.")
    return dataset
