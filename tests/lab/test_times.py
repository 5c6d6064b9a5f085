"""How long samples took, for runs that were timed alone."""

from candi_lab.report.times import times_alone
from candi_lab.runner.ledger import Ledger
from candi_lab.runner.timing import SampleTime, read_times


def test_only_runs_that_had_the_device_to_themselves_are_compared(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")

    def timed(run, shared, **seconds):
        each = [
            {"steps": int(steps[1:]), "by": None, "seconds": value, "shared": shared}
            for steps, value in seconds.items()
        ]
        ledger.write("sweep s", run, "plan", each=each)

    timed("a", 1, s8=0.001, s16=0.002)
    assert times_alone(ledger, "s", ["a", "b"], {}) == []
    timed("b", 3, s8=0.004)
    timed("c", 3, s8=0.005, s256=0.25)
    assert times_alone(ledger, "s", ["a", "b", "c"], {}) == []
    timed("d", 1, s8=0.003, s256=0.25)
    head, table = times_alone(ledger, "s", ["a", "b", "d"], {})
    assert head == "Milliseconds a sample (medians over points). Not timed alone: b."
    assert table.splitlines()[0] == "|  | 8 steps | 16 steps | 256 steps |"
    assert table.splitlines()[2:] == ["| a | 1.00 | 2.00 |  |", "| d | 3.00 |  | 250.00 |"]
    assert times_alone(ledger, "s", ["a", "d"], {})[0] == "Milliseconds a sample (medians over points)."
    ledger.write("sweep s", "d", "plan", shared=3, each=[{"steps": 8, "seconds": 0.003}])  # as older ledgers tell it
    assert times_alone(ledger, "s", ["a", "b", "d"], {}) == []


def test_an_older_ledger_says_once_how_many_shared_the_device():
    assert read_times(None) == []
    each = [{"steps": 8, "by": "q", "seconds": 0.5}, {"steps": 16, "seconds": 1.0, "shared": 1}]
    assert read_times({"shared": 3, "each": each}) == [SampleTime(8, "q", 0.5, 3), SampleTime(16, None, 1.0, 1)]
