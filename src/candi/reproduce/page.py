"""docs/results.md and its figures, from the files under results/ and from nothing else."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from candi import plots
from candi.data.tokenizer import made_from_data
from candi.evaluation.card import Card
from candi.evaluation.choice import Choice
from candi.evaluation.compare import Comparison, compare
from candi.evaluation.over_steps import over_steps
from candi.evaluation.single_temperature import winners
from candi.evaluation.table import read_lines
from candi.files import write_text
from candi.report.tables import caution, matched_rows, table
from candi.reproduce import guided
from candi.reproduce.advice import advised, choices, into
from candi.reproduce.declared import CLASSIFIER, Claim, Grid
from candi.reproduce.experiment import SCALES, Experiment, experiments, read
from candi.reproduce.ledger import Ledger
from candi.reproduce.overview import in_words, order, overview
from candi.reproduce.overview import told as overview_table
from candi.reproduce.results import Results
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
    parts = [
        f"## {_title(experiment)}",
        f"{experiment.question} {experiment.about} Data: {experiment.text}. In the paper: figure {experiment.figure}.",
        f"    candi reproduce {experiment.name} --scale {experiment.scale}{data}",
        table(["the paper says", "measured", "verdict"], claims),
        _trained(experiment, Results(experiment, folder).ledger),
        *_learned(experiment, Results(experiment, folder).ledger, figures),
    ]
    if experiment.overview is not None:
        parts += _overview(experiment, found, Results(experiment, folder).ledger, figures)
    for name, comparison in found.items():
        stem = figures / f"{experiment.label}-{name}"
        plots.save(plots.frontiers(comparison), stem)
        title = experiment.grids[name].title
        parts += [f"### {title[0].upper()}{title[1:]}", f"![{title}](figures/{stem.name}.svg)"]
        parts += [caution(comparison.axes), *comparison.notes]
        if experiment.grids[name].property:
            parts += guided.frontiers(comparison, name, Results(experiment, folder).ledger)
            parts += guided.by_temperature(comparison, stem)
        else:
            parts += [*_over_steps(comparison, stem, title), *_along(comparison), *_trap(comparison)]
            parts += _shown_trap(comparison, experiment.grids[name].trap, stem)
            parts += each_took(Results(experiment, folder).ledger, name, experiment.grids[name].runs)
        parts += ["<details><summary>The same in numbers</summary>", *_matched(comparison), "</details>"]
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


def _over_steps(comparison: Comparison, stem: Path, title: str) -> list[str]:
    found = over_steps(comparison) if len(comparison.groups) > 1 else None
    if found is None:
        return []
    plots.save(plots.over_steps(found, comparison.labels), stem.with_name(f"{stem.name}-steps"))
    return [f"![{title}, over the number of steps](figures/{stem.name}-steps.svg)"]


def _along(comparison: Comparison) -> list[str]:
    """What more steps do to diversity where the temperature stays: they too move samples along a frontier."""
    curves = [curve for group in comparison.groups for curve in group.curves if not curve.steps_fixed]
    found = {
        (curve.label, line["card"]["temperature"], curve.steps): value
        for curve in curves
        for line, value in zip(curve.lines, curve.values[0], strict=True)
    }
    labels, steps = dict.fromkeys(curve.label for curve in curves), sorted({curve.steps for curve in curves})
    shared = [
        t for t in sorted({t for _, t, _ in found}) if all((label, t, s) in found for label in labels for s in steps)
    ]
    if len(steps) < 2 or not shared:
        return []
    middle, diversity = shared[len(shared) // 2], comparison.labels[0]
    moved = (
        f"{label} {found[label, middle, steps[0]]:.3f} to {found[label, middle, steps[-1]]:.3f}" for label in labels
    )
    return [
        f"At one temperature ({middle:g}), {steps[-1]} steps in the place of {steps[0]} change the {diversity}: "
        f"{', '.join(moved)}. That is a way along the curves; what steps gain is the distance between them."
    ]


def _trap(comparison: Comparison) -> list[str]:
    """The rankings of its curves that somebody finds who chooses a temperature for each."""
    counts = [(group.steps, len(group.rankings)) for group in comparison.groups if group.rankings is not None]
    if not any(count > 1 for _, count in counts):
        return []
    told = ", ".join(f"{count} at {steps} steps" for steps, count in counts)
    return [f"The single-temperature trap: one temperature for each curve can give so many different rankings: {told}."]


def _shown_trap(comparison: Comparison, labels: Sequence[str], stem: Path) -> list[str]:
    """Each of some curves as the best of them, where one temperature for each lets it be."""
    drawn = {curve.label for group in comparison.groups for curve in group.curves}
    shown = [label for label in labels if label in drawn]
    found = winners(comparison, shown) if shown else []
    if len(found) < 2:
        return []
    plots.save(plots.single_temperatures(found, comparison.labels), stem.with_name(f"{stem.name}-trap"))
    told = "; ".join(
        f"{one.winner} with {', '.join(f'{label} at {t:g}' for label, t in one.temperatures.items())}" for one in found
    )
    return [
        f"![The same points at one temperature for each](figures/{stem.name}-trap.svg)",
        f"So, from the same points, the best at every number of steps is: {told}. What gives the choice "
        f"away is the {comparison.labels[0]}, whose range is in the legends.",
    ]


def _matched(comparison: Comparison) -> Iterator[str]:
    diversity, quality = comparison.labels
    for group in comparison.groups:
        head, rows = matched_rows(group)
        yield f"{group.steps} steps, {quality} by {diversity}"
        yield table(head, rows)


def _trained(experiment: Experiment, ledger: Ledger) -> str:
    rows, missing = [], []
    for run in experiment.runs:
        entry = ledger.find("train", run)
        if entry is None:
            missing.append(run)
            continue
        loss = "" if entry["valid_loss"] is None else f"{entry['valid_loss']:.3f}"
        minutes = f"{entry['seconds'] / 60:.1f}" + (f" ({entry['shared']} runs at once)" if "shared" in entry else "")
        cells = [f"{entry['steps']:,}", f"{entry['tokens'] / 1e6:,.0f}M", loss, minutes]
        rows.append([run, *cells, entry["device"]])
    told = table(["run", "steps", "tokens", "validation loss", "minutes of training", "on"], rows)
    if len({experiment.runs[run].get("method") for run in experiment.runs if run not in missing}) > 1:
        told += "\n\nA loss is its method's own objective, in nats a token: between methods they do not compare."
    told += f"\n\nNot run yet: {', '.join(missing)}." if missing else ""
    return told + _classifiers(experiment, ledger)


def _learned(experiment: Experiment, ledger: Ledger, figures: Path) -> list[str]:
    """The losses of the runs of the first sweep while they were trained, where the ledger has kept them."""
    swept = next(iter(experiment.grids.values())).runs
    entries = {run: ledger.find("train", run) for run in experiment.runs if run in swept}
    losses = {run: entry["losses"] for run, entry in entries.items() if entry is not None and "losses" in entry}
    if not losses:
        return []
    stem = figures / f"{experiment.label}-losses"
    plots.save(plots.losses(losses), stem)
    return [
        f"![Losses while training](figures/{stem.name}.svg)",
        "Heights do not compare; when a line begins to fall, and whether it falls still where it ends, does.",
    ]


def _classifiers(experiment: Experiment, ledger: Ledger) -> str:
    """Those that guide, and how well they tell held-out molecules apart."""
    entries = {name: ledger.find(CLASSIFIER, name) for name in experiment.classifiers}
    rows = [
        [name, entry["kind"], f"noise of {entry['reads']}" if entry["reads"] else "clean molecules",
         f"{entry['steps']:,}", "" if entry["area"] is None else f"{entry['area']:.3f}"]
        for name, entry in entries.items() if entry is not None
    ]  # fmt: skip
    head = ["classifier", "kind", "has read", "steps", "area under the curve"]
    return f"\n\n{table(head, rows)}" if rows else ""


def verdicts(experiment: Experiment, folder: Path) -> Sequence[str]:
    """The verdicts as lines for a terminal."""
    found = comparisons(experiment, folder)
    return [f"{outcome}: {paper} {measured}" for paper, measured, outcome in judged(experiment, found)]
