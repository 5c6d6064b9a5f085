"""candi frontier"""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jsonargparse import Namespace

from candi.base.errors import UserError
from candi.base.files import write_text
from candi.cli.parsing import add_device, listed, parse, parser
from candi.cli.sampling_flags import (
    add_batch_size,
    add_classifier,
    add_dcbg,
    add_label,
    add_length,
    add_method_options,
    add_seed,
    add_speed,
    add_truncation,
    method_options,
)
from candi.cli.scorer_flags import add_scorers, scorer_names, words_source
from candi.evaluation.compare import Axes, Comparison, compare
from candi.evaluation.points import Point, read_points
from candi.evaluation.provenance import Guide
from candi.evaluation.run_handle import RunHandle
from candi.evaluation.samples import Samples
from candi.evaluation.sweep import Sweep
from candi.evaluation.sweep_settings import SweepSettings
from candi.hub.loading import run_handle
from candi.views import plots
from candi.views.frontier import write_page
from candi.views.tables import latex, markdown, sentence, trap

_POINTS = (".jsonl", ".jsonl.gz", ".jsonl.xz")  # how files of points end


def run(arguments: Sequence[str]) -> None:
    flags = parser(
        "frontier", "RUN [RUN ...] --out FOLDER", "Compare runs by their whole frontiers of diversity and quality."
    )
    flags.add_argument("runs", type=str, nargs="+", help="Runs, checkpoints, or points.jsonl of earlier sweeps.")
    flags.add_argument("--out", type=Path, required=True, help="Folder of the sweep. The same command continues it.")
    flags.add_argument("--steps", type=str, default="8,16,32,64", help="Denoising steps.")
    flags.add_argument("--temperatures", type=str, default="0.7:1.0:0.025", help="LOW:HIGH:STEP, or a list.")
    add_method_options(flags, "A list of")
    flags.add_argument("--n", type=int, default=128, help="Samples a point.")
    add_length(flags)
    flags.add_argument("--characters", type=int | None, default=None, help="Of each text that are scored: for runs of "
                       "different tokenizers, with --diversity word_entropy.")  # fmt: skip
    add_truncation(flags)
    add_seed(flags)
    add_scorers(flags)
    flags.add_argument("--property", type=str | None, default=None, help="Measure a property: qed, rings, logp or "
                       "weight of molecules, charge of proteins, gc of DNA, length …")  # fmt: skip
    add_classifier(flags, several=True)
    add_dcbg(flags, "; of a list each is swept")
    add_label(flags, weight=False)
    flags.add_argument(
        "--weights",
        type=str,
        default="0,1,2,4",
        help="Weights of guidance, by the classifier or by --label: a list or LOW:HIGH:STEP.",
    )
    flags.add_argument(
        "--diversity",
        type=str | None,
        default=None,
        help="entropy, word_entropy, distinct_2, unique_words …",
    )
    flags.add_argument("--quality", type=str | None, default=None, help="perplexity, valid_words, mauve, "
                       "property or valid_molecules.")  # fmt: skip
    add_batch_size(flags, None, "; by default what memory holds")
    add_device(flags, "; auto is every GPU there is")
    flags.add_argument("--workers", type=int | None, default=None, help="Processes; by default one for each GPU.")
    add_speed(flags)
    given = parse(flags, arguments)
    files = [Path(source) for source in given.runs if source.endswith(_POINTS)]
    runs = [source for source in given.runs if not source.endswith(_POINTS)]
    earlier = [point for file in files for point in read_points(file)]
    points = list(earlier)
    if given.label is not None and given.classifiers and _wanted(given.label) != _wanted(given.target):
        raise UserError("--label and --target must ask for the same class, or their points cannot be compared.")
    scorers = scorer_names(given.scorers, given.words or given.property)
    handles = [run_handle(source) for source in runs]
    kinds = {one.kind for one in handles} | {point.provenance.kind or "molecules" for point in earlier}
    axes = _axes(earlier, bool(scorers), given, "molecules" if kinds == {"molecules"} else "sequences")
    if runs:
        points += Sweep(_settings(given, handles, scorers)).go()
    if axes.less and not all(_by_rule(point.cell.guidance) for point in points if point.cell.guidance):
        axes = dataclasses.replace(axes, less=False)
    comparison = compare(points, dataclasses.replace(axes, unit=_unit(points)))
    try:
        _write(given.out, comparison, points, [given.out, *(file.parent for file in files)])
    except OSError as error:
        raise UserError(f"{given.out} cannot be written ({error}); choose another --out.") from None


