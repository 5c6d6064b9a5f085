"""How close to what the chip can do: the numbers that have a bar, each beside it.

A run that is stopped goes on where it was: what has its row is not measured again. On a GPU at the paper's size;
elsewhere at toy sizes, which show that everything runs and nothing more.
"""

import dataclasses
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from candi.base.machine import fresh
from candi.nets.dit import DiTSettings
from candi.nets.fp8 import by_row
from candi_lab.bench.measure import Measured, matmul_rate, measure
from candi_lab.bench.profile import profiled
from candi_lab.bench.report import Report
from candi_lab.bench.sampling import Sampler
from candi_lab.bench.settings import BenchSettings
from candi_lab.bench.training import Trainer, model_flops, timed

BARS = {  # tokens a second; of the molecule model milliseconds a step
    "training, batch 128, bf16": 640_000,
    "training, batch 128, 8-bit products": 720_000,
    "training, batch 16, repeatable": 480_000,
    "sampling, 16 steps, approximate": 150_000,
    "sampling, 16 steps, exact": 130_000,
    "autoregressive, batch 64": 40_000,
    "autoregressive, batch 1": 700,
    "molecule model, training step": 6,
}
_QM9 = DiTSettings(width=192, blocks=6, heads=6, conditioning=32, convolution=7)  # the preset's, and its batch of 512


def bench_limits(settings: BenchSettings) -> Report:
    report, device = Report.of(settings), settings.target
    report.resume()
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    report.find("matrix product, TFLOP/s", matmul_rate(device, settings.dtype) / 1e12)
    if device.type == "cuda":
        report.find("8-bit matrix product, TFLOP/s", _rate_of_8_bits(device) / 1e12)
    for names, call in _measurements(settings, report):
        missing = set(names) - {row["what"] for row in report.rows}
        if not missing or not any(map(settings.wants, names)):
            continue
        report.findings.pop(f"failed, {names[0]}", None)
        try:
            with fresh():
                torch.use_deterministic_algorithms(False)  # one of them asks for it
                call()
        except Exception:  # the others are measured all the same, and the failure is written down
            report.find(f"failed, {names[0]}", traceback.format_exc().strip().splitlines()[-1])
            traceback.print_exc()
    report.show()
    return report


def _measurements(settings: BenchSettings, report: Report) -> Iterator[tuple[list[str], Callable[[], None]]]:
    """Names of rows, and what measures them."""
    paper = settings.scale == "paper"
    names = list(BARS)
    large, small = (128, 16) if paper else (4, 2)
    train = partial(_train, settings, report)
    yield names[:1], lambda: train(names[0], large, keep_activations=1.0)
    if settings.target.type == "cuda":
        yield names[1:2], lambda: train(names[1], large, keep_activations=1.0, precision="fp8-mixed")
    yield names[2:3], lambda: train(names[2], small, deterministic=True)
    yield names[3:5], lambda: _sample(settings, report, 64 if paper else 2)
    yield names[5:6], lambda: _left_to_right(settings, report, 64 if paper else 2, names[5])
    yield names[6:7], lambda: _left_to_right(settings, report, 1, names[6])
    yield names[7:8], lambda: _molecules(settings, report, names[7], 512 if paper else 2)


def _train(settings: BenchSettings, report: Report, name: str, batch: int, **how: Any) -> None:
    length, vocab = settings.positions, settings.vocab_size
    trainer = Trainer(settings.trunk, vocab, length, batch, settings.target, compile=settings.compiled, **how)
    measured = timed(trainer, settings.repeats)
    report.add(name, measured, **trainer.sizes)
    flops = model_flops(settings.trunk, vocab, length) * batch * length
    report.find(f"model TFLOP/s, {name}", flops / measured.seconds / 1e12)
    _beside(settings, report, name, batch * length / measured.seconds)
    _profile(settings, report, name, trainer)


def _sample(settings: BenchSettings, report: Report, batch: int) -> None:
    sizes = settings.vocab_size, settings.positions, batch, settings.target
    sampler = Sampler(settings.trunk, *sizes, "candi", settings.compiled)
    for inference in ("approximate", "exact"):
        call = partial(sampler, 16, inference=inference)
        measured = measure(call, settings.target, settings.repeats, warm_up=1)
        name = f"sampling, 16 steps, {inference}"
        report.add(name, measured, steps=16, **sampler.sizes)
        _beside(settings, report, name, batch * settings.positions / measured.seconds)
        _profile(settings, report, name, call, 1)


def _left_to_right(settings: BenchSettings, report: Report, batch: int, name: str) -> None:
    sizes = settings.vocab_size, settings.positions, batch, settings.target
    sampler = Sampler(settings.trunk, *sizes, "ar", settings.compiled)
    measured = measure(partial(sampler, settings.positions), settings.target, 2, warm_up=1)
    report.add(name, measured, **sampler.sizes)
    _beside(settings, report, name, batch * settings.positions / measured.seconds)
    _profile(settings, report, name, partial(sampler, settings.positions), 1)


def _molecules(settings: BenchSettings, report: Report, name: str, batch: int) -> None:
    trunk = _QM9 if settings.scale == "paper" else dataclasses.replace(settings.trunk, convolution=7)
    trainer = Trainer(trunk, 23, 32, batch, settings.target, compile=settings.compiled, deterministic=True)
    measured = timed(trainer, 10 * settings.repeats)
    report.add(name, measured, **trainer.sizes)
    _beside(settings, report, name, 1e3 * measured.seconds)
    _profile(settings, report, name, trainer, 20)


def _profile(settings: BenchSettings, report: Report, name: str, call: Callable[[], object], calls: int = 6) -> None:
    if settings.target.type == "cuda":
        kinds, kernels = profiled(call, calls)
        report.find(f"profile, {name}", kinds)
        report.find(f"longest kernels in ms, {name}", kernels)


def _beside(settings: BenchSettings, report: Report, name: str, found: float) -> None:
    """What was found, as a share of the bar; of a time the other way round, so that 1 is met in any case."""
    if settings.scale == "paper":
        bar = BARS[name]
        report.find(f"share of the bar, {name}", bar / found if name.startswith("molecule") else found / bar)


def _rate_of_8_bits(device: torch.device) -> float:
    """FLOP/s of a large product of 8-bit numbers that are scaled by row."""
    size = 8192
    (a, a_scale), (b, b_scale) = (by_row(torch.randn(size, size, device=device)) for _ in range(2))

    def call() -> torch.Tensor:
        return torch._scaled_mm(a, b.t(), a_scale, b_scale.t(), out_dtype=torch.bfloat16, use_fast_accum=True)

    found: Measured = measure(call, device, repeats=10, warm_up=3)
    return 2 * size**3 / found.seconds
