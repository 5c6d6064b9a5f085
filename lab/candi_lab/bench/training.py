"""The training step: ours against the plain reference, CANDI against MDLM, one idea at a time, and how it grows."""

import dataclasses
import tempfile
import warnings
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch._dynamo.utils import counters

from candi.base.machine import fresh
from candi.base.rng import Rng
from candi.data.batches import Windows
from candi.data.store import Joined
from candi.diffusion.methods import CandiSettings, MethodSettings
from candi.diffusion.spaces import Projected
from candi.nets.dit import DiTSettings
from candi.nets.fp8 import eight_bit
from candi.nets.trunk import TrunkSettings, parameter_count
from candi.training.devices import connect
from candi.training.loader import ShardedLoader
from candi.training.objective import DenoisingObjective
from candi.training.settings import TrainSettings
from candi.training.step import TrainStep
from candi_lab.bench.ablations import ABLATIONS, Ablation
from candi_lab.bench.measure import Measured, matmul_rate, measure, rate
from candi_lab.bench.profile import shares
from candi_lab.bench.reference import Plain, PlainTraining
from candi_lab.bench.report import Report
from candi_lab.bench.settings import BenchSettings


def bench_train(settings: BenchSettings) -> Report:
    report = Report.of(settings)
    peak = matmul_rate(settings.target, settings.dtype)
    report.find("matrix product, TFLOP/s", peak / 1e12)
    usual = {"paper": (16, 128), "small": (8,), "toy": (2,)}[settings.scale]
    for batch in settings.batches(*usual):
        _methods(settings, report, batch, peak, _kept(batch))
    first = settings.batches(*usual)[0]
    _gram(settings, report, settings.batches(*usual)[-1])
    _plain(settings, report, first)
    if settings.growth:
        _growth(settings, report, first)
    if settings.ablation:
        _ablations(settings, report, first)
    report.show()
    return report


@dataclasses.dataclass
class Trainer:
    """A training step and its batches: one call is one step of real training, on tokens drawn at random."""

    trunk: TrunkSettings
    vocab_size: int
    length: int
    batch_size: int
    device: torch.device
    method: str = "candi"
    options: MethodSettings | None = None
    compile: bool = False
    keep_activations: float = 0.85
    ablation: Ablation | None = None
    precision: Literal["auto", "fp8-mixed"] = "auto"
    deterministic: bool = False

    def __post_init__(self) -> None:
        without = self.ablation or Ablation("nothing")
        compile = self.compile and not without.eager
        settings = TrainSettings(
            data="", out=Path(tempfile.gettempdir()), method=self.method, settings=self.options, model=self.trunk,
            length=self.length, batch_size=self.batch_size, devices=1, compile=compile,
            keep_activations=self.keep_activations, steps=10**6,
            deterministic=self.deterministic or without.deterministic,
            device="cuda" if self.device.type == "cuda" else "cpu", precision=self.precision,
            trunk="dit" if isinstance(self.trunk, DiTSettings) else "transformers",
        )  # fmt: skip
        fabric = connect(settings)
        fabric.launch()
        torch.manual_seed(0)
        self.denoiser = without.denoiser.build(settings.model_config(self.vocab_size))
        if compile:
            torch._functorch.config.activation_memory_budget = self.keep_activations
        if self.precision == "fp8-mixed":
            eight_bit(self.denoiser.trunk)
        objective = DenoisingObjective(self.denoiser, compile=compile)
        self.train_step = TrainStep(self.denoiser, objective, settings, fabric, without.optimizer)
        tokens = np.random.default_rng(0).integers(0, self.vocab_size, 64 * self.length * self.batch_size)
        windows = Windows(Joined([tokens.astype(np.uint32)]), self.length, 0)
        self.loader = ShardedLoader(windows, self.batch_size, self.batch_size, 0, 0, 1, fabric.device)
        self.step = 0

    def __call__(self) -> None:
        self.train_step.update(self.step, self.loader.step(self.step))
        self.step += 1

    @property
    def sizes(self) -> dict[str, int]:
        return {"batch": self.batch_size, "length": self.length, "vocab_size": self.vocab_size}


def timed(trainer: Trainer, repeats: int) -> Measured:
    """The pace of many steps in a row, and the peak of memory of a few."""
    measured = measure(trainer, trainer.device, repeats, warm_up=3)
    pace = rate(trainer, trainer.device, 3 * repeats)
    return Measured(pace, measured.spread, measured.memory)


def model_flops(trunk: DiTSettings, vocab_size: int, length: int, corrupted_fraction: float = 0.5) -> float:
    """FLOPs of a training step for each token that no implementation can do without: forward and twice that back."""
    linear = 24 * trunk.width**2 * trunk.blocks
    attention = 4 * length * trunk.width * trunk.blocks
    return 3.0 * (linear + attention + 2 * corrupted_fraction * vocab_size * trunk.width)


def _kept(batch: int) -> float:
    """Small batches are for small memory, large ones for speed."""
    return 1.0 if batch >= 128 else 0.85


