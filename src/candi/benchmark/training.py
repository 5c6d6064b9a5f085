"""The training step: ours against the plain reference, CANDI against MDLM, one idea at a time, and how it grows."""

import dataclasses
import importlib.util
import tempfile
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.nn import functional as F

from candi.benchmark.measure import Measured, matmul_rate, measure, rate
from candi.benchmark.profile import shares
from candi.benchmark.reference import Plain, PlainTraining
from candi.benchmark.report import Report
from candi.benchmark.settings import BenchSettings
from candi.data.batches import Windows
from candi.machine import fresh
from candi.methods import CandiSettings, MethodSettings
from candi.nets import head, linear_nll, places
from candi.nets.denoiser import Denoiser
from candi.nets.transformer import TrunkSettings
from candi.rng import Rng
from candi.spaces import Projected
from candi.training.devices import connect
from candi.training.feed import Feed
from candi.training.learner import Learner
from candi.training.settings import TrainSettings

_TORCHS = (
    importlib.util.find_spec("torch.nn.modules.linear_cross_entropy") is not None
)  # newer than the oldest torch we take


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
        _ablation(settings, report, first)
    report.show()
    return report


@dataclasses.dataclass
class Trainer:
    """A learner and its batches: one call is one step of real training, on tokens drawn at random."""

    trunk: TrunkSettings
    vocab_size: int
    length: int
    batch: int
    device: torch.device
    method: str = "candi"
    options: MethodSettings | None = None
    compile: bool = False
    deterministic: bool = False
    keep_activations: float = 0.85

    def __post_init__(self) -> None:
        folder = Path(tempfile.gettempdir())
        settings = TrainSettings(
            data="", out=folder, method=self.method, settings=self.options, model=self.trunk, length=self.length,
            batch=self.batch, devices=1, compile=self.compile, keep_activations=self.keep_activations,
            deterministic=self.deterministic, steps=10**6, accelerator="cuda" if self.device.type == "cuda" else "cpu",
        )  # fmt: skip
        fabric = connect(settings)
        fabric.launch()
        assert settings.settings is not None
        torch.manual_seed(0)
        denoiser = Denoiser.build(self.vocab_size, self.trunk, settings.settings)
        self.learner = Learner(denoiser, settings, fabric)
        tokens = np.random.default_rng(0).integers(0, self.vocab_size, 64 * self.length * self.batch)
        windows = Windows(tokens.astype(np.int32), self.length, 0)
        self.feed = Feed(windows, self.batch, self.batch, 0, 0, 1, fabric.device)
        self.step = 0

    def __call__(self) -> None:
        self.learner.update(self.step, self.feed.step(self.step))
        self.step += 1

    @property
    def sizes(self) -> dict[str, int]:
        return {"batch": self.batch, "length": self.length, "vocab_size": self.vocab_size}


def timed(trainer: Trainer, repeats: int) -> Measured:
    """The pace of many steps in a row, and the peak of memory of a few."""
    measured = measure(trainer, trainer.device, repeats, warm_up=3)
    pace = rate(trainer, trainer.device, 3 * repeats)
    return Measured(pace, measured.spread, measured.memory)


def model_flops(trunk: TrunkSettings, vocab_size: int, length: int, open_share: float = 0.5) -> float:
    """FLOPs of a training step for each token that no implementation can do without: forward and twice that back."""
    linear = 24 * trunk.width**2 * trunk.blocks
    attention = 4 * length * trunk.width * trunk.blocks
    return 3.0 * (linear + attention + 2 * open_share * vocab_size * trunk.width)


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
        _quietness(trainer, report, batch)
        if settings.target.type == "cuda":
            report.find(f"profile, batch {batch}", shares(trainer))
        del trainer
    with fresh():
        trainer = trainer_of("mdlm")
        mdlm = report.add(f"mdlm, batch {batch}", timed(trainer, settings.repeats), **trainer.sizes)
        del trainer
    ratio = candi["milliseconds"] / mdlm["milliseconds"]
    report.find(f"candi / mdlm, training step, batch {batch}", ratio)


def _quietness(trainer: Trainer, report: Report, batch: int) -> None:
    """Steps with other numbers of open positions compile nothing anew, and nobody waits for the device in them."""
    before = counters["stats"]["unique_graphs"]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(10):
            if trainer.device.type == "cuda":
                torch.cuda.set_sync_debug_mode("warn")
            trainer()
            if trainer.device.type == "cuda":
                torch.cuda.set_sync_debug_mode("default")
    waits = [str(w.message) for w in told if "called a synchronizing" in str(w.message)]
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
    space = trainer.learner.method.space
    assert isinstance(space, Projected)
    space.weights_changed()
    space.noise(torch.Size((1, 1)), Rng.from_seed(0, trainer.device)).sum().backward()
    space.codebook.weight.grad = None


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


