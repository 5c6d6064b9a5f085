"""What an end of the tried temperatures adds to a frontier."""

from pathlib import Path

import pytest
from candi_lab.report.guided import frontier_table
from candi_lab.runner.ledger import Ledger

from candi.evaluation.compare import Comparison, compare
from tests.lab.made import MOLECULES, cell, guide, point

N = 200


def _comparison(lead: float, lowest: float | None = None) -> Comparison:
    """Three temperatures, three weights. The property of the lowest is by `lead` above that of the next, and one
    molecule more is valid; the highest is behind in everything. At a fourth weight there are 60 molecules, with a
    property of `lowest` at the lowest temperature and one of 0 elsewhere."""
    points = []
    for temperature, more, lost in ((0.1, lead, 0), (0.5, 0.0, 1), (1.0, -0.3, 2)):
        for index, weight in enumerate((0.0, 1.0, 2.0) if lowest is None else (0.0, 1.0, 2.0, 3.0)):
            valid = [int(sample < 180 - 40 * index - lost) for sample in range(N)]
            level = 0.4 + 0.1 * index + more
            if lowest is not None and index == 3:
                level = lowest if temperature == 0.1 else 0.0
            quality = [one * level for one in valid]
            made = cell("candi", n=N, steps=16, temperature=temperature, guidance=guide(weight))
            measures = {"unique_molecules": float(sum(valid)), "property": level}
            points.append(point(made, measures, {"is_molecule": valid, "property": quality}, property="qed"))
    return compare(points, MOLECULES, draws=50, pooled=True)


def _row(lead: float, folder: Path) -> list[str]:
    table, _ = frontier_table(_comparison(lead), "qed", Ledger(folder / "ledger.jsonl"))
    return table.splitlines()[-1].split(" | ")


def test_an_end_adds_as_much_as_it_is_ahead_of_the_next_temperature(tmp_path):
    """The lead, and 0.1 of the property for 40 molecules, of which it has one more. No draw moves either."""
    _, _, temperatures, adds, *_ = _row(0.25, tmp_path)
    assert (temperatures, adds) == ("0.1*", "0.1: 0.252 (0.252 to 0.252)")


def test_what_an_end_alone_reaches_at_low_diversity_counts(tmp_path):
    """100 to 180 molecules; the lowest temperature goes on to 60 with a property of 2, where the others have 0.6.

    From 99 molecules, the last that the others reach, to 60 it rises evenly by 1.4, from there to 179 it is level:
    on average 0.7 on 39 of 119 molecules.
    """
    comparison = _comparison(0.0, lowest=2.0)
    table, _ = frontier_table(comparison, "qed", Ledger(tmp_path / "ledger.jsonl"))
    adds = table.splitlines()[-1].split(" | ")[3]
    assert float(adds.split()[1]) == pytest.approx(0.7 * 39 / 119, abs=0.02)


def test_an_end_that_is_behind_adds_nothing(tmp_path):
    """All it has is one molecule more without guidance: a point on the frontier, none that is worth going further."""
    _, _, temperatures, adds, *_ = _row(-0.2, tmp_path)
    assert (temperatures, adds) == ("0.1*, 0.5", "0.1: 0.000 (0.000 to 0.000)")
