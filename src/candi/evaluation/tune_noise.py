"""Which noise a trained model makes the most of: its bound over ranges of ranks, paths and priors."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from candi.base.errors import UserError
from candi.diffusion.bound import NoisePath
from candi.diffusion.methods.candi import CANDI, PATHS, CandiSettings
from candi.evaluation.likelihood import nats_of
from candi.model.model import Model


@dataclass(frozen=True)
class Noise:
    """A process: ranks of noise from t = 0 to t = 1, how it goes along with masking, and what it begins from."""

    low: float
    high: float
    path: str = "diagonal"
    prior: str = "normal"

    def along(self, trained: CandiSettings) -> NoisePath:
        """The same in the time of a run's own noise, in which its ranks are even."""
        span = trained.rank_max - trained.rank_min
        ends = ((rank - trained.rank_min) / span for rank in (self.low, self.high))
        return NoisePath(PATHS[self.path], *ends)

    @property
    def flags(self) -> str:
        """Of candi train."""
        more = "" if self.path == "diagonal" else f" --candi.independent --candi.path {self.path}"
        return f"--candi.rank-min {self.low:g} --candi.rank-max {self.high:g}{more}"


@dataclass(frozen=True)
class Tried:
    """Bits per token under a process with its parts, and how much more they are than with the run's own noise, with the

    half of a 95% interval: both on the same sequences and times.
    """

    noise: Noise
    bits: float
    parts: Mapping[str, float]
    more: float
    margin: float


def grid(settings: CandiSettings, frequencies: bool, ranks: Sequence[float] = ()) -> list[Noise]:
    """Ranges between these ranks, by default within the run's own; first the run's own noise."""
    own = Noise(settings.rank_min, settings.rank_max, settings.path)
    span = settings.rank_max - settings.rank_min
    places = sorted({*(ranks or (settings.rank_min + part * span for part in (0, 0.25, 0.5, 0.75, 1)))})
    if not all(0 < rank < 0.5 for rank in places):
        raise UserError("Ranks lie between 0 and 0.5; mend --ranks.")
    if len(places) < 2:
        raise UserError("A range has two ends; give at least two --ranks.")
    paths = tuple(PATHS) if settings.independent else ("diagonal",)  # a run without it has seen the diagonal alone
    priors = ("normal", "frequencies") if frequencies else ("normal",)
    found = [
        Noise(round(low, 6), round(high, 6), path, prior)
        for number, low in enumerate(places) for high in places[number + 1 :] for path in paths for prior in priors
    ]  # fmt: skip
    return list(dict.fromkeys([own, *found]))


def tune_noise(
    model: Model, sequences: NDArray[np.int64], noises: Sequence[Noise], *, given: NDArray[np.bool_] | None = None,
    times: int = 4, batch_size: int = 16, seed: int = 0,
) -> Iterator[Tried]:  # fmt: skip
    """Each of them as it is known; the first is what the others are compared with."""
    settings, method = model.config.settings, model.denoiser.method
    if not isinstance(settings, CandiSettings) or not isinstance(method, CANDI):
        raise UserError(f"{model.config.method} has no ranks and paths of noise; tune a run of candi.")
    marks = np.zeros(sequences.shape, bool) if given is None else given
    sequences, marks = sequences[~marks.all(-1)], marks[~marks.all(-1)]
    if not len(marks):
        raise UserError("Every token is given; there is nothing to predict.")
    walked: dict[NoisePath, dict[str, NDArray[np.float64]]] = {}  # what does not depend on the prior
    first: NDArray[np.float64] | None = None
    for noise in noises:
        along = noise.along(settings)
        bound = method.likelihood_bound(path=along, prior=noise.prior)

        def nats(count: int) -> dict[str, NDArray[np.float64]]:
            batches = list(nats_of(model, bound, sequences, marks, count, batch_size, seed))  # noqa: B023 - at once
            return {name: np.concatenate([one[name] for one in batches]) for name in batches[0]}

        if along in walked:
            parts = walked[along] | nats(0)
        else:
            parts = nats(times)
            walked[along] = parts
        scale = math.log(2) * np.maximum(1, (~marks).sum(-1))
        bits = sum(parts.values(), np.zeros(len(sequences))) / scale
        first = bits if first is None else first
        more = bits - first
        yield Tried(
            noise, float(bits.mean()), {name: float((some / scale).mean()) for name, some in parts.items()},
            float(more.mean()), 1.96 * float(more.std(ddof=1)) / math.sqrt(len(more)) if len(more) > 1 else math.inf,
        )  # fmt: skip