def _settings(given: Namespace, runs: Sequence[RunHandle], scorers: Sequence[str]) -> SweepSettings:
    same = ("out", "top_k", "top_p", "length", "n", "seed", "batch_size", "device", "workers", "precision", "compile",
            "context", "mauve", "letters", "characters", "target", "reveal", "label")  # fmt: skip
    return SweepSettings(
        runs=runs,
        steps=integers(given.steps),
        temperatures=numbers(given.temperatures),
        options={name: listed(given[name]) for name in method_options() if given[name]},
        scorers=scorers,
        words=words_source(given.words),
        measured_property=given.property,
        classifiers=listed(given.classifiers),
        weights=numbers(given.weights),
        dcbg=listed(given.dcbg or "first-order"),
        **{name: given[name] for name in same},
    )


def integers(text: str) -> list[int]:
    try:
        return list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise UserError(f"{text!r} is no list of whole numbers; write it as 8,16,32.") from None


def numbers(text: str) -> list[float]:
    """0.7:1.0:0.1 with both ends, or 0.7,0.85,1."""
    try:
        if ":" not in text:
            return list(dict.fromkeys(float(part) for part in text.split(",")))
        low, high, step = (float(part) for part in text.split(":"))
        if not (step > 0 and high >= low and (high - low) / step < 10_000):
            raise ValueError
        return [round(low + index * step, 10) for index in range(int(np.floor((high - low) / step + 1e-6)) + 1)]
    except ValueError:
        raise UserError(
            f"{text!r} is no range; write it as LOW:HIGH:STEP (0.7:1.0:0.025) or as a list (0.7,1)."
        ) from None


def _axes(earlier: Sequence[Point], scored: bool, given: Namespace, sequences: str = "molecules") -> Axes:
    """By default perplexity against entropy where there is a scorer, valid against unique words where there is none.

    What cannot be measured is refused before anything is made.
    """
    scored = scored or any("perplexity" in point.measures for point in earlier)
    quality = given.quality or ("property" if given.property else "perplexity" if scored else "valid_words")
    beside = {"perplexity": "entropy", "property": f"unique_{sequences}", "valid_molecules": "unique_molecules"}
    targets = {_wanted(point.cell.guidance.target) for point in earlier if point.cell.guidance}
    targets |= {_wanted(given.target)} if given.classifiers else set()
    targets |= {_wanted(given.label)} if given.label is not None else set()
    if len(targets) > 1 and quality == "property":
        raise UserError("Some points were guided to more of the property, some to less; compare them by themselves.")
    axes = Axes(given.diversity or beside.get(quality, "unique_words"), quality, less=targets == {False})
    _ = axes.measures
    needs = ("words", "mauve", "property", "characters")
    have = {need: bool(given[need]) or bool(earlier) for need in needs} | {"scorers": scored}
    for name, need in (
        ("perplexity", "scorers"),
        ("valid_words", "words"),
        ("word_entropy", "characters"),
        ("unique_words", "words"),
        ("mauve", "mauve"),
        ("property", "property"),
        ("valid_molecules", "property"),
        ("unique_molecules", "property"),
        ("unique_sequences", "property"),
    ):
        if name in (axes.diversity, axes.quality) and not have[need]:
            raise UserError(f"{name} cannot be measured without --{need}; give one, or choose another measure.")
    return axes


def _wanted(target: int | str) -> bool:
    """Whether more of a property is wanted: all but the class below a threshold."""
    return str(target).rpartition("=")[2] not in ("0", "no")


def _unit(points: Sequence[Point]) -> float:
    """1, of a property that is larger than a hundred a hundredth of it: what is compared is its exponential."""
    return max([1.0, *(abs(point.measures.get("property") or 0.0) / 100 for point in points)])


def _by_rule(guide: Guide) -> bool:
    """Whether its classes are less and more of something."""
    return ":" in guide.label or ">=" in guide.label


def _write(out: Path, comparison: Comparison, points: Sequence[Point], folders: Sequence[Path]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    samples: dict[str, Samples] = {}
    for folder in folders:
        for point in points:
            path = folder / "samples" / f"{point.key}.json"
            if point.key not in samples and path.exists():
                samples[point.key] = Samples.read(path)
    plots.save(plots.frontiers(comparison), out / "frontier")
    write_text(out / "frontier.md", markdown(comparison))
    write_text(out / "frontier.tex", latex(comparison))
    write_page(out / "report.html", comparison, samples)
    for group in comparison.groups:
        for pair in group.pairs:
            print(f"{group.steps} steps: {sentence(pair, comparison.axes)}")
        if len(orders := trap(group)) > 1:
            print(f"{group.steps} steps: single temperatures can give {len(orders)} different rankings.")
    print(f"Open {out / 'report.html'} in a browser; figures and tables lie beside it.", file=sys.stderr)
