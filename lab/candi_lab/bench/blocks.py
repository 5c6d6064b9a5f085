"""Writing in blocks: with the cache and without, against left to right and against the window filled at once."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from candi.base.machine import fresh
from candi.base.rng import Rng
from candi.diffusion.methods import METHODS
from candi.diffusion.sampler import bind, last_state
from candi.nets.blockwise import BlockDenoiser, sample_blocks
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.engine import Engine
from candi_lab.bench.measure import measure
from candi_lab.bench.report import Report
from candi_lab.bench.sampling import Sampler
from candi_lab.bench.settings import BenchSettings

_SIZES = {"paper": (4, 16, 64), "small": (4, 16, 64), "toy": (4,)}
_STEPS = (4, 8, 16)


def bench_blocks(settings: BenchSettings) -> Report:
    report = Report.of(settings)
    report.resume()
    for batch in {"paper": (1, 64), "small": (1, 64), "toy": (1, 2)}[settings.scale]:
        paces = dict(_rows(settings, report, batch))
        left_to_right = paces["autoregressive"]
        for name, pace in paces.items():
            if name != "autoregressive":
                report.find(f"{name} / autoregressive, tokens a second, batch {batch}", pace / left_to_right)
    report.show()
    return report


def _rows(settings: BenchSettings, report: Report, batch: int) -> Iterator[tuple[str, float]]:
    """Tokens a second by name. What has its row already is not measured again."""
    length = settings.positions
    sizes = {"batch": batch, "length": length, "vocab_size": settings.vocab_size}

    def timed(name: str, made: "Sampler | BlockSampler", steps: int) -> tuple[str, float]:
        known = [row for row in report.rows if (row["what"], row["batch"]) == (name, batch)]
        if not known:
            # a call takes as long as many steps: two of them, the first of which is not counted
            measured = measure(lambda: made(steps), settings.target, 2, warm_up=1)
            known = [report.add(name, measured, kind=name, steps=steps, **sizes)]
        return name, known[0]["tokens_per_second"]

    plain = settings.vocab_size, length, batch, settings.target
    with fresh():
        yield timed("autoregressive", Sampler(settings.trunk, *plain, "ar", settings.compiled), length)
    with fresh():
        window = Sampler(settings.trunk, *plain, "mdlm", settings.compiled)
        for steps in (16, 64):
            yield timed(f"mdlm, the window at once, {steps} steps", window, steps)
        del window
    for size in _SIZES[settings.scale]:
        for name in ("mdlm", "candi"):
            for cached in (True, False) if size == 16 and name == "mdlm" else (True,):
                with fresh():
                    made = BlockSampler(settings, name, size, batch, cached)
                    for steps in _STEPS:
                        if steps <= size and (name == "mdlm" or steps == 4):
                            how = "" if cached else ", without the cache"
                            yield timed(f"{name}, blocks of {size}, {steps} steps each{how}", made, steps)
                    del made


class BlockSampler:
    """A network with random weights that writes block by block."""

    def __init__(self, settings: BenchSettings, method: str, size: int, batch: int, cached: bool) -> None:
        torch.manual_seed(0)
        config = ModelConfig(
            settings.vocab_size, settings.positions, method, METHODS[method](), settings.trunk, block=size
        )
        self.denoiser = Denoiser.build(config).to(settings.target).eval()
        nn.init.normal_(self.denoiser.head.weight, std=0.05)
        self.engine = Engine(self.denoiser, False) if settings.target.type == "cuda" else None
        self.size, self.batch, self.length, self.cached = size, batch, settings.positions, cached
        self.device = settings.target

    @torch.no_grad()
    def __call__(self, steps: int, /) -> Tensor:
        method, rng = self.denoiser.method, Rng.per_row(range(self.batch), self.device)
        sampling = bind(method)
        x0 = torch.zeros(self.batch, self.length, dtype=torch.long, device=self.device)
        reader = BlockDenoiser(self.denoiser, self.engine, self.cached)
        walk = sample_blocks(
            [reader], reader, sampling.step, sampling.prior(x0, torch.zeros_like(x0, dtype=torch.bool), rng),
            sampling.timesteps(steps, self.size), lambda number, rows: rng, self.size, window=self.length,
        )  # fmt: skip
        return last_state(walk).tokens
