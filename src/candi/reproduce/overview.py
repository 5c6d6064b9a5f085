"""Several sweeps in one: runs that differ in their vocabulary alone."""

import math
from collections.abc import Iterator, Mapping, Sequence

from candi.evaluation.compare import Comparison
from candi.evaluation.over_vocabulary import Interval, OfVocabulary
from candi.report.tables import interval, table
from candi.reproduce.declared import PREDICTED, Claim
from candi.reproduce.experiment import Experiment
from candi.reproduce.ledger import Ledger
from candi.reproduce.verdict import findings


def overview(experiment: Experiment, found: Mapping[str, Comparison], ledger: Ledger) -> Iterator[OfVocabulary]:
    """Those of its runs that are done."""
    assert experiment.overview is not None
    families, against = experiment.overview.families, experiment.overview.against
    for family, runs in families.items():
        for run, rival in zip(runs, families[against], strict=True):
            entry = ledger.find(PREDICTED, run)
            if run not in experiment.runs or entry is None:
                continue
            ratios, longer = _ratios(experiment, found, run, rival), experiment.overview.longer
            after = _ratios(experiment, found, longer[run], longer[rival]) if {run, rival} <= longer.keys() else {}
            yield OfVocabulary(family, entry["vocab_size"], entry["identifiable"], entry["rank"], ratios, after)


def _ratios(experiment: Experiment, found: Mapping[str, Comparison], run: str, rival: str) -> dict[int, Interval]:
    shared = [name for name, grid in experiment.grids.items() if {run, rival} <= set(grid.runs)]
    claims = [Claim("", name, run, rival) for name in shared if run != rival and name in found]
    judged = [finding for claim in claims for finding in findings(claim, found[claim.sweep])]
    return {one.steps: (one.value, one.low, one.high) for one in judged if math.isfinite(one.value)}


def told(runs: Sequence[OfVocabulary], quality: str, against: str) -> str:
    """A table: a row for each run."""
    steps = sorted({count for run in runs for count in run.ratios})
    head = ["", "vocabulary", *(f"{quality} over {against}'s, {count} steps" for count in steps)]
    head += ["positions that can be told", "rank the network sees"]
    rows = []
    for run in runs:
        predicted = [f"{run.identifiable:.3f}", f"{run.rank:.3f}"]
        size = f"{run.vocab_size:,}"
        rows.append([run.family, size, *_cells(run.ratios, steps), *predicted])
        if run.longer:
            rows.append([f"{run.family}, both trained longer", size, *_cells(run.longer, steps), "", ""])
    return table(head, rows)


def _cells(ratios: Mapping[int, Interval], steps: Sequence[int]) -> list[str]:
    return [interval(*ratios[count]) if count in ratios else "" for count in steps]


_NEITHER = "level, or changing with the steps,"


def in_words(runs: Sequence[OfVocabulary], quality: str, against: str, higher_is_better: bool) -> list[str]:
    """For each family a sentence: at which vocabularies it is surely ahead or behind at every number of steps."""
    told = []
    for family in dict.fromkeys(run.family for run in runs if run.ratios):
        outcomes: dict[str, list[str]] = {"ahead": [], "behind": [], _NEITHER: []}
        for run in (run for run in runs if run.family == family):
            for ratios, more in ((run.ratios, ""), (run.longer, ", both trained longer")):
                if ratios:
                    outcomes[_outcome(ratios, higher_is_better)].append(f"{run.vocab_size:,} ({_range(ratios)}{more})")
        parts = [f"{outcome} at {', '.join(some)}" for outcome, some in outcomes.items() if some]
        told.append(f"- **{family}** against {against}, by {quality}: {'; '.join(parts)}.")
    return ["\n".join(told)] if told else []


def _outcome(ratios: Mapping[int, Interval], higher_is_better: bool) -> str:
    more, less = all(low > 1 for _, low, _ in ratios.values()), all(high < 1 for _, _, high in ratios.values())
    if not more and not less:
        return _NEITHER
    return "ahead" if more == higher_is_better else "behind"


def _range(ratios: Mapping[int, Interval]) -> str:
    """The least and the greatest of the values, as a change."""
    low, high = (f"{100 * (end([value for value, _, _ in ratios.values()]) - 1):+.1f}%" for end in (min, max))
    return low if low == high else f"{low} to {high}"
