"""How long samples take: measured of sweeps, kept in the ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from candi.evaluation.samples import Samples
from candi.evaluation.sweep import Sweep


@dataclass(frozen=True)
class SampleTime:
    """Seconds of one sample, for a number of steps and a classifier; `shared` counts the runs on the device."""

    steps: int
    by: str | None
    seconds: float
    shared: int = 1


def measure_times(sweeps: Sequence[Sweep]) -> tuple[list[SampleTime], float]:
    """The median over the points that shared the device with the fewest others; and the seconds of all samples."""
    found: dict[tuple[int, str | None], dict[int, list[float]]] = {}
    total = 0.0
    for sweep in sweeps:
        for _, cell in sweep.cells:
            by = cell.guidance.classifier if cell.guidance else None
            samples = Samples.read(sweep.sample_file(cell))
            if samples.seconds is not None:  # samples of an earlier version do not say
                found.setdefault((cell.steps, by), {}).setdefault(samples.shared, []).append(samples.seconds)
                total += cell.n * samples.seconds
    times = [SampleTime(*key, median(some[min(some)]), min(some)) for key, some in found.items()]
    return times, total


def read_times(entry: Mapping[str, Any] | None) -> list[SampleTime]:
    """Those of a ledger's entry; in an older one only the sweep as a whole says how many shared the device."""
    if entry is None:
        return []
    return [SampleTime(**{"by": None, "shared": entry.get("shared", 1)} | one) for one in entry.get("each", [])]
