"""docs/results.md and its figures, from the files under lab/results and from nothing else."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from candi.base.files import write_text
from candi.base.markdown import table
from candi.data.tokenizer import made_from_data
from candi.evaluation.compare import Comparison, compare
from candi.evaluation.measures import POOLED_WORDS
from candi.views.plots import frontiers, save
from candi.views.tables import caution
from candi_lab.report import guided, plots, run_tables, sweep_sections
from candi_lab.report.times import times_alone
from candi_lab.runner.experiment import SCALES, Experiment, experiments, read
from candi_lab.runner.schema import Claim
from candi_lab.runner.store import Results
from candi_lab.verdicts.advice import advice_tables, choices
from candi_lab.verdicts.other_scorers import other_scorers
from candi_lab.verdicts.other_scorers import ratio_table as scorer_table
from candi_lab.verdicts.overview import order, overview, ratio_table, word_table
from candi_lab.verdicts.verdict import MISSING, TOY, findings, verdict

_HEAD = """# Results

This page and its figures are written by `candi-lab results` from the files under `lab/results/`, which
`candi-lab reproduce` wrote: points with their provenance, and a ledger of what was trained, where and for how long. To
run an experiment again:

    candi-lab reproduce NAME --scale paper|small|toy --data FILE

Every claim of the paper is compared with whole frontiers. The ratio (of properties the difference) is taken at the same
diversity and averaged over the range that both curves reach; in brackets its 95% interval over samples. *agrees*: the
interval lies where the claim says; *disagrees*: it lies elsewhere; *not settled*: it reaches across, or a run that is
ahead on average is surely behind on more than a tenth of the range; a toy scale has no verdict. One training run stands
behind every curve, so an interval says nothing about other seeds of training."""

PAPER, CALIBRATED = "CANDI (paper)", "CANDI (calibrated)"
_VARIANTS = f"""Two settings of CANDI have names. *{PAPER}* is the paper's to the letter: one-hot noise, noisy inputs
divided by sqrt(1 + sigma^2), inputs of the network as they are, Euler steps. *{CALIBRATED}* is ours: noise on the
embeddings where tokens outnumber the width of the network, inputs of one size, times sqrt(width), exact steps (`ddim`).
A verdict on one says nothing of the other. \"The paper's size\" means the size of network, sequences and batches;
[fidelity](fidelity.md) lists what else is the paper's and what is ours."""

_CHOICE = """The change of quality at the same diversity. *level*: the interval includes no difference; *crosses*: each
is surely ahead on a part of the range."""


@dataclass(frozen=True)
class Measured:
    """An experiment with the comparisons of its sweeps that have points."""

    experiment: Experiment
    results: Results
    sweeps: Mapping[str, Comparison]

    @property
    def title(self) -> str:
        return f"{self.experiment.title} ({self.experiment.size})"


def compare_sweeps(results: Results) -> dict[str, Comparison]:
    """Of every sweep that has points."""
    experiment = results.experiment
    found = {name: results.planned_points(name) for name in experiment.grids}
    return {
        name: compare(points, experiment.axes, pooled=True, names=experiment.names)
        for name, points in found.items()
        if points
    }


def as_measured(results: Results) -> Results:
    """Points of version 0.1 have the unique words of all samples together; where there are no others, these count."""
    axes = results.experiment.axes
    points = [point for name in results.experiment.grids for point in results.points(name)]
    if axes.diversity != "unique_words" or any("unique_words" in point.measures for point in points):
        return results
    return replace(results, experiment=replace(results.experiment, axes=replace(axes, diversity=POOLED_WORDS)))


def read_results(folder: Path) -> list[Measured]:
    """Every experiment that has points, in the order of chapters, the largest scale of each first."""
    found = []
    for experiment in (read(name, scale) for name in experiments() for scale in reversed(SCALES)):
        results = Results(experiment, folder / experiment.label)
        if results.folder.is_dir():
            results.measure()
            results = as_measured(results)
            found.append(Measured(results.experiment, results, compare_sweeps(results)))
    return sorted((one for one in found if one.sweeps), key=lambda one: one.experiment.chapter)


def write_page(measured: Sequence[Measured], docs: Path) -> Path:
    """The page and its figures."""
    page, figures = docs / "results.md", docs / "figures"
    parts = [_HEAD, *_in_short(measured), *_choices(measured, figures)]
    for one in measured:
        parts += _section(one, figures)
    write_text(page, "\n\n".join(parts) + "\n")
    return page


def _in_short(measured: Sequence[Measured]) -> list[str]:
    """The claims by whose they are and with whose settings they were tried; the paper's own also where they wait."""
    rows: dict[str, list[list[str]]] = {"paper": [], "ours": [], "beyond": []}
    for one in measured:
        for claim, row in zip(one.experiment.claims, claim_rows(one), strict=True):
            kind = "beyond" if claim.beyond else "paper" if PAPER in row.compared else "ours"
            if row.verdict != MISSING or kind == "paper":
                rows[kind].append([row.paper, row.compared, one.title, row.verdict])
    titles = {
        "paper": f"### What the paper says, tried with its settings: {PAPER}",
        "ours": "### What the paper says, tried with other settings",
        "beyond": "### What the paper does not say",
    }
    head = ["claim", "compared", "tried in", "verdict"]
    tables = [part for kind, some in rows.items() if some for part in (titles[kind], table(head, some))]
    return ["## In short", _VARIANTS, *tables] if tables else []


