"""What a student minimises: its distance to a teacher that takes smaller steps."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from candi.base.checks import above_zero, at_least
from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.base.types import Context, Labels, Mask, PerToken, SequenceLabels, Times, Tokens
from candi.diffusion.distillation import Target, divergence, paired, walked
from candi.diffusion.guidance import tempered
from candi.diffusion.methods.base import Method
from candi.diffusion.open_positions import capacity_for
from candi.diffusion.prediction import Prediction
from candi.diffusion.sampler import Denoise, bind_step
from candi.diffusion.state import State, with_given
from candi.nets.denoiser import Denoiser, Features
from candi.training.objective import Objective, RowNumbers, each_part, place_of, without_some

Teacher = Callable[[State, Labels | None, Tokens], Prediction]  # of states, their label, and what blocks are of


@dataclass(frozen=True)
class Distillation:
    """How a student learns from its teacher.

    Args:
        loss: forward, KL(teacher || student), keeps all that the teacher may say; reverse, KL(student || teacher),
            drops what it rarely says: sharper and less diverse; squared lies between.
        targets: distributions of the teacher, or draws from them.
        teacher_temperature: Of the teacher's predictions, in its walk and in its targets.
        mix: Weight of the method's own loss on the data, beside that of distillation.
        pairs: Where the later state comes from: the teacher's walk, or the same noise on the same data (consistency;
            of DUO discrete consistency).
        answer: Who speaks at the later state: the teacher, or the average of the student (consistency).
    """

    loss: Literal["forward", "reverse", "squared"] = "forward"
    targets: Literal["distributions", "draws"] = "distributions"
    teacher_temperature: float = 1.0
    mix: float = 0.0
    pairs: Literal["walk", "noise"] = "walk"
    answer: Literal["teacher", "average"] = "teacher"

    def __post_init__(self) -> None:
        above_zero("teacher_temperature", self.teacher_temperature)
        at_least("mix", self.mix, 0)
        if self.pairs == "noise" and self.targets == "draws":
            raise UserError("Pairs of noise are of the data itself; leave out --targets.")


class DistillObjective(Objective):
    """E over the student's grid of `steps` steps of the distance to the target that the teacher's `ratio` smaller steps
    give: z_t is corrupted data, as in training."""

    def __init__(
        self, student: Denoiser, teacher: Teacher, method: Method, steps: int, how: Distillation, *, ratio: int = 2,
        compile: bool = False, label_dropout: float = 0.0,
    ) -> None:  # fmt: skip
        """`method` is the teacher's: it makes and walks the states, and is no part of what is trained."""
        super().__init__()
        self.denoiser, self.how, self.steps, self.ratio = student, how, steps, ratio
        self._aside = (teacher, method)  # in a tuple: neither is trained
        self._average: list[Denoiser] = []
        self._averages: Callable[[], Mapping[str, Tensor]] | None = None
        self._compiled, self.label_dropout = compile, label_dropout
        self._features: Features = torch.compile(student.features) if compile else student.features

    def follow(self, averages: Callable[[], Mapping[str, Tensor]]) -> None:
        self._averages = averages

    def begin_step(self, progress: float) -> None:
        self.denoiser.method.invalidate_caches()
        if self.how.answer == "average":
            self._take_average()

    def invalidate_caches(self) -> None:
        self.denoiser.method.invalidate_caches()

    def sharding_units(self) -> Sequence[nn.Module]:
        return self.denoiser.trunk.sharding_units()

    def forward(
        self, x0: Tokens, row: RowNumbers, rows: int, rng: Rng, label: Labels | None = None, given: Mask | None = None
    ) -> PerToken:
        (_, method), denoiser = self._aside, self.denoiser
        parts, count = denoiser.split(x0), denoiser.parts(x0.shape[1])
        if label is not None and self.training:
            label = without_some(denoiser, label, self.label_dropout, rng)
        times, capacity = self._times(each_part(row, count), rows * count, rng, parts)
        target, state = self._target(parts, times, rng, label, given, x0)
        prediction = denoiser.predict(self._features, state, label, x0, self._compiled).within(capacity)
        loss = divergence(method, prediction, state, target, self.how.loss)
        if self.how.mix:
            loss = loss + self.how.mix * denoiser.method.loss(prediction, state, parts)
        loss = loss.reshape(x0.shape)
        return loss if given is None else loss.masked_fill(given, 0)

    def _target(
        self, parts: Tokens, times: Sequence[Times], rng: Rng, label: SequenceLabels | None,
        given: Bool[Tensor, "S T"] | None, x0: Context,
    ) -> tuple[Target, State]:  # fmt: skip
        """What is to be predicted, and the state at which."""
        teacher, method = self._aside
        marks = None if given is None else self.denoiser.split(given)

        def asked(state: State) -> Prediction:
            return teacher(state, label, x0)

        def average(state: State) -> Prediction:
            return self._average[0](state, label, x0)

        denoise = tempered(asked, self.how.teacher_temperature)
        answer: Denoise = tempered(average, self.how.teacher_temperature) if self._average else denoise
        with torch.no_grad():
            if self.how.pairs == "noise":
                state, later = method.pair(parts, times[0], times[-1], rng)
                ended = (times[-1] <= 0)[:, None].expand_as(later.known)
                later = State(later.t, later.known | ended, later.tokens.where(~ended, parts), later.values,
                              later.given, later.noise_t)  # fmt: skip
                if marks is not None:
                    state, later = (with_given(one, parts, marks) for one in (state, later))
                return paired(answer, state, later, parts), state
            state = method.corrupt_on_path(parts, times[0], rng)
            state = state if marks is None else with_given(state, parts, marks)
            draws = self.how.targets == "draws"
            step = bind_step(method)
            return walked(method, denoise, step, state, times, rng, answer=answer, draws=draws), state

    def _times(self, row: RowNumbers, rows: int, rng: Rng, parts: Tokens) -> tuple[list[Times], int]:
        """t and the times of the teacher's steps to s, a step of the student for each row, stratified; and how many

        positions may be open.
        """
        _, method = self._aside
        grid = method.timesteps(self.ratio * self.steps, parts.shape[1]).to(parts.device, torch.get_default_dtype())
        step = (place_of(row, rng) / rows * self.steps).long().clamp(max=self.steps - 1)
        first = (torch.as_tensor(row).double() / rows * self.steps).long()  # no row's step is earlier
        most = capacity_for(method.corrupted_fraction(grid.cpu().double()[self.ratio * first]), parts.shape[1])
        return [grid[self.ratio * step + place] for place in range(self.ratio + 1)], most

    @torch.no_grad()
    def _take_average(self) -> None:
        if self._averages is None:
            raise UserError("An average of the student needs whole weights on each process; leave out --strategy fsdp.")
        if not self._average:
            self._average.append(copy.deepcopy(self.denoiser).eval().requires_grad_(False))
        weights = dict(self._average[0].named_parameters())
        for name, averaged in self._averages().items():
            weights[name].copy_(averaged)
        self._average[0].method.invalidate_caches()
