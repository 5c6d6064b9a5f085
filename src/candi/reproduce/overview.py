"""Several sweeps in one: the same text in vocabularies of growing size."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

import torch

from candi.evaluation.compare import Comparison
from candi.evaluation.over_vocabulary import Interval, OfVocabulary
from candi.evaluation.scorers import rank_correlation
from candi.report.tables import interval, listed, table
from candi.reproduce.declared import PREDICTED, Claim
from candi.reproduce.experiment import Experiment
from candi.reproduce.ledger import Entry, Ledger
from candi.reproduce.verdict import Finding, findings

LONGER = "both trained longer"


def overview(experiment: Experiment, found: Mapping[str, Comparison], ledger: Ledger) -> Iterator[OfVocabulary]:
    """Those of its runs that are done."""
    for family, run, rival, entry in _done(experiment, ledger):
        ratios = _ratios(_judged(experiment, found, run, rival))
        longer = _ratios(_judged_longer(experiment, found, run, rival))
        yield OfVocabulary(family, entry["vocab_size"], entry["identifiable"], entry["rank"], ratios, longer)


def _done(experiment: Experiment, ledger: Ledger) -> Iterator[tuple[str, str, str, Entry]]:
    """Method, run, the run that it is held against, and what was predicted of it."""
    assert experiment.overview is not None
    families, against = experiment.overview.families, experiment.overview.against
    for family, runs in families.items():
        for run, rival in zip(runs, families[against], strict=True):
            entry = ledger.find(PREDICTED, run)
            if run in experiment.runs and entry is not None:
                yield family, run, rival, entry


def _judged(experiment: Experiment, found: Mapping[str, Comparison], run: str, rival: str) -> list[Finding]:
    if run == rival:
        return []
    shared = [name for name, grid in experiment.grids.items() if {run, rival} <= set(grid.runs) and name in found]
    return [finding for name in shared for finding in findings(Claim("", name, run, rival), found[name])]


def _judged_longer(experiment: Experiment, found: Mapping[str, Comparison], run: str, rival: str) -> list[Finding]:
    assert experiment.overview is not None
    longer = experiment.overview.longer
    return _judged(experiment, found, longer[run], longer[rival]) if {run, rival} <= longer.keys() else []


def _ratios(judged: Sequence[Finding]) -> dict[int, Interval]:
    return {one.steps: (one.value, one.low, one.high) for one in judged if math.isfinite(one.value)}


def told(runs: Sequence[OfVocabulary], quality: str, against: str) -> str:
    """A table: a row for each run."""
    steps = sorted({count for run in runs for count in (*run.ratios, *run.longer)})
    head = ["", "vocabulary", *(f"{quality} over {against}'s, {count} steps" for count in steps)]
    head += ["positions that can be told", "rank the network sees"]
    rows = []
    for run in runs:
        size, predicted = f"{run.vocab_size:,}", [f"{run.identifiable:.2f}", f"{run.rank:.2f}"]
        rows.append([run.family, size, *_cells(run.ratios, steps), *predicted])
        if run.longer:
            rows.append([f"{run.family}, {LONGER}", size, *_cells(run.longer, steps), "", ""])
    return table(head, rows)


def _cells(ratios: Mapping[int, Interval], steps: Sequence[int]) -> list[str]:
    return [interval(*ratios[count]) if count in ratios else "" for count in steps]


def in_words(experiment: Experiment, found: Mapping[str, Comparison], ledger: Ledger) -> str:
    """A table of words: where each method is ahead of the one that all are held against, and where behind."""
    cells: dict[str, dict[str, str]] = {}
    for family, run, rival, entry in _done(experiment, ledger):
        size = f"{entry['vocab_size']:,}"
        if judged := _judged(experiment, found, run, rival):
            cells.setdefault(size, {})[family] = _outcome(judged)
        if judged := _judged_longer(experiment, found, run, rival):
            cells.setdefault(f"{size}, {LONGER}", {})[family] = _outcome(judged)
    families = list(dict.fromkeys(family for by_family in cells.values() for family in by_family))
    assert experiment.overview is not None
    head = [f"against {experiment.overview.against}", *families]
    return table(head, [[size, *(by_family.get(name, "") for name in families)] for size, by_family in cells.items()])


def _outcome(judged: Sequence[Finding]) -> str:
    """At which numbers of steps it is ahead, behind or neither; the least and the greatest change."""
    at: dict[str, list[int]] = {}
    for one in judged:
        at.setdefault(one.word, []).append(one.steps)
    words = list(at) if len(at) == 1 else [f"{word} at {listed(steps)} steps" for word, steps in at.items()]
    changes = sorted(100 * (one.value - 1) for one in judged if math.isfinite(one.value))
    ends = dict.fromkeys(f"{end:+.1f}%" for end in (changes[0], changes[-1])) if changes else ()
    return ", ".join(words) + (f" ({' to '.join(ends)})" if ends else "")


def order(runs: Sequence[OfVocabulary], against: str, higher_is_better: bool) -> list[str]:
    """Whether the predictions put the runs in the order in which they came out."""
    measured = [run for run in runs if run.ratios]
    if len(measured) < 3:
        return []
    sign = -1 if higher_is_better else 1
    behind = torch.tensor([sign * fmean(math.log(value) for value, _, _ in run.ratios.values()) for run in measured])
    with_told, with_rank = (
        rank_correlation(behind, torch.tensor(predicted))
        for predicted in ([run.identifiable for run in measured], [run.rank for run in measured])
    )
    return [
        f"Rank correlation, over these {len(measured)} runs, of how far each is behind {against} with the positions "
        f"that can be told: {with_told:.2f} (if they alone decided: -1); with the rank that its network sees: "
        f"{with_rank:.2f} (if it alone decided: 1)."
    ]
