"""The training loop, the same for everything that is trained."""

import dataclasses
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from lightning.fabric import Fabric
from torch import Tensor, nn
from torch.distributed import all_gather_object

from candi.base.config import from_json, read_json
from candi.base.errors import UserError
from candi.base.memory import gib, memory, memory_left
from candi.base.rng import fold_in
from candi.base.tensors import write_tensors
from candi.data.rows import Sequences
from candi.model import checkpoint
from candi.model.files import WEIGHTS, open_weights
from candi.nets.trunk import parameter_count
from candi.training.display import Display
from candi.training.interrupt import Interrupt, graceful
from candi.training.loader import MicroBatch, Read, ShardedLoader
from candi.training.memory import MemoryNeed, NoMemoryLeft, out_of_memory
from candi.training.objective import Objective
from candi.training.optim import learning_rate
from candi.training.prefetch import Prefetched
from candi.training.run import Metrics, Run
from candi.training.settings import FitSettings
from candi.training.step import StepResult, TrainStep

_STALLED = 0.1  # the fraction of the time that may be waited for data
TRAINING, PROGRESS = "training.safetensors", "progress.json"


def newest(run: Run) -> str:
    """Where a run can be continued from, in words."""
    folders = checkpoint.found(run.checkpoints)
    return f"the last good checkpoint is {folders[0]}" if folders else "there is no checkpoint yet"


@dataclass
class Progress:
    """Where a run stands, apart from its tensors. Losses are summed until the next line of metrics."""

    step: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_count: int = 0
    micro_batch_size: int | None = None  # with the kind of device: how a step is rounded depends on both
    device: str | None = None

    @classmethod
    def read(cls, path: Path) -> "Progress":
        found = from_json(cls, read_json(path), str(path))
        if min(found.step, found.seconds, found.loss_count) < 0 or found.micro_batch_size == 0:
            raise UserError(f"{path} counts below zero, which no run does; restore it, or take another checkpoint.")
        return found


@runtime_checkable
class Task(Protocol):
    """What a loop trains: a denoiser or a classifier."""

    @property
    def network(self) -> nn.Module:
        """What is kept of it."""

    @property
    def about(self) -> str:
        """What it is, in a few words."""

    @property
    def rates(self) -> Mapping[str, float]:
        """Fractions of the learning rate for some weights by name."""

    def objective(self, compile: bool) -> Objective:
        """What is minimised."""

    def write(self, folder: Path) -> None:
        """The files that make weights a model."""

    def sample(self, weights: dict[str, Tensor], settings: FitSettings, device: torch.device) -> list[str]:
        """Samples to look at while it is trained; none if there is nothing to sample."""


