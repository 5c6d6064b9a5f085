"""What the page of results says of the runs of an experiment, and of their data."""

from pathlib import Path

from candi.base.markdown import table
from candi.views.plots import save
from candi_lab.report import plots
from candi_lab.runner.experiment import Experiment
from candi_lab.runner.ledger import Ledger
from candi_lab.runner.reference_points import SHUFFLED, TEXT
from candi_lab.runner.schema import CLASSIFIER, REFERENCE, TRAIN


def measured_text(experiment: Experiment, ledger: Ledger) -> list[str]:
    """The data, measured as samples are."""
    diversity, quality = (measure.label for measure in experiment.axes.measures)
    parts = []
    for name in (TEXT, SHUFFLED):
        if (entry := ledger.find(REFERENCE, name)) is not None:
            found = entry["measures"]
            costs = [_by(key, value) for key, value in found.items() if key.startswith(experiment.axes.quality)]
            parts.append(f"{name}: {diversity} {found[experiment.axes.diversity]:.2f}, {quality} {', '.join(costs)}")
    return [f"For comparison, measures of text that was kept from training: {'; '.join(parts)}."] if parts else []


def _by(measure: str, value: float) -> str:
    """A quality, and the scorer if it is not the first."""
    _, colon, scorer = measure.partition(":")
    return (f"{value:,.0f}" if value >= 100 else f"{value:.3g}") + (f" by {scorer}" if colon else "")


def reference_marks(
    experiment: Experiment, ledger: Ledger, quality: str | None = None
) -> dict[str, tuple[float, float]]:
    """The same for a figure, in the experiment's quality or another one."""
    quality = quality or experiment.axes.quality
    entries = {name: ledger.find(REFERENCE, name) for name in (TEXT, SHUFFLED)}
    return {
        name: (entry["measures"][experiment.axes.diversity], entry["measures"][quality])
        for name, entry in entries.items()
        if entry is not None and quality in entry["measures"]
    }


def training_table(experiment: Experiment, ledger: Ledger) -> str:
    rows, missing = [], []
    for run in experiment.runs:
        entry = ledger.find(TRAIN, run)
        if entry is None:
            missing.append(experiment.names.get(run, run))
            continue
        loss = "" if entry["valid_loss"] is None else f"{entry['valid_loss']:.3f}"
        minutes = f"{entry['seconds'] / 60:.1f}" + (f" ({entry['shared']} runs at once)" if "shared" in entry else "")
        cells = [f"{entry['steps']:,}", f"{entry['tokens'] / 1e6:,.0f}M", loss, minutes]
        rows.append([experiment.names.get(run, run), f"`{run}`", *cells, entry["device"]])
    text = table(["", "run", "steps", "tokens", "validation loss", "minutes of training", "on"], rows)
    if len({experiment.runs[run].get("method") for run in experiment.runs if run not in missing}) > 1:
        text += "\n\nA loss is its method's own objective, in nats a token: between methods they do not compare."
    text += f"\n\nNot run yet: {', '.join(missing)}." if missing else ""
    return text + _classifiers(experiment, ledger)


def loss_figure(experiment: Experiment, ledger: Ledger, figures: Path) -> list[str]:
    """The losses of all but scorer runs while they were trained, if the ledger has kept them."""
    entries = {run: ledger.find(TRAIN, run) for run in experiment.runs if experiment.grids_of(run)}
    losses = {
        experiment.names.get(run, run): entry["losses"]
        for run, entry in entries.items()
        if entry is not None and entry.get("losses")
    }
    if not losses:
        return []
    stem = figures / f"{experiment.label}-losses"
    save(plots.losses(losses), stem)
    return [
        f"![Losses while training](figures/{stem.name}.svg)",
        "Between methods heights do not compare. A line that still falls at its end belongs to a run that could learn "
        "more; one that falls in stairs begins the text anew at each.",
    ]


def _classifiers(experiment: Experiment, ledger: Ledger) -> str:
    """Classifiers, and how well they tell held-out molecules apart."""
    entries = {name: ledger.find(CLASSIFIER, name) for name in experiment.classifiers}
    rows = [
        [name, entry["kind"], f"noise of {entry['reads']}" if entry["reads"] else "clean molecules",
         f"{entry['steps']:,}", "" if entry["area"] is None else f"{entry['area']:.3f}"]
        for name, entry in entries.items() if entry is not None
    ]  # fmt: skip
    head = ["classifier", "kind", "has read", "steps", "area under the curve"]
    return f"\n\n{table(head, rows)}" if rows else ""
