"""What an end of the tried temperatures adds to a frontier."""

from pathlib import Path

from candi.evaluation.compare import Axes, Comparison, compare
from candi.reproduce.guided import frontiers
from candi.reproduce.ledger import Ledger

N = 200


def _comparison(lead: float) -> Comparison:
    """Three temperatures, three weights. The property of the lowest is by `lead` above that of the next, and one
    molecule more is valid; the highest is behind in everything."""
    lines = []
    for temperature, more, lost in ((0.1, lead, 0), (0.5, 0.0, 1), (1.0, -0.3, 2)):
        for index, weight in enumerate((0.0, 1.0, 2.0)):
            valid = [int(sample < 180 - 40 * index - lost) for sample in range(N)]
            quality = [valid[sample] * (0.4 + 0.1 * index + more) for sample in range(N)]
            card = {
                "run": "candi", "checkpoint": "c", "method": "candi", "seed": 0, "n": N, "steps": 16,
                "steps_fixed": False, "temperature": temperature, "top_k": None, "nucleus": None, "options": {},
                "property": "qed", "guidance": {"classifier": "q", "target": 1, "weight": weight, "reveal": 0.0},
                "ema": True, "precision": "fp32", "draws": "float64", "length": 32,
            }  # fmt: skip
            measures = {"unique_molecules": float(sum(valid)), "property": quality[0]}
            columns = {"is_molecule": valid, "property": quality}
            lines.append({"key": f"{temperature} {weight}", "card": card, "measures": measures, "columns": columns})
    return compare(lines, Axes("unique_molecules", "property"), draws=50, pooled=True)


def _told(lead: float, folder: Path) -> list[str]:
    table, _ = frontiers(_comparison(lead), "qed", Ledger(folder / "ledger.jsonl"))
    return table.splitlines()[-1].split(" | ")


def test_an_end_adds_as_much_as_it_is_ahead_of_the_next_temperature(tmp_path):
    """The lead, and 0.1 of the property for 40 molecules, of which it has one more. No draw moves either."""
    _, _, temperatures, adds, *_ = _told(0.25, tmp_path)
    assert (temperatures, adds) == ("0.1*", "0.1: 0.252 (0.252 to 0.253)")


def test_an_end_that_is_behind_adds_nothing(tmp_path):
    """All it has is one molecule more without guidance: a point on the frontier, none that is worth going further."""
    _, _, temperatures, adds, *_ = _told(-0.2, tmp_path)
    assert (temperatures, adds) == ("0.1*, 0.5", "0.1: 0.000 (0.000 to 0.000)")