class Loop:
    """One process of a run."""

    def __init__(
        self, task: Task, train: Sequences, valid: Sequences | None, settings: FitSettings, fabric: Fabric, run: Run
    ) -> None:
        self.task, self.sequences, self.settings, self.fabric, self.run = task, train, settings, fabric, run
        self.valid = valid if settings.validate_every else None
        self.progress = Progress()
        self.size = parameter_count(task.network)
        compile = settings.compile if settings.compile is not None else fabric.device.type == "cuda"
        if compile:
            torch._functorch.config.activation_memory_budget = settings.keep_activations
        self.step = TrainStep(task.network, task.objective(compile), settings, fabric, rates=task.rates)
        self.loss_sum = torch.zeros((), device=fabric.device)
        self.bad_step = torch.full((), -1.0, device=fabric.device)
        self.share = settings.batch_size // fabric.world_size
        self.micro_batch_size = settings.micro_batch_size or self.share
        self._ahead: Prefetched[list[Read]] | None = None
        self._ahead_size = 0

    def go(self) -> Path:
        with Display(self.settings.steps, silent=not self.fabric.is_global_zero) as display:
            self._restore(display)
            if self._finished():
                display.say(f"{self.run.folder} is trained already ({self.progress.step} steps); nothing to do.")
                return checkpoint.found(self.run.checkpoints)[0]
            display.say(self._summary())
            self.fit_to_memory(display)
            display.start_at(self.progress.step)
            with graceful() as interrupt:
                metrics = Metrics(self.run.folder, self.progress.step) if self.fabric.is_global_zero else None
                try:
                    self._steps(display, metrics, interrupt)
                finally:
                    self.close()
                    if metrics is not None:
                        metrics.close()
            if not self._finished():
                display.say(f"Stopped at step {self.progress.step} and saved; the same command continues.")
        return checkpoint.found(self.run.checkpoints)[0]

    def _steps(self, display: Display, metrics: Metrics | None, interrupt: Interrupt) -> None:
        settings, progress = self.settings, self.progress
        begun = time.monotonic() - progress.seconds
        logged, logged_at = progress.step, time.monotonic()
        stopped = False
        while not (stopped or self._finished()):
            outcome = self.update(display)
            stopped = self._agree(time.monotonic() - begun, interrupt)
            display.update(progress.step)
            last = self._finished()
            values: dict[str, float] = {}
            if last or progress.step % settings.log_every == 0:
                seconds = time.monotonic() - logged_at
                pace = (progress.step - logged) / seconds
                self._say_stalled(display, seconds)
                logged, logged_at = progress.step, time.monotonic()
                values = self._measure(outcome) | {"tokens_per_second": pace * settings.batch_size * self.length}
            if self.valid is not None and (last or progress.step % settings.validate_every == 0):
                values["valid_loss"] = self._validate(self.valid)
            if values:
                display.show(progress.step, values)
            if values and metrics is not None:
                metrics.write(progress.step, values)
            if settings.sample_every and (last or progress.step % settings.sample_every == 0):
                self._sample()
            if last or stopped or progress.step % settings.checkpoint_every == 0:
                self._save()

    def _say_stalled(self, display: Display, seconds: float) -> None:
        """A line where the device has waited for the data."""
        if self._ahead is None:
            return
        waited, self._ahead.stalled = self._ahead.stalled, 0.0
        if waited > _STALLED * seconds:
            display.say(
                f"Training waited {waited:.1f} of {seconds:.1f} s for data to be read; prepare it beforehand with "
                "candi prepare, on a disk that is nearer."
            )

    def fit_to_memory(self, display: Display) -> MemoryNeed | None:
        """Choose how many sequences are computed at once; a continued run goes on with what it had.

        A GPU says when it is full. On a CPU a process that takes too much is killed, so what a step needs is measured
        before; half of all memory is the same on the same machine, if others leave so much.
        """
        kept = self.progress.micro_batch_size if self.progress.device == self.fabric.device.type else None
        asked = self.settings.micro_batch_size or (kept if kept and self.share % kept == 0 else None)
        self.micro_batch_size = asked or self.share
        if self.fabric.device.type != "cpu" or self.fabric.world_size > 1:
            return None
        left = memory_left()
        need, room = self._memory_need(left), min(memory(self.fabric.device) // 2, int(0.8 * left))
        wanted = self.micro_batch_size
        if need.of(wanted) > (left if asked else room):
            self.micro_batch_size = need.most(wanted, room)
        if self.micro_batch_size < wanted:
            display.say(
                f"{wanted} sequences at once need {gib(need.of(wanted))} of memory; going on with "
                f"{self.micro_batch_size}, which need {gib(need.of(self.micro_batch_size))} of {gib(left)} free."
            )
        return need

    def _memory_need(self, left: int) -> MemoryNeed:
        """Measured; a refusal where one sequence is too much."""

        def micro(size: int) -> MicroBatch:
            loader = self._loader(self.sequences)
            return dataclasses.replace(loader, batch_size=size, micro_batch_size=size).step(0)[0]

        try:
            need = self.step.memory_need(micro, self.share, left)
        except NoMemoryLeft:
            need = None
        if need is None or need.of(1) > left:
            much = f"more than {gib(left)}" if need is None else gib(need.of(1))
            raise UserError(
                f"A step of a single sequence needs {much} of memory, and {gib(left)} are free. "
                "Give less --length or a smaller --model."
            )
        return need

    def parts(self, size: int) -> list[MicroBatch]:
        """The batch of the first step in micro-batches of so many sequences."""
        return dataclasses.replace(self._loader(self.sequences), micro_batch_size=size).step(0)

    def update(self, display: Display) -> StepResult:
        """One step, with as many sequences at once as memory holds."""
        step = self.progress.step
        while (outcome := self._attempt(step)) is None:
            display.say(self._less_at_once())
        self.progress.step += 1
        self.progress.loss_count += 1
        self.loss_sum += outcome.loss
        finite = torch.isfinite(outcome.loss) & torch.isfinite(outcome.gradient_norm)
        self.bad_step = torch.where((self.bad_step < 0) & ~finite, float(step + 1), self.bad_step)
        return outcome

    def _attempt(self, step: int) -> StepResult | None:
        """None where memory does not suffice; the step can be tried again from its beginning."""
        # dropout alone uses the global generator; it too starts anew each step
        torch.manual_seed(fold_in(self.settings.seed, "dropout", step, self.fabric.global_rank))
        try:
            return self.step.update(step, self._micro_batches(step))
        except RuntimeError as error:
            if out_of_memory(error):
                return None
            raise

    def _micro_batches(self, step: int) -> list[MicroBatch]:
        """This process's part of a step; what the next ones need is read meanwhile."""
        loader = self._loader(self.sequences)
        if self._ahead is None or self._ahead_size != self.micro_batch_size:
            self.close()
            self._ahead, self._ahead_size = Prefetched(loader.read), self.micro_batch_size
        return [loader.placed(part) for part in self._ahead(step)]

    def close(self) -> None:
        """Read nothing more."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def _less_at_once(self) -> str:
        """The next smaller micro-batches that a batch can be cut into, or a refusal."""
        before = self.micro_batch_size
        smaller = max((size for size in range(1, before) if self.share % size == 0), default=0)
        advice = "Give less --length or a smaller --model" if not smaller else f"Give --micro-batch-size {smaller}"
        if not smaller or self.fabric.world_size > 1:  # several devices would have to agree
            raise UserError(f"{before} sequences at once are too many for the memory of the device. {advice}.")
        self.micro_batch_size = smaller
        self.step.discard_step()
        return f"{before} sequences at once are too many for the memory of the device; going on with {smaller}."

    def _agree(self, seconds: float, interrupt: Interrupt) -> bool:
        """All processes share the first one's clock and any one's wish to stop; several meet for it now and then."""
        if self.fabric.world_size == 1:
            self.progress.seconds = seconds
            return interrupt.asked
        if self.progress.step % self.settings.log_every:
            return False
        self.progress.seconds = self.fabric.broadcast(seconds)
        return bool(self._reduce(self.bad_step.new_tensor(float(interrupt.asked)), "max"))

    def _finished(self) -> bool:
        minutes = self.settings.minutes
        spent = minutes is not None and self.progress.seconds >= 60 * minutes
        return self.progress.step >= self.settings.steps or spent

    def _measure(self, outcome: StepResult) -> dict[str, float]:
        self._check_finite()
        loss = float(self._reduce(self.loss_sum, "mean")) / self.progress.loss_count
        self.loss_sum, self.progress.loss_count = torch.zeros_like(self.loss_sum), 0
        return {
            "loss": loss,
            "learning_rate": learning_rate(self.settings, self.progress.step - 1),
            "gradient_norm": float(outcome.gradient_norm),
            "seconds": self.progress.seconds,
        }

    def _check_finite(self) -> None:
        worst = int(self._reduce(self.bad_step, "max"))
        if worst >= 0:
            raise UserError(
                f"The loss or its gradient stopped being finite at step {worst}; {newest(self.run)}. "
                "Try a lower --learning-rate in a new --out."
            )

    def _validate(self, sequences: Sequences) -> float:
        """Mean loss of the averaged weights on fixed sequences, times and noise."""
        total, count = self.step.validate(self._loader(sequences).validation(self.settings.validate_windows))
        return float(self._reduce(total, "sum")) / float(self._reduce(count, "sum"))

    def _sample(self) -> None:
        """Texts from the averaged weights, into the run's folder."""
        weights = self.step.averaged()
        if self.fabric.is_global_zero:
            texts = self.task.sample(weights, self.settings, self.fabric.device)
            if texts:
                self.run.write_samples(self.progress.step, texts)
        self.fabric.barrier()

    def _save(self) -> None:
        self._check_finite()
        progress = dataclasses.replace(
            self.progress, loss_sum=float(self._reduce(self.loss_sum, "mean")), micro_batch_size=self.micro_batch_size,
            device=self.fabric.device.type,
        )  # fmt: skip

        def about(folder: Path) -> None:
            self.task.write(folder)
            (folder / PROGRESS).write_text(json.dumps(dataclasses.asdict(progress)) + "\n", encoding="utf-8")

        (self._save_pieces if self.settings.sharded_checkpoints else self._save_whole)(about)
        self.fabric.barrier()

    def _save_whole(self, about: Callable[[Path], None]) -> None:
        averaged, training = self.step.averaged(), self.step.training()

        def fill(folder: Path) -> None:
            write_tensors(averaged, folder / WEIGHTS)
            write_tensors(training, folder / TRAINING)
            about(folder)

        if self.fabric.is_global_zero:
            checkpoint.write(self.run.checkpoints, self.progress.step, fill, self.settings.keep)

    def _save_pieces(self, about: Callable[[Path], None]) -> None:
        """Each process its own; the first one lets the checkpoint appear when all of them are on the disk."""
        part, parts, first = self.fabric.global_rank, self.fabric.world_size, self.fabric.is_global_zero
        folder = checkpoint.place_aside(self.run.checkpoints, self.progress.step)
        if first:
            checkpoint.begin(self.run.checkpoints, self.progress.step)
        self.fabric.barrier()
        both = dict(zip((WEIGHTS, TRAINING), self.step.pieces(), strict=True))
        files = [pieces.write(folder / name, part, parts) for name, pieces in both.items()]
        hashes = [checkpoint.kept(file) for file in files]
        known = self._from_all(dict(zip((file.name for file in files), hashes, strict=True)))
        if first:
            for name, pieces in both.items():
                pieces.write_index(folder / name, parts)
            about(folder)
            checkpoint.complete(folder, self.settings.keep, known)

    def _from_all(self, mine: dict[str, str]) -> dict[str, str]:
        """What each process knows, in one."""
        if self.fabric.world_size == 1:
            return mine
        found: list[dict[str, str]] = [{}] * self.fabric.world_size
        all_gather_object(found, mine)
        return {name: value for one in found for name, value in one.items()}

    def _restore(self, display: Display) -> None:
        """Continue from the newest intact checkpoint, if there is one."""
        folder = next(checkpoint.intact(self.run.checkpoints, display.say), None)
        self.fabric.barrier()
        if folder is None:
            return
        self.progress = Progress.read(folder / PROGRESS)
        self.loss_sum.fill_(self.progress.loss_sum)
        self.step.restore(self.progress.step, open_weights(folder / WEIGHTS), open_weights(folder / TRAINING))
        if not self._finished():
            display.say(f"Continuing {self.run.folder} from step {self.progress.step}.")

    def _loader(self, sequences: Sequences) -> ShardedLoader:
        fabric, settings = self.fabric, self.settings
        return ShardedLoader(
            sequences=sequences,
            batch_size=settings.batch_size,
            micro_batch_size=self.micro_batch_size,
            seed=settings.seed,
            rank=fabric.global_rank,
            world=fabric.world_size,
            device=fabric.device,
        )

    def _reduce(self, tensor: Tensor, how: str) -> Tensor:
        reduced = self.fabric.all_reduce(tensor.clone(), reduce_op=how)
        assert isinstance(reduced, Tensor)
        return reduced

    @property
    def length(self) -> int:
        """Tokens in a sequence."""
        return self.sequences.length

    def _summary(self) -> str:
        settings, fabric = self.settings, self.fabric
        where = f"{fabric.world_size} x {fabric.device.type}" if fabric.world_size > 1 else fabric.device.type
        return (
            f"{self.task.about}, {self.size / 1e6:.1f}M parameters, "
            f"{self.sequences.size}; {settings.steps} steps of {settings.batch_size} x "
            f"{self.length} tokens on {where}, into {settings.out}"
        )
