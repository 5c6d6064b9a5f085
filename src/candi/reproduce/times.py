"""How long samples took."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from candi.evaluation.samples import Samples
from candi.evaluation.sweep import Sweep


def times(sweeps: Sequence[Sweep]) -> tuple[list[dict[str, Any]], float]:
    """Of one sample, for each number of steps and each classifier: the median over the points that shared the device
    with the fewest others. And of all samples together, in whichever command they were made."""
    found: dict[tuple[int, str | None], dict[int, list[float]]] = {}
    total = 0.0
    for sweep in sweeps:
        for _, point in sweep.points:
            by = point.guidance["classifier"] if point.guidance else None
            samples = Samples.read(sweep.sample_file(point))
            if samples.seconds is not None:  # samples of an earlier version do not tell
                found.setdefault((point.steps, by), {}).setdefault(samples.shared, []).append(samples.seconds)
                total += point.n * samples.seconds
    each = [
        {"steps": steps, "by": by, "seconds": median(some[fewest]), "shared": fewest}
        for (steps, by), some in found.items()
        for fewest in [min(some)]
    ]
    return each, total
