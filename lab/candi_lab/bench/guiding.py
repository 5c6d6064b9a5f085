"""Guidance at the size of molecules: what a classifier adds to sampling, for every method that can be guided."""

from collections.abc import Iterator
from functools import partial

import torch

from candi.base.machine import fresh
from candi.diffusion.guidance.base import Guidance
from candi.diffusion.guidance.choice import guide_for
from candi.diffusion.methods import METHODS
from candi.diffusion.methods.base import Method
from candi.nets.classifier import READERS, Classifier
from candi.nets.dit import DiTSettings
from candi_lab.bench.measure import measure
from candi_lab.bench.report import Report
from candi_lab.bench.sampling import Sampler
from candi_lab.bench.settings import BenchSettings

_WEIGHT = 2.0  # any but 0 costs the same


def bench_guide(settings: BenchSettings) -> Report:
    report = Report.of(settings)
    batch = settings.batches({"paper": 1024, "small": 64, "toy": 2}[settings.scale])[0]
    for name in METHODS:
        with fresh():
            sizes = settings.vocab_size, settings.positions, batch, settings.target
            sampler = Sampler(settings.trunk, *sizes, name, settings.compiled)
            guides = dict(_guides(settings, sampler.denoiser.method))
            if guides:
                alone = _timed(settings, report, sampler, name)
                for kind, guide in guides.items():
                    guided = _timed(settings, report, sampler, f"{name}, {kind}", guide)
                    report.find(f"{name}, {kind} / {name} alone, {_steps(settings)} steps", guided / alone)
            del sampler, guides
    report.show()
    return report


def _steps(settings: BenchSettings) -> int:
    return 2 if settings.scale == "toy" else 16


def _guides(settings: BenchSettings, method: Method) -> Iterator[tuple[str, Guidance]]:
    """Any classifier where its gradient is added; where states are symbols, one that was shown the noise."""
    if method.gaussian() is not None:
        for kind in READERS:
            classifier = _classifier(settings, method.embedding.vocab_size, kind)
            yield f"gradient of a classifier ({kind})", guide_for(method, classifier.log_probability(1), _WEIGHT)
    elif method.extra_symbols is not None:
        classifier = _classifier(settings, method.embedding.vocab_size + method.extra_symbols, "transformer")
        yield "discrete guidance (transformer)", guide_for(method, classifier.log_probability(1), _WEIGHT)


def _classifier(settings: BenchSettings, symbols: int, kind: str) -> Classifier:
    """At the paper's size those of the experiment at its size; random weights cost what trained ones do."""
    trunk = {"paper": DiTSettings(512, 8, 8), "small": DiTSettings(64, 2, 2), "toy": DiTSettings(16, 1, 2)}
    size = DiTSettings(96, 3, 2) if (settings.scale, kind) == ("paper", "recurrent") else trunk[settings.scale]
    torch.manual_seed(0)
    return Classifier(symbols, size, kind=kind).to(settings.target).eval().requires_grad_(False)


def _timed(
    settings: BenchSettings, report: Report, sampler: Sampler, what: str, guide: Guidance | None = None
) -> float:
    steps = _steps(settings)
    measured = measure(partial(sampler, steps, guide), sampler.device, settings.repeats, warm_up=1)
    report.add(f"{what}, {steps} steps", measured, kind=what, steps=steps, **sampler.sizes)
    return measured.seconds
