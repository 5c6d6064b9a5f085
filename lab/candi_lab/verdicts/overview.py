"""Several sweeps in one: the same text in vocabularies of growing size."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import torch

from candi.base.markdown import table
from candi.evaluation.compare import Comparison
from candi.evaluation.scorers import rank_correlation
from candi.views.tables import interval, listed
from candi_lab.runner.experiment import Experiment
from candi_lab.runner.ledger import Entry, Ledger
from candi_lab.runner.schema import PREDICTION, Claim, CurveRef
from candi_lab.verdicts.verdict import Finding, findings

LONGER = "both trained longer"
Interval = tuple[float, float, float]  # a value, and the ends of its 95% interval


@dataclass(frozen=True)
class OfVocabulary:
    """A run among those of the same text, trunk and training, in vocabularies of different size.

    `ratios` are its quality over that of the run it is compared with, at matched diversity, by the number of steps;
    that run itself has none. `longer` are the same if both are trained longer. `identifiable` and `rank` are averages
    over t.
    """

    family: str
    vocab_size: int
    identifiable: float
    rank: float
    ratios: Mapping[int, Interval]
    longer: Mapping[int, Interval] = field(default_factory=dict)


def overview(experiment: Experiment, found: Mapping[str, Comparison], ledger: Ledger) -> Iterator[OfVocabulary]:
    """Those of its runs that are done."""
    for family, run, rival, entry in _done(experiment, ledger):
        ratios = _ratios(_compared(experiment, found, run, rival))
        longer = _ratios(_compared_longer(experiment, found, run, rival))
        yield OfVocabulary(family, entry["vocab_size"], entry["identifiable"], entry["rank"], ratios, longer)


def _done(experiment: Experiment, ledger: Ledger) -> Iterator[tuple[str, str, str, Entry]]:
    """Method, run, the run that it is compared with, and the prediction."""
    assert experiment.overview is not None
    families, against = experiment.overview.families, experiment.overview.against
    for family, runs in families.items():
        for run, rival in zip(runs, families[against], strict=True):
            entry = ledger.find(PREDICTION, run)
            if run in experiment.runs and entry is not None:
                yield family, run, rival, entry


def _compared(experiment: Experiment, found: Mapping[str, Comparison], run: str, rival: str) -> list[Finding]:
    if run == rival:
        return []
    claim = Claim("", "", CurveRef(run), CurveRef(rival))
    shared = [name for name, grid in experiment.grids.items() if {run, rival} <= set(grid.runs) and name in found]
    return [finding for name in shared for finding in findings(claim, found[name])]


def _compared_longer(experiment: Experiment, found: Mapping[str, Comparison], run: str, rival: str) -> list[Finding]:
    assert experiment.overview is not None
    longer = experiment.overview.longer
    return _compared(experiment, found, longer[run], longer[rival]) if {run, rival} <= longer.keys() else []


def _ratios(compared: Sequence[Finding]) -> dict[int, Interval]:
    return {one.steps: (one.value, one.low, one.high) for one in compared if one.measured}


def ratio_table(runs: Sequence[OfVocabulary], quality: str, against: str) -> str:
    """A row for each run."""
    steps = sorted({count for run in runs for count in (*run.ratios, *run.longer)})
    head = ["", "vocabulary", *(f"{quality} over {against}'s, {count} steps" for count in steps)]
    head += ["identifiable positions", "rank the network sees"]
    rows = []
    for run in runs:
        size, predicted = f"{run.vocab_size:,}", [f"{run.identifiable:.2f}", f"{run.rank:.2f}"]
        rows.append([run.family, size, *_cells(run.ratios, steps), *predicted])
        if run.longer:
            rows.append([f"{run.family}, {LONGER}", size, *_cells(run.longer, steps), "", ""])
    return table(head, rows)


def _cells(ratios: Mapping[int, Interval], steps: Sequence[int]) -> list[str]:
    return [interval(*ratios[count]) if count in ratios else "" for count in steps]


def word_table(experiment: Experiment, found: Mapping[str, Comparison], ledger: Ledger) -> str:
    """Where each method is ahead of the one that all are compared with, and where behind, in words."""
    cells: dict[str, dict[str, str]] = {}
    for family, run, rival, entry in _done(experiment, ledger):
        size = f"{entry['vocab_size']:,}"
        if compared := _compared(experiment, found, run, rival):
            cells.setdefault(size, {})[family] = _outcome(compared)
        if compared := _compared_longer(experiment, found, run, rival):
            cells.setdefault(f"{size}, {LONGER}", {})[family] = _outcome(compared)
    families = list(dict.fromkeys(family for by_family in cells.values() for family in by_family))
    assert experiment.overview is not None
    head = [f"against {experiment.overview.against}", *families]
    return table(head, [[size, *(by_family.get(name, "") for name in families)] for size, by_family in cells.items()])


def _outcome(compared: Sequence[Finding]) -> str:
    """At which numbers of steps it is ahead, behind or neither; the least and the greatest change."""
    at: dict[str, list[int]] = {}
    for one in compared:
        at.setdefault(one.word, []).append(one.steps)
    words = list(at) if len(at) == 1 else [f"{word} at {listed(steps)} steps" for word, steps in at.items()]
    changes = sorted(100 * (one.value - 1) for one in compared if one.measured)
    ends = dict.fromkeys(f"{end:+.1f}%" for end in (changes[0], changes[-1])) if changes else ()
    return ", ".join(words) + (f" ({' to '.join(ends)})" if ends else "")


def order(runs: Sequence[OfVocabulary], against: str, higher_is_better: bool) -> list[str]:
    """Whether the predictions put the runs in the order that was measured."""
    measured = [run for run in runs if run.ratios]
    if len(measured) < 3:
        return []
    sign = -1 if higher_is_better else 1
    behind = torch.tensor([sign * fmean(math.log(value) for value, _, _ in run.ratios.values()) for run in measured])
    with_identifiable, with_rank = (
        rank_correlation(behind, torch.tensor(predicted))
        for predicted in ([run.identifiable for run in measured], [run.rank for run in measured])
    )
    return [
        f"Rank correlation, over these {len(measured)} runs, of how far each is behind {against} with the identifiable "
        f"positions: {with_identifiable:.2f} (if they alone decided: -1); with the rank that its network sees: "
        f"{with_rank:.2f} (if it alone decided: 1)."
    ]
