"""How long samples took."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from candi.evaluation.samples import Samples
from candi.evaluation.sweep import Sweep
from candi.report.tables import table
from candi.reproduce.ledger import Ledger


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


def milliseconds(time: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    """Of one sample, and how many used the device meanwhile."""
    shared = _shared(time, entry)
    return f"{1e3 * time['seconds']:.2f}" + (f" ({shared} runs at once)" if shared > 1 else "")


def each_took(ledger: Ledger, sweep: str, runs: Sequence[str]) -> list[str]:
    """A table of those runs that had the device to themselves: what others do to it beside one differs from point to
    point, even if there are always as many."""
    alone: dict[str, dict[int, float]] = {}
    for run in runs:
        entry = ledger.find(f"sweep {sweep}", run) or {}
        for time in entry.get("each", []):
            if _shared(time, entry) == 1:
                alone.setdefault(run, {})[time["steps"]] = time["seconds"]
    if len(alone) < 2:
        return []
    steps = sorted({count for times in alone.values() for count in times})
    rows = [
        [run, *(f"{1e3 * times[count]:.2f}" if count in times else "" for count in steps)]
        for run, times in alone.items()
    ]
    others = [run for run in runs if run not in alone]
    left = f" Not timed alone: {', '.join(others)}." if others else ""
    return [f"Milliseconds a sample (medians over points).{left}", table(["", *(f"{n} steps" for n in steps)], rows)]


def _shared(time: Mapping[str, Any], entry: Mapping[str, Any]) -> int:
    """In an older ledger only the sweep as a whole tells it."""
    return int(time.get("shared", entry.get("shared", 1)))
