"""How long samples took, told of those that were timed alike."""

from candi.reproduce.ledger import Ledger
from candi.reproduce.times import each_took


def test_only_runs_that_shared_the_device_with_as_many_others_are_compared(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")

    def timed(run, shared, **seconds):
        each = [
            {"steps": int(steps[1:]), "by": None, "seconds": value, "shared": shared}
            for steps, value in seconds.items()
        ]
        ledger.write("sweep s", run, "plan", each=each)

    timed("a", 1, s8=0.001, s16=0.002)
    assert each_took(ledger, "s", ["a", "b"]) == []
    timed("b", 3, s8=0.004)
    assert each_took(ledger, "s", ["a", "b"]) == []
    timed("c", 3, s8=0.005, s256=0.25)
    head, table = each_took(ledger, "s", ["a", "b", "c"])
    assert head == "Milliseconds a sample (medians over points, 3 runs at once on the device). Not timed alike: a."
    assert table.splitlines()[0] == "|  | 8 steps | 256 steps |"
    assert table.splitlines()[2:] == ["| b | 4.00 |  |", "| c | 5.00 | 250.00 |"]
    timed("d", 1, s8=0.003)
    assert each_took(ledger, "s", ["a", "d"])[0] == "Milliseconds a sample (medians over points)."
    ledger.write("sweep s", "d", "plan", shared=3, each=[{"steps": 8, "seconds": 0.003}])  # as older ledgers tell it
    assert "| d | 3.00 |  |" in each_took(ledger, "s", ["a", "b", "c", "d"])[1]
    ledger.write("sweep s", "d", "plan", shared=3, each=[{"steps": 8, "seconds": 0.003}], note="counted afterwards")
    assert "| d |" not in each_took(ledger, "s", ["a", "b", "c", "d"])[1]
