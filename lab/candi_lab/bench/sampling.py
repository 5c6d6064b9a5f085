"""Sampling: ours against the plain reference, CANDI against MDLM, diffusion against a transformer with a KV cache."""

import dataclasses
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from candi.base.machine import fresh
from candi.base.rng import Rng
from candi.base.types import Mask
from candi.diffusion.guidance.base import Guidance
from candi.diffusion.methods import METHODS
from candi.diffusion.open_positions import OpenPositions
from candi.diffusion.prediction import Prediction
from candi.diffusion.sampler import Denoise, SampleStep, Step, bind_step, last_state, sample
from candi.diffusion.state import State
from candi.nets.causal import KVCachedDenoiser, sample_causally
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiTSettings
from candi.nets.engine import Engine
from candi.views.plots import save
from candi_lab.bench.measure import matmul_rate, measure
from candi_lab.bench.plots import speed
from candi_lab.bench.profile import shares
from candi_lab.bench.reference import Plain
from candi_lab.bench.report import Report
from candi_lab.bench.settings import BenchSettings

_LINE = "candi, approximate"  # drawn over the steps
AUTOREGRESSIVE = "autoregressive"


def bench_sample(settings: BenchSettings) -> Report:
    device = settings.target
    report = Report.of(settings)
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    report.find("matrix product, TFLOP/s", matmul_rate(device, settings.dtype) / 1e12)
    batch = settings.batches({"paper": 64, "small": 8, "toy": 2}[settings.scale])[0]
    _compare(settings, report, batch)
    _plain(settings, report, batch)
    _autoregressive(settings, report, batch)
    if settings.growth:
        _growth(settings, report, batch)
    _long(settings, report, batch)
    save(speed(report.rows, report.machine), settings.out.with_suffix(""))
    report.show()
    return report


class Sampler:
    """A network with random weights, and its trajectory from noise to tokens."""

    def __init__(
        self, trunk: DiTSettings, vocab_size: int, length: int, batch_size: int, device: torch.device, method: str,
        compile: bool,
    ) -> None:  # fmt: skip
        torch.manual_seed(0)
        config = ModelConfig(vocab_size, length, method, METHODS[method](), trunk)
        self.denoiser = Denoiser.build(config).to(device).eval()
        nn.init.normal_(self.denoiser.head.weight, std=0.05)
        engine = Engine(self.denoiser, compile) if device.type == "cuda" else None
        self.engine = engine
        self.network: Denoise = engine or self.denoiser
        self.length, self.batch_size, self.device, self.vocab_size = length, batch_size, device, vocab_size

    @torch.no_grad()
    def __call__(self, steps: int, guide: Guidance | None = None, /, **options: str) -> Tensor:
        method = self.denoiser.method
        rng = Rng.per_row(range(self.batch_size), self.device)
        x0 = torch.zeros(self.batch_size, self.length, dtype=torch.long, device=self.device)
        state = method.prior(x0, torch.zeros_like(x0, dtype=torch.bool), rng)
        denoise, step = self.network, bind_step(method, **options)
        if method.causal:
            return method.decode(last_state(self._left_to_right(step, state, rng)))
        if guide is not None:
            denoise, step = guide.over(method, denoise, step)
        return method.decode(last_state(sample(denoise, step, state, method.timesteps(steps, self.length), rng)))

    def _left_to_right(self, step: Step, state: State, rng: Rng) -> Iterator[SampleStep]:
        """With a cache for this trajectory."""
        cache = self.denoiser.trunk.new_cache()
        assert cache is not None
        network = KVCachedDenoiser(self.denoiser, cache, self.engine)
        times = self.denoiser.method.timesteps(1, self.length)
        if self.engine is None:
            return sample(network, step, state, times, rng)
        return sample_causally([network], network, step, state, times, rng)

    def draw_everywhere(self) -> None:
        """From now on draw at every open position, whatever the step needs."""
        network = self.network

        def denoise(state: State) -> Prediction:
            found = network(state)
            return _DrawnEverywhere(found.features, found.readout, found.vocab_size, found.open)

        self.network = denoise

    @property
    def sizes(self) -> dict[str, int]:
        return {"batch": self.batch_size, "length": self.length, "vocab_size": self.vocab_size}


class _DrawnEverywhere(Prediction):
    def at(self, where: Mask | OpenPositions) -> Prediction:
        return self


def _compare(settings: BenchSettings, report: Report, batch: int) -> None:
    def at_16(sampler: Sampler, kind: str, **options: str) -> float:
        seconds = _timed(sampler, report, kind, 16, settings.repeats, **options)
        if settings.target.type == "cuda":
            report.find(f"profile, {kind}", shares(partial(sampler, 16, **options), 1))
        return seconds

    def line(sampler: Sampler, kind: str, **options: str) -> None:
        for steps in (8, 32, 64, 128):
            if steps <= settings.most_steps:
                _timed(sampler, report, kind, steps, 1, **options)

    with fresh():
        sampler = _sampler(settings, batch, "candi")
        approximate = at_16(sampler, _LINE, inference="approximate")
        line(sampler, _LINE, inference="approximate")
        exact = at_16(sampler, "candi, exact", inference="exact")
        del sampler
    with fresh():
        sampler = _sampler(settings, batch, "mdlm")
        mdlm = at_16(sampler, "mdlm")
        line(sampler, "mdlm")
        sampler.draw_everywhere()
        everywhere = at_16(sampler, "mdlm, drawing at every open position")
        del sampler
    report.find("candi exact / approximate, tokens per second at 16 steps", approximate / exact)
    report.find("candi approximate / mdlm, sampling step at 16 steps", approximate / mdlm)
    report.find("candi approximate / mdlm drawing at every open position", approximate / everywhere)