def _ablation(settings: BenchSettings, report: Report, batch: int) -> None:
    """Our path without one idea at a time: what each bought."""
    cuda = settings.target.type == "cuda"
    ideas: dict[str, tuple[Callable[[ExitStack], None], dict[str, Any]]] = {
        "head at every position": (_everywhere, {}),
        "dense cross-entropy": (_dense, {}),
        "optimizer parameter by parameter": (_slow_optimizer, {}),
    }
    if cuda:
        ideas |= {
            "vocabulary of odd size": (_odd, {}),
            "no kernels of our own": (_without_kernels, {}),
            "counting open positions": (_counting, {}),
            "repeatable to the bit": (_nothing, {"deterministic": True}),
        }
    if settings.compiled:
        ideas["trunk not compiled"] = (_nothing, {"compile": False})
    if _TORCHS:
        ideas["torch's linear_cross_entropy"] = (_torchs, {})
    whole = next(row for row in report.rows if row["what"] == f"candi, batch {batch}")
    for name, (change, other) in ideas.items():
        with fresh(), ExitStack() as changes:
            change(changes)
            options: dict[str, Any] = {"compile": settings.compiled} | other
            try:
                trainer = Trainer(
                    settings.trunk, settings.vocab_size, settings.positions, batch, settings.target, **options
                )
                measured = timed(trainer, settings.repeats)
            except torch.cuda.OutOfMemoryError:
                report.find(f"{name}: does not fit, batch {batch}", True)
                continue
            report.add(f"with {name}, batch {batch}", measured, **trainer.sizes)
            report.find(f"{name}: times slower, batch {batch}", 1e3 * measured.seconds / whole["milliseconds"])
    torch.use_deterministic_algorithms(False)


def _growth(settings: BenchSettings, report: Report, batch: int) -> None:
    """Not compiled, without dropout: so that every size takes seconds."""
    trunk = dataclasses.replace(settings.trunk, dropout=0.0)
    grown = []
    for vocab_size, length, size in settings.grown(batch):
        with fresh():
            trainer = Trainer(trunk, vocab_size, length, size, settings.target)
            parameters = sum(p.numel() for p in trainer.learner.parameters)
            measured = timed(trainer, 2)
            row = report.add(
                f"growth: V {vocab_size:,}, length {length}, batch {size}", measured,
                parameters=parameters, **trainer.sizes,
            )  # fmt: skip
            if (length, size) == (settings.positions, batch):
                grown.append(row)
    slope = np.polyfit([r["parameters"] for r in grown], [1e9 * r["memory_gb"] for r in grown], 1)
    report.find("bytes of memory for each parameter that a larger vocabulary adds", float(slope[0]))


def _nothing(changes: ExitStack) -> None:
    pass


def _odd(changes: ExitStack) -> None:
    changes.enter_context(patch.object(linear_nll, "_EVEN", 1))


def _without_kernels(changes: ExitStack) -> None:
    for module in (linear_nll, head):
        changes.enter_context(patch.object(module, "fused", lambda rows: False))


def _counting(changes: ExitStack) -> None:
    changes.enter_context(patch("candi.nets.prediction.Prediction.within", lambda self, room: self))


def _everywhere(changes: ExitStack) -> None:
    class Everywhere(places.Places):
        def __init__(self, open: Tensor, room: int | None = None) -> None:
            super().__init__(torch.ones_like(open), open.numel())

    changes.enter_context(patch("candi.nets.prediction.Places", Everywhere))


def _dense(changes: ExitStack) -> None:
    def nll(self: head.Head, rows: Tensor, targets: Tensor, vocab_size: int) -> Tensor:
        return F.cross_entropy(self(rows).float(), targets, reduction="none")

    changes.enter_context(patch.object(head.Head, "nll", nll))


def _torchs(changes: ExitStack) -> None:
    def nll(self: head.Head, rows: Tensor, targets: Tensor, vocab_size: int) -> Tensor:
        rows, weight, bias = self._ready(rows)
        return F.linear_cross_entropy(  # type: ignore[attr-defined]
            rows, weight, targets, linear_bias=bias, reduction="none", options=torch.nn.LinearCrossEntropyOptions()
        )

    changes.enter_context(patch.object(head.Head, "nll", nll))


def _slow_optimizer(changes: ExitStack) -> None:
    def adamw(parameters: Any, settings: TrainSettings, device: torch.device) -> torch.optim.AdamW:
        return torch.optim.AdamW(parameters, lr=settings.learning_rate, foreach=False)

    changes.enter_context(patch("candi.training.learner.adamw", adamw))