def _choices(measured: Sequence[Measured], figures: Path) -> list[str]:
    """Which method to take."""
    tables = [text for one in measured for text in advice_tables(one.experiment, one.sweeps)]
    drawn = [choice for one in measured for choice in choices(one.experiment, one.sweeps)]
    if not tables:
        return []
    parts = ["## Which method to take", _CHOICE]
    if drawn:
        save(plots.choices(drawn), figures / "choice")
        parts.append("![By how much CANDI is better or worse than each other method](figures/choice.svg)")
    return [*parts, *tables]


@dataclass(frozen=True)
class ClaimRow:
    """A claim, the curves that were compared for it, what was measured, and the verdict."""

    paper: str
    compared: str
    measured: str
    verdict: str


def claim_rows(one: Measured) -> list[ClaimRow]:
    rows = []
    for claim in one.experiment.claims:
        some = findings(claim, one.sweeps[claim.sweep]) if claim.sweep in one.sweeps else []
        outcome = verdict(some)
        values = MISSING if outcome == MISSING else "; ".join(map(str, some))
        if one.experiment.scale == "toy" and outcome != MISSING:
            outcome = TOY
        first, second = (ref.called(one.experiment.names) for ref in (claim.first, claim.second))
        measured = f"{_compared(one.experiment, claim, first, second)}: {values}"
        rows.append(ClaimRow(claim.paper, f"{first} / {second}", measured, outcome))
    return rows


def verdict_lines(one: Measured) -> list[str]:
    """The verdicts for a terminal."""
    return [f"{row.verdict}: {row.paper} {row.measured}" for row in claim_rows(one)]


def _compared(experiment: Experiment, claim: Claim, first: str, second: str) -> str:
    """What is compared, and the limit that the claim sets."""
    additive = experiment.axes.measures[1].additive
    between = "minus that of" if additive else "/"
    size = f"{claim.margin:g}" if additive else f"{100 * claim.margin:g}%"
    limit = f"level within {size}" if claim.level else f"at most {size} behind" if claim.margin else "ahead"
    return f"{experiment.quality_in(claim.sweep)} of {first} {between} {second} ({limit})"


def _section(one: Measured, figures: Path) -> list[str]:
    experiment, ledger = one.experiment, one.results.ledger
    needs = "" if experiment.data else " --data FILE"
    shared = experiment.shared_tokenizer
    needs += "" if shared is None or made_from_data(shared) else " --tokenizer FOLDER"
    claims = [[row.paper, row.measured, row.verdict] for row in claim_rows(one)]
    parts = [
        f"## {one.title}",
        f"{experiment.question} {experiment.about} Data: {experiment.text}. In the paper: figure {experiment.figure}.",
        f"    candi-lab reproduce {experiment.name} --scale {experiment.scale}{needs}",
        table(["claim", "measured", "verdict"], claims),
        run_tables.training_table(experiment, ledger),
        *run_tables.loss_figure(experiment, ledger, figures),
        *run_tables.measured_text(experiment, ledger),
    ]
    if experiment.overview is not None:
        parts += _overview(one, figures)
    for name in one.sweeps:
        parts += _sweep(one, name, figures)
    return parts


def _sweep(one: Measured, name: str, figures: Path) -> Iterator[str]:
    experiment, ledger, comparison = one.experiment, one.results.ledger, one.sweeps[name]
    grid, stem = experiment.grids[name], figures / f"{experiment.label}-{name}"
    save(frontiers(comparison, run_tables.reference_marks(experiment, ledger)), stem)
    yield f"### {grid.title[0].upper()}{grid.title[1:]}"
    yield f"![{grid.title}](figures/{stem.name}.svg)"
    yield caution(comparison.axes)
    yield from comparison.notes
    claims = [claim for claim in experiment.claims if claim.sweep == name]
    for scorer in other_scorers(comparison):
        marks = run_tables.reference_marks(experiment, ledger, scorer.measure)
        file = stem.with_name(f"{stem.name}-{scorer.name}")
        save(plots.by_other_scorer(comparison, scorer, marks), file)
        yield f"![The same by another scorer](figures/{file.name}.svg)"
        yield from scorer_table(comparison, claims, scorer, experiment.names)
    if grid.property:
        yield from guided.frontier_table(comparison, name, ledger)
        yield from guided.by_temperature(comparison, stem)
    else:
        yield from sweep_sections.quality_over_steps(comparison, stem, grid.title)
        if grid.by_run:
            yield from sweep_sections.frontiers_by_run(comparison, stem, grid.title)
        yield from sweep_sections.diversity_over_steps(comparison)
        yield from sweep_sections.count_rankings(comparison)
        yield from sweep_sections.show_trap(comparison, grid.trap_curves(), stem)
        yield from times_alone(ledger, name, grid.runs, experiment.names)
    yield "<details><summary>The same in numbers</summary>"
    yield from sweep_sections.matched_tables(comparison)
    yield "</details>"


def _overview(one: Measured, figures: Path) -> list[str]:
    experiment, ledger = one.experiment, one.results.ledger
    assert experiment.overview is not None
    runs, against = list(overview(experiment, one.sweeps, ledger)), experiment.overview.against
    quality, stem = experiment.quality_in(next(iter(one.sweeps))), figures / f"{experiment.label}-overview"
    save(plots.over_vocabulary(runs, quality, against), stem)
    return [
        "### As the vocabulary grows",
        f"![{quality} over the vocabulary, and what identifiability predicts](figures/{stem.name}.svg)",
        f"In {quality}, where each is ahead or behind and by how much:",
        word_table(experiment, one.sweeps, ledger),
        "Predicted of each trained run from its own token vectors and noise, at a few positions of the text and "
        "averaged over t: the fraction of identifiable positions, and the rank degradation that its network sees "
        "(1/2: nothing can be told).",
        ratio_table(runs, quality, against),
        *order(runs, against, experiment.axes.measures[1].higher_is_better),
    ]
