"""What a run will need, measured: a few of its steps are made, and nothing is kept of them."""

import math
import time
from dataclasses import dataclass

from candi.base.machine import memory, memory_used
from candi.training.devices import connect
from candi.training.display import Display
from candi.training.fit import DenoiserTask, disk_errors, is_first_process, prepare
from candi.training.loop import Loop
from candi.training.run import Run
from candi.training.settings import TrainSettings

_SECONDS, _STEPS = 5.0, 20  # steps are timed for so long, or so many
_COPIES = 4  # of every weight in a checkpoint: itself, its average, two moments
_GIB, _MB = 2**30, 1e6


@dataclass(frozen=True)
class Estimate:
    """`first` and `each` are the seconds of the first step and of any later one; `memory` is bytes at the peak."""

    parameters: int
    first: float
    each: float
    memory: int
    memory_there: int
    checkpoint: int
    micro_batch_size: int

    def lines(self, settings: TrainSettings, size: str) -> str:
        tokens, steps = settings.batch_size * settings.length, settings.steps
        if settings.minutes is not None:
            steps = min(steps, max(1, math.ceil((60 * settings.minutes - self.first) / self.each) + 1))
        total = self.first + (steps - 1) * self.each
        return "\n".join([
            f"network     {self.parameters / 1e6:.1f}M parameters",
            f"data        {size}; {steps * tokens / 1e6:,.1f}M tokens will be seen",
            f"memory      {self.memory / _GIB:.1f} of {self.memory_there / _GIB:.1f} GiB at the peak, "
            f"{self.micro_batch_size} sequences at once",
            f"time        {self.each:.2f} s a step ({tokens / self.each:,.0f} tokens/s), the first {self.first:.1f} s; "
            f"{_duration(total)} for {steps:,} steps, validation and samples not counted",
            f"disk        {self.checkpoint / _MB:,.0f} MB a checkpoint, {settings.keep} kept",
        ])  # fmt: skip


def estimate(settings: TrainSettings) -> Estimate | None:
    """Print what the run will need. None for all processes but the first."""
    run, fabric = Run(settings.out), connect(settings)
    with disk_errors(run):
        if not is_first_process():
            fabric.launch()
            fabric.barrier()
        dataset, denoiser = prepare(settings)
        if is_first_process():
            fabric.launch()
            fabric.barrier()
        assert denoiser.config is not None
        task = DenoiserTask(denoiser, dataset.tokenizer, denoiser.config, settings.label_dropout)
        loop = Loop(task, dataset.train, None, settings, fabric, run)
        with Display(settings.steps, silent=not fabric.is_global_zero) as display:
            seconds = [_timed(loop, display)]
            # all processes share the first one's clock
            while fabric.broadcast(len(seconds) <= _STEPS and sum(seconds[1:]) < _SECONDS):
                seconds.append(_timed(loop, display))
    if not fabric.is_global_zero:
        return None
    each = sum(seconds[1:]) / len(seconds[1:])
    found = Estimate(loop.size, seconds[0], each, memory_used(fabric.device), memory(fabric.device),
                     4 * _COPIES * loop.size, loop.micro_batch_size)  # fmt: skip
    print(found.lines(settings, dataset.train.size))
    return found


def _timed(loop: Loop, display: Display) -> float:
    begun = time.monotonic()
    float(loop.update(display).loss)  # waits for the device
    return time.monotonic() - begun


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