def _sampler(settings: BenchSettings, batch: int, method: str) -> Sampler:
    sizes = settings.vocab_size, settings.positions, batch, settings.target
    return Sampler(settings.trunk, *sizes, method, settings.compiled)


def _long(settings: BenchSettings, report: Report, batch: int) -> None:
    """Last, because they take longest."""
    counts = [steps for steps in (256, 512, 1024) if steps <= settings.most_steps]
    if counts:
        with fresh():
            sampler = _sampler(settings, batch, "candi")
            sampler(1, inference="approximate")
            for steps in counts:
                _timed(sampler, report, _LINE, steps, 1, inference="approximate")
            del sampler


def _timed(sampler: Sampler, report: Report, kind: str, steps: int, repeats: int, **options: str) -> float:
    measured = measure(lambda: sampler(steps, **options), sampler.device, repeats, warm_up=1 if steps <= 64 else 0)
    report.add(f"{kind}, {steps} steps", measured, kind=kind, steps=steps, **sampler.sizes)
    return measured.seconds


def _plain(settings: BenchSettings, report: Report, batch: int) -> None:
    """At a quarter of the batch: its states of size [B, L, V] would not fit otherwise."""
    device, batch = settings.target, max(1, batch // 4)
    ours = {row["kind"]: row["tokens_per_second"] for row in report.rows if row.get("steps") == 16}
    for exact in (False, True):
        with fresh():
            torch.manual_seed(0)
            model = Plain(settings.vocab_size, dataclasses.replace(settings.trunk, dropout=0.0)).to(device).eval()

            def call(model: Plain = model, exact: bool = exact) -> Tensor:
                with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                    return model.sample(batch, settings.positions, 16, exact)

            kind = f"plain reference, {'exact' if exact else 'approximate'}"
            measured = measure(call, device, 1, warm_up=1 if device.type == "cuda" else 0)
            sizes = {"batch": batch, "length": settings.positions, "vocab_size": settings.vocab_size}
            row = report.add(f"{kind}, 16 steps", measured, kind=kind, steps=16, **sizes)
        pace = ours[f"candi, {'exact' if exact else 'approximate'}"] / row["tokens_per_second"]
        report.find(f"candi / {kind}, tokens per second at 16 steps", pace)


def _autoregressive(settings: BenchSettings, report: Report, batch: int) -> None:
    """Left to right with a cache, in every way there is here, warm and repeated: diffusion is held against the fastest.

    A transformer of GPT-2's make with random weights, with a cache that grows and with one of fixed size, and our own.
    """
    sizes = {"batch": batch, "length": settings.positions, "vocab_size": settings.vocab_size}
    for kind, call in _left_to_right(settings, batch):
        with torch.no_grad():
            measured = measure(call, settings.target, settings.repeats, warm_up=1)
        report.add(f"{AUTOREGRESSIVE}, {kind}", measured, kind=f"{AUTOREGRESSIVE}, {kind}", **sizes)
    fastest = max(row["tokens_per_second"] for row in report.rows if str(row.get("kind")).startswith(AUTOREGRESSIVE))
    work = [(row["steps"], row["steps"] * row["tokens_per_second"]) for row in report.rows if row.get("kind") == _LINE]
    # a step takes the same time whatever their number: at most so many tokens a second, times steps
    report.find("steps at which candi approximate is as fast as the fastest autoregression", max(work)[1] / fastest)


def _left_to_right(settings: BenchSettings, batch: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """The network of one way is gone before the next is made."""
    trunk, device = settings.trunk, settings.target
    with fresh():
        sampler = _sampler(settings, batch, "ar")
        yield "ours", lambda: sampler(settings.positions)
    if importlib.util.find_spec("transformers") is None:
        warnings.warn("transformers is not installed: its autoregression is left out.", stacklevel=2)
        return
    from transformers import GPT2Config, GPT2LMHeadModel, logging

    logging.set_verbosity_error()
    config = GPT2Config(
        vocab_size=settings.vocab_size, n_positions=settings.positions, n_embd=trunk.width, n_layer=trunk.blocks,
        n_head=trunk.heads, bos_token_id=0, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    for kind, cache in (("a cache that grows", None), ("a cache of fixed size", "static")):
        with fresh():
            model = GPT2LMHeadModel(config).to(device, settings.dtype).eval()
            start = torch.zeros(batch, 1, dtype=torch.long, device=device)

            def call(model: Any = model, start: Tensor = start, cache: str | None = cache) -> Any:
                return model.generate(
                    start, attention_mask=torch.ones_like(start), do_sample=True, use_cache=True,
                    cache_implementation=cache, max_new_tokens=settings.positions - 1,
                    min_new_tokens=settings.positions - 1,
                )  # fmt: skip

            yield f"{kind} (transformers)", call
            del model


def _growth(settings: BenchSettings, report: Report, batch: int) -> None:
    """Eight approximate steps, not compiled: so that every size takes seconds."""
    batch = max(2, batch // 4)
    for vocab_size, length, size in settings.grown(batch):
        with fresh():
            sampler = Sampler(settings.trunk, vocab_size, length, size, settings.target, "candi", False)
            measured = measure(partial(sampler, 8, inference="approximate"), settings.target, 2, warm_up=1)
            report.add(f"growth: V {vocab_size:,}, length {length}, batch {size}", measured, **sampler.sizes)