def _methods(settings: BenchSettings, report: Report, batch: int, peak: float, kept: float) -> None:
    def trainer_of(method: str) -> Trainer:
        sizes = settings.vocab_size, settings.positions, batch, settings.target
        return Trainer(settings.trunk, *sizes, method, compile=settings.compiled, keep_activations=kept)

    with fresh():
        trainer = trainer_of("candi")
        candi = report.add(f"candi, batch {batch}", timed(trainer, settings.repeats), **trainer.sizes)
        flops = model_flops(settings.trunk, settings.vocab_size, settings.positions) * candi["tokens_per_second"]
        report.find(f"share of the activations kept, batch {batch}", kept)
        report.find(f"model TFLOP/s, batch {batch}", flops / 1e12)
        report.find(f"share of the matrix product's rate, batch {batch}", flops / peak)
        _check_quiet(trainer, report, batch)
        if settings.target.type == "cuda":
            report.find(f"profile, batch {batch}", shares(trainer))
        del trainer
    with fresh():
        trainer = trainer_of("mdlm")
        mdlm = report.add(f"mdlm, batch {batch}", timed(trainer, settings.repeats), **trainer.sizes)
        del trainer
    ratio = candi["milliseconds"] / mdlm["milliseconds"]
    report.find(f"candi / mdlm, training step, batch {batch}", ratio)


def _check_quiet(trainer: Trainer, report: Report, batch: int) -> None:
    """Counts compilations and waits for the device in steps with other numbers of open positions: there are none."""
    before = counters["stats"]["unique_graphs"]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(10):
            if trainer.device.type == "cuda":
                torch.cuda.set_sync_debug_mode("warn")
            trainer()
            if trainer.device.type == "cuda":
                torch.cuda.set_sync_debug_mode("default")
    waits = [str(w.message) for w in warned if "called a synchronizing" in str(w.message)]
    report.find(f"compilations in 10 steps, batch {batch}", counters["stats"]["unique_graphs"] - before)
    report.find(f"synchronisations in 10 steps, batch {batch}", len(waits))


def _gram(settings: BenchSettings, report: Report, batch: int) -> None:
    """What noise with the covariance W^T W costs above isotropic noise: the factor, its gradient and two products."""
    with fresh():
        trainer = Trainer(
            settings.trunk, settings.vocab_size, settings.positions, batch, settings.target,
            options=CandiSettings(space="projected"), compile=settings.compiled, keep_activations=_kept(batch),
        )  # fmt: skip
        measured = timed(trainer, settings.repeats)
        report.add(f"candi, one-hot noise by its Gram factor, batch {batch}", measured, **trainer.sizes)
        factor = measure(lambda: _factored(trainer), settings.target, settings.repeats).seconds
        report.find(f"Gram factor and its gradient, share of a step, batch {batch}", factor / measured.seconds)


def _factored(trainer: Trainer) -> None:
    """The factor anew, and its part of the backward pass for one position."""
    space = trainer.denoiser.method.space
    assert isinstance(space, Projected)
    space.invalidate_caches()
    space.noise(torch.Size((1, 1)), Rng.from_seed(0, trainer.device)).sum().backward()
    space.embedding.weight.grad = None


def _plain(settings: BenchSettings, report: Report, batch: int) -> None:
    device = settings.target
    with fresh():
        torch.manual_seed(0)
        training = PlainTraining(Plain(settings.vocab_size, settings.trunk).to(device), device.type == "cuda")
        x0 = torch.randint(settings.vocab_size, (batch, settings.positions), device=device)
        measured = measure(lambda: training.step(x0), device, settings.repeats, warm_up=1)
        sizes = {"batch": batch, "length": settings.positions, "vocab_size": settings.vocab_size}
        report.add(f"plain reference, batch {batch}", measured, **sizes)
    ours = next(row for row in report.rows if row["what"] == f"candi, batch {batch}")
    report.find(f"plain reference / candi, batch {batch}", 1e3 * measured.seconds / ours["milliseconds"])


def _ablations(settings: BenchSettings, report: Report, batch: int) -> None:
    """Our path without one idea at a time: what each bought."""
    whole = next(row for row in report.rows if row["what"] == f"candi, batch {batch}")
    for one in ABLATIONS:
        if (one.on_cuda and settings.target.type != "cuda") or (one.eager and not settings.compiled):
            continue
        with fresh():
            try:
                trainer = Trainer(
                    settings.trunk, settings.vocab_size, settings.positions, batch, settings.target,
                    compile=settings.compiled, ablation=one,
                )  # fmt: skip
                measured = timed(trainer, settings.repeats)
            except torch.cuda.OutOfMemoryError:
                report.find(f"{one.name}: does not fit, batch {batch}", True)
                continue
            report.add(f"with {one.name}, batch {batch}", measured, **trainer.sizes)
            report.find(f"{one.name}: times slower, batch {batch}", 1e3 * measured.seconds / whole["milliseconds"])
    torch.use_deterministic_algorithms(False)


def _growth(settings: BenchSettings, report: Report, batch: int) -> None:
    """Not compiled, without dropout: so that every size takes seconds."""
    trunk = dataclasses.replace(settings.trunk, dropout=0.0)
    grown = []
    for vocab_size, length, size in settings.grown(batch):
        with fresh():
            trainer = Trainer(trunk, vocab_size, length, size, settings.target)
            parameters = parameter_count(trainer.denoiser)
            measured = timed(trainer, 2)
            row = report.add(
                f"growth: V {vocab_size:,}, length {length}, batch {size}", measured,
                parameters=parameters, **trainer.sizes,
            )  # fmt: skip
            if (length, size) == (settings.positions, batch):
                grown.append(row)
    slope = np.polyfit([r["parameters"] for r in grown], [1e9 * r["memory_gb"] for r in grown], 1)
    report.find("bytes of memory for each parameter that a larger vocabulary adds", float(slope[0]))
