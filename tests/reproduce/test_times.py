"""How long samples took, and beside how many others."""

from candi.reproduce.ledger import Ledger
from candi.reproduce.times import each_took


def test_runs_that_shared_the_device_with_more_or_fewer_others_are_told_apart(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")

    def timed(run, shared, **seconds):
        each = [
            {"steps": int(steps[1:]), "by": None, "seconds": value, "shared": shared}
            for steps, value in seconds.items()
        ]
        ledger.write("sweep s", run, "plan", each=each)

    timed("a", 1, s8=0.001, s16=0.002)
    assert each_took(ledger, "s", ["a", "b"]) == []
    timed("b", 1, s8=0.004, s256=0.25)
    head, table = each_took(ledger, "s", ["a", "b"])
    assert head == "Milliseconds a sample (medians over points):"
    assert table.splitlines()[0] == "|  | 8 steps | 16 steps | 256 steps |"
    assert table.splitlines()[2:] == ["| a | 1.00 | 2.00 |  |", "| b | 4.00 |  | 250.00 |"]
    timed("a", 3, s8=0.005, s16=0.006)
    head, table = each_took(ledger, "s", ["a", "b"])
    assert "as many runs at once" in head
    assert table.splitlines()[0] == "|  | runs at once | 8 steps | 16 steps | 256 steps |"
    assert table.splitlines()[2:] == ["| b | 1 | 4.00 |  | 250.00 |", "| a | 3 | 5.00 | 6.00 |  |"]
    ledger.write("sweep s", "b", "plan", shared=3, each=[{"steps": 8, "seconds": 0.003}])  # as older ledgers tell it
    head, table = each_took(ledger, "s", ["a", "b"])
    assert head == "Milliseconds a sample (medians over points, 3 runs at once on the device):"
    assert table.splitlines()[2:] == ["| a | 5.00 | 6.00 |", "| b | 3.00 |  |"]
