"""How long samples took."""

from collections.abc import Mapping, Sequence

from candi.base.markdown import table
from candi_lab.runner.ledger import Ledger
from candi_lab.runner.timing import SampleTime, read_times


def milliseconds(time: SampleTime) -> str:
    """Of one sample, and how many runs used the device meanwhile."""
    return f"{1e3 * time.seconds:.2f}" + (f" ({time.shared} runs at once)" if time.shared > 1 else "")


def times_alone(ledger: Ledger, sweep: str, runs: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """A table of the runs that had the device to themselves: beside others, times differ from point to point."""
    alone: dict[str, dict[int, float]] = {}
    for run in runs:
        for time in read_times(ledger.find(f"sweep {sweep}", run)):
            if time.shared == 1:
                alone.setdefault(run, {})[time.steps] = time.seconds
    if len(alone) < 2:
        return []
    steps = sorted({count for times in alone.values() for count in times})
    rows = [
        [names.get(run, run), *(f"{1e3 * times[count]:.2f}" if count in times else "" for count in steps)]
        for run, times in alone.items()
    ]
    others = [names.get(run, run) for run in runs if run not in alone]
    left = f" Not timed alone: {', '.join(others)}." if others else ""
    return [f"Milliseconds a sample (medians over points).{left}", table(["", *(f"{n} steps" for n in steps)], rows)]
