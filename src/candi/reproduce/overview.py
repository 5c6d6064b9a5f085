"""Several sweeps in one: runs that differ in their vocabulary alone."""

import math
from collections.abc import Iterator, Mapping, Sequence

from candi.evaluation.compare import Comparison
from candi.evaluation.over_vocabulary import OfVocabulary
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
            shared = [name for name, grid in experiment.grids.items() if {run, rival} <= set(grid.runs)]
            claims = [Claim("", name, run, rival) for name in shared if run != rival and name in found]
            judged = [finding for claim in claims for finding in findings(claim, found[claim.sweep])]
            ratios = {one.steps: (one.value, one.low, one.high) for one in judged if math.isfinite(one.value)}
            yield OfVocabulary(family, entry["vocab_size"], entry["identifiable"], entry["rank"], ratios)


def told(runs: Sequence[OfVocabulary], quality: str, against: str) -> str:
    """A table: a row for each run."""
    steps = sorted({count for run in runs for count in run.ratios})
    head = ["", "vocabulary", *(f"{quality} over {against}'s, {count} steps" for count in steps)]
    head += ["positions that can be told", "rank the network sees"]
    rows = []
    for run in runs:
        ratios = [interval(*run.ratios[count]) if count in run.ratios else "" for count in steps]
        rows.append([run.family, f"{run.vocab_size:,}", *ratios, f"{run.identifiable:.3f}", f"{run.rank:.3f}"])
    return table(head, rows)
