"""docs/results.md and its figures, from the files under results/ and from nothing else."""

from collections.abc import Sequence
from pathlib import Path

from candi import plots
from candi.data.tokenizer import made_from_data
from candi.evaluation.card import Card
from candi.evaluation.choice import Choice
from candi.evaluation.compare import Comparison, compare
from candi.evaluation.table import read_lines
from candi.files import write_text
from candi.report.tables import caution, table
from candi.reproduce import guided, of_runs, of_sweeps
from candi.reproduce.advice import advised, choices, into
from candi.reproduce.declared import Claim, Grid
from candi.reproduce.experiment import SCALES, Experiment, experiments, read
from candi.reproduce.ledger import Ledger
from candi.reproduce.overview import in_words, order, overview
from candi.reproduce.overview import told as overview_table
from candi.reproduce.results import Results
from candi.reproduce.second_opinion import other_judges, second_opinion
from candi.reproduce.times import each_took
from candi.reproduce.verdict import MISSING, findings, verdict

_HEAD = """# Results

This page and its figures are written by `make results` from the files under `results/`, which `candi reproduce` wrote:
points with their cards, and a ledger of what was trained, where and for how long. To run an experiment again:

    candi reproduce NAME --scale paper|small|toy --data FILE

A claim of the paper is held against whole frontiers. The ratio (of properties the difference) is taken at the same
diversity and averaged over the range that both curves reach; in brackets its 95% interval over samples. *agrees*: the
interval lies where the claim says; *disagrees*: it lies elsewhere; *not settled*: it reaches across, or a run that is
ahead on average is surely behind on more than a tenth of the range. One training run stands behind every curve, so an
interval says nothing about other seeds of training."""


def write(results: Path, docs: Path, readme: Path | None = None) -> Path:
    """The page, a figure for every sweep, and the advice of a README."""
    page = docs / "results.md"
    short: list[list[str]] = []
    parts: list[str] = []
    advice: list[str] = []
    choice: list[Choice] = []
    for folder, experiment in _found(results):
        Results(experiment, folder).measure()
        found = comparisons(experiment, folder)
        if not found:  # a judge, perhaps, and runs that are still to be swept
            continue
        claims = judged(experiment, found)
        short += [[claim, _title(experiment), outcome] for claim, _, outcome in claims if outcome != MISSING]
        advice += advised(experiment, found)
        choice += choices(experiment, found)
        parts += _section(experiment, folder, docs / "figures", found, claims)
    if short:
        parts = ["## In short", table(["the paper says", "tried in", "verdict"], short), *parts]
    parts = [_HEAD, *parts]
    page.parent.mkdir(parents=True, exist_ok=True)
    write_text(page, "\n\n".join(parts) + "\n")
    if choice:
        plots.save(plots.choices(choice), docs / "figures" / "choice")
    if readme is not None:
        into(readme, advice)
    return page


def comparisons(experiment: Experiment, folder: Path) -> dict[str, Comparison]:
    """Of every sweep that has points."""
    found = {}
    for name, grid in experiment.grids.items():
        lines = read_lines(folder / f"{name}.jsonl") if (folder / f"{name}.jsonl").exists() else []
        planned = [line for line in lines if _planned(line["card"], grid, experiment.n)]
        if planned:
            found[name] = compare(planned, experiment.axes, pooled=True)
    return found


def _planned(card: Card, grid: Grid, n: int) -> bool:
    """Whether a point belongs to the grid as it is now: an earlier one may have left others."""
    steps = card["steps_fixed"] or card["steps"] in grid.steps
    options = all(value in grid.options.get(name, [value]) for name, value in card["options"].items())
    walked = card["run"] in grid.runs and card["n"] == n and steps and card["temperature"] in grid.temperatures
    return walked and options and _guided_as_planned(card["run"], card.get("guidance"), grid)


def _guided_as_planned(run: str, guidance: Card | None, grid: Grid) -> bool:
    if guidance is None:
        return run not in grid.labels and not grid.classifiers.get(run)
    if guidance["classifier"] is None:
        return run in grid.labels and guidance["weight"] in grid.label_weights
    judged = guidance["classifier"] in grid.classifiers.get(run, [])
    # discrete guidance tilts nothing, whatever the grid says
    tilted = guidance["noise"] is not None or guidance["reveal"] in grid.reveals
    return judged and guidance["weight"] in grid.weights and tilted


def judged(experiment: Experiment, found: dict[str, Comparison]) -> list[list[str]]:
    """A row for each claim: what the paper says, what was measured, the verdict."""
    rows = []
    for claim in experiment.claims:
        some = findings(claim, found[claim.sweep]) if claim.sweep in found else []
        asked, limit = _asked(experiment, claim)
        measured = MISSING if verdict(some) == MISSING else "; ".join(map(str, some))
        rows.append([claim.paper, f"{asked} ({limit}): {measured}", verdict(some)])
    return rows


