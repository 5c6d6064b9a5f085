"""What a run will need, measured: a few of its steps or parts of them are made, and nothing is kept of them."""

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from candi.base.errors import UserError
from candi.base.memory import gib, memory, memory_used
from candi.training.assumed import Devices
from candi.training.devices import accelerator, all_here, connect, on_each_node
from candi.training.display import Display
from candi.training.fit import DenoiserTask, disk_errors, prepare
from candi.training.loop import Loop, newest
from candi.training.run import Run
from candi.training.settings import TrainSettings
from candi.training.step import StepResult
from candi.training.team import together

_SECONDS, _STEPS = 5.0, 20  # steps are timed for so long, or so many
_PART_SECONDS = 2.0  # of a long step only a part is timed
_COPIES = 4  # of every weight in a checkpoint: itself, its average, two moments
_MB = 1e6


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
    devices: int = 1

    def needs(self, settings: TrainSettings) -> str:
        """Memory and time."""
        tokens, steps = settings.batch_size * settings.length, settings.steps
        if settings.minutes is not None:
            steps = min(steps, max(1, math.ceil((60 * settings.minutes - self.first) / self.each) + 1))
        total = self.first + (steps - 1) * self.each
        return "\n".join([
            f"memory      {gib(self.memory)} of {gib(self.memory_there)} at the peak"
            f"{f' of each of {self.devices} devices' if self.devices > 1 else ''}, "
            f"{self.micro_batch_size} sequences at once",
            f"time        {self.each:.2f} s a step ({tokens / self.each:,.0f} tokens/s), the first {self.first:.1f} s; "
            f"{_duration(total)} for {steps:,} steps ({steps * tokens / 1e6:,.1f}M tokens), validation and samples not "
            "counted",
        ])  # fmt: skip


def estimate(settings: TrainSettings, start: Path | None = None) -> Estimate | None:
    """Print what the run will need, each thing as soon as it is known. None for all processes but the first.

    Devices that are not here are told of by one that is: with its share of a step, the rest being assumed.
    """
    here = all_here(settings)
    measured = settings if here else _one_of(settings)
    run, fabric = Run(settings.out), connect(measured)
    with together(fabric, measured.nodes, lambda: newest(run)) as team, disk_errors(run):
        made = team.in_turn(lambda: prepare(settings, start))
        dataset, denoiser = made.dataset, made.denoiser
        team.all_ready()
        fabric.launch()
        assert denoiser.config is not None
        task = DenoiserTask(denoiser, dataset.tokenizer, denoiser.config, settings.label_dropout, made.rates)
        loop = Loop(task, dataset.train, None, measured, fabric, run)
        checkpoint = 4 * _COPIES * loop.size
        if fabric.is_global_zero:
            print(f"network     {loop.size / 1e6:.1f}M parameters", flush=True)
            print(f"data        {dataset.train.size}", flush=True)
            print(f"disk        {checkpoint / _MB:,.0f} MB a checkpoint, {settings.keep} kept", flush=True)
        # no bar: in a terminal it would take over what is printed
        display = Display(settings.steps, silent=not fabric.is_global_zero)
        display.say("Measuring the memory that a step needs.")
        begun = memory_used(fabric.device)
        need = loop.fit_to_memory(display)
        display.say("Timing steps.")
        first, each = _whole_steps(loop, display) if need is None else _parts_of_steps(loop)
        held = memory_used(fabric.device)
        most = held if need is None else max(held, begun + need.of(loop.micro_batch_size))
        most = int(fabric.all_reduce(torch.tensor(float(most), device=fabric.device), reduce_op="max"))  # type: ignore[arg-type]
    if not fabric.is_global_zero:
        return None
    devices = fabric.world_size
    if not here:
        units = [sum(p.numel() for p in unit.parameters()) for unit in denoiser.trunk.sharding_units()]
        devices = settings.batch_size // measured.batch_size
        largest = max([loop.size - sum(units), *units])
        others = Devices(devices, settings.strategy == "fsdp", loop.size, largest)
        most, first, each = others.memory(most), first + others.seconds, each + others.seconds
        print(f"devices     {others.said(measured.batch_size)}")
    elif devices > 1:
        print(f"devices     {devices}, all measured: memory is that of the fullest, time that of a step of them all")
    found = Estimate(loop.size, first, each, most, memory(fabric.device), checkpoint, loop.micro_batch_size, devices)
    print(found.needs(settings))
    return found


def _one_of(settings: TrainSettings) -> TrainSettings:
    """One device with its share of a step."""
    world = on_each_node(settings, accelerator(settings)) * settings.nodes
    if settings.batch_size % world:
        raise UserError(f"A batch of {settings.batch_size} cannot be shared by {world} devices; make it a multiple.")
    share = settings.batch_size // world
    alone = {"devices": 1, "nodes": 1, "strategy": "auto", "sharded_checkpoints": False}
    return dataclasses.replace(settings, **alone, batch_size=share)  # type: ignore[arg-type]


def _whole_steps(loop: Loop, display: Display) -> tuple[float, float]:
    """Seconds of the first step and of a later one."""
    seconds = [_timed(lambda: loop.update(display))]
    # all processes share the first one's clock
    while loop.fabric.broadcast(len(seconds) <= _STEPS and sum(seconds[1:]) < _SECONDS):
        seconds.append(_timed(lambda: loop.update(display)))
    return seconds[0], sum(seconds[1:]) / len(seconds[1:])


def _parts_of_steps(loop: Loop) -> tuple[float, float]:
    """The same from the middle of a step, where its times are those of the whole: on a CPU a step may take minutes."""
    micro = loop.micro_batch_size
    warm_up, one = _part(loop, 1, 1), _part(loop, 1, 1)
    sequences = min(loop.share, max(1, int(_PART_SECONDS / one)))
    size = max(size for size in range(1, min(micro, sequences) + 1) if micro % size == 0)
    count = max(1, sequences // size) if size == micro else 1
    seconds = [_part(loop, size, count)]
    while len(seconds) <= _STEPS and sum(seconds[1:]) < _SECONDS:
        seconds.append(_part(loop, size, count))
    each = sum(seconds[1:]) / len(seconds[1:]) * loop.share / (size * count)
    return each + max(0.0, warm_up - one), each


def _part(loop: Loop, size: int, count: int) -> float:
    """Seconds of so many micro-batches of a step."""
    parts = loop.parts(size)
    start = (len(parts) - count) // 2
    return _timed(lambda: loop.step.update(0, parts[start : start + count]))


def _timed(update: Callable[[], StepResult]) -> float:
    begun = time.monotonic()
    float(update().loss)  # waits for the device
    return time.monotonic() - begun


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