def _asked(experiment: Experiment, claim: Claim) -> tuple[str, str]:
    """What is compared, and what the claim makes of it."""
    additive = experiment.axes.measures[1].additive
    asked = (
        f"{experiment.quality_in(claim.sweep)} of {claim.first} {'minus that of' if additive else '/'} {claim.second}"
    )
    size = f"{claim.margin:g}" if additive else f"{100 * claim.margin:g}%"
    limit = f"level within {size}" if claim.level else f"at most {size} behind" if claim.margin else "ahead"
    return asked, limit


def _found(results: Path) -> list[tuple[Path, Experiment]]:
    """The largest scale of each experiment first."""
    every = (read(name, scale) for name in experiments() for scale in reversed(SCALES))
    found = [(results / experiment.label, experiment) for experiment in every]
    return sorted((one for one in found if one[0].is_dir()), key=lambda one: one[1].chapter)


def _title(experiment: Experiment) -> str:
    return f"{experiment.title} ({experiment.scale} scale)"


def _section(
    experiment: Experiment, folder: Path, figures: Path, found: dict[str, Comparison], claims: list[list[str]]
) -> list[str]:
    data = "" if experiment.data else " --data FILE"
    shared = experiment.shared_tokenizer
    data += "" if shared is None or made_from_data(shared) else " --tokenizer FOLDER"
    ledger = Results(experiment, folder).ledger
    parts = [
        f"## {_title(experiment)}",
        f"{experiment.question} {experiment.about} Data: {experiment.text}. In the paper: figure {experiment.figure}.",
        f"    candi reproduce {experiment.name} --scale {experiment.scale}{data}",
        table(["the paper says", "measured", "verdict"], claims),
        of_runs.trained(experiment, ledger),
        *of_runs.learning(experiment, ledger, figures),
        *of_runs.measured_text(experiment, ledger),
    ]
    if experiment.overview is not None:
        parts += _overview(experiment, found, ledger, figures)
    for name, comparison in found.items():
        stem = figures / f"{experiment.label}-{name}"
        grid = experiment.grids[name]
        title = grid.title
        plots.save(plots.frontiers(comparison, of_runs.places(experiment, ledger)), stem)
        parts += [f"### {title[0].upper()}{title[1:]}", f"![{title}](figures/{stem.name}.svg)"]
        parts += [caution(comparison.axes), *comparison.notes]
        claims_here = [claim for claim in experiment.claims if claim.sweep == name]
        for measure in other_judges(comparison):
            marks, drawn = of_runs.places(experiment, ledger, measure), f"{stem.name}-{measure.partition(':')[2]}"
            plots.save(plots.by_another_judge(comparison, measure, marks), stem.with_name(drawn))
            parts += [
                f"![The same by another judge](figures/{drawn}.svg)",
                *second_opinion(comparison, claims_here, measure),
            ]
        if grid.property:
            parts += guided.frontiers(comparison, name, ledger)
            parts += guided.by_temperature(comparison, stem)
        else:
            parts += of_sweeps.quality_over_steps(comparison, stem, title)
            parts += [*of_sweeps.along(comparison), *of_sweeps.trap(comparison)]
            parts += of_sweeps.shown_trap(comparison, grid.trap, stem)
            parts += each_took(ledger, name, grid.runs)
        parts += ["<details><summary>The same in numbers</summary>", *of_sweeps.matched(comparison), "</details>"]
    return parts


def _overview(experiment: Experiment, found: dict[str, Comparison], ledger: Ledger, figures: Path) -> list[str]:
    assert experiment.overview is not None
    runs, against = list(overview(experiment, found, ledger)), experiment.overview.against
    quality, stem = experiment.quality_in(next(iter(found))), figures / f"{experiment.label}-overview"
    plots.save(plots.over_vocabulary(runs, quality, against), stem)
    return [
        "### As the vocabulary grows",
        f"![{quality} over the vocabulary, and what identifiability predicts](figures/{stem.name}.svg)",
        f"In {quality}, where each is ahead or behind and by how much:",
        in_words(experiment, found, ledger),
        "Predicted of each trained run from its own token vectors and noise, at a few positions of the text and "
        "averaged over the walk: the share of positions that can be told, and the rank degradation that its network "
        "sees (1/2: nothing can be told).",
        overview_table(runs, quality, against),
        *order(runs, against, experiment.axes.measures[1].higher_is_better),
    ]


def verdicts(experiment: Experiment, folder: Path) -> Sequence[str]:
    """The verdicts as lines for a terminal."""
    found = comparisons(experiment, folder)
    return [f"{outcome}: {paper} {measured}" for paper, measured, outcome in judged(experiment, found)]
