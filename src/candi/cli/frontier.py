"""candi frontier"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jsonargparse import Namespace

from candi import plots
from candi.cli.judges import add_judges, scorers
from candi.cli.parsing import parse, parser
from candi.cli.walking import add_speed, method_options
from candi.errors import UserError
from candi.evaluation.compare import Axes, Comparison, compare
from candi.evaluation.samples import Samples
from candi.evaluation.sweep import Sweep
from candi.evaluation.sweep_settings import SweepSettings
from candi.evaluation.table import Line, read_lines
from candi.files import write_text
from candi.report.frontier import write_page
from candi.report.tables import latex, markdown, sentence, trap


def run(arguments: Sequence[str]) -> None:
    flags = parser(
        "frontier", "RUN [RUN ...] --out DIR", "Compare runs by their whole frontiers of diversity and quality."
    )
    flags.add_argument("runs", type=str, nargs="+", help="Runs, checkpoints, or points.jsonl of earlier sweeps.")
    flags.add_argument("--out", type=Path, required=True, help="Folder of the sweep. The same command continues it.")
    flags.add_argument("--steps", type=str, default="8,16,32,64", help="Denoising steps.")
    flags.add_argument("--temperatures", type=str, default="0.7:1.0:0.025", help="LOW:HIGH:STEP, or a list.")
    for name, values in method_options().items():
        flags.add_argument(f"--{name}", type=str | None, default=None, help=f"A list of: {values}.")
    flags.add_argument("--n", type=int, default=128, help="Samples a point.")
    flags.add_argument("--length", type=int | None, default=None, help="Tokens in each; by default as in training.")
    flags.add_argument("--characters", type=int | None, default=None, help="Of each text that are judged: for runs of "
                       "different tokenizers, with --diversity word_entropy.")  # fmt: skip
    flags.add_argument("--top_k", type=int | None, default=None, help="Only the likeliest tokens of each position.")
    flags.add_argument("--nucleus", type=float | None, default=None, help="Only those that hold this probability.")
    flags.add_argument("--seed", type=int, default=0, help="Of the samples.")
    add_judges(flags)
    flags.add_argument("--molecules", type=str | None, default=None, help="Samples are molecules; measure qed, rings, "
                       "logp or weight.")  # fmt: skip
    flags.add_argument(
        "--classifier",
        type=str | None,
        default=None,
        help="Guide by a classifier: a folder, or the property of one that came with the run; of a list each run takes "
        "one that fits.",
    )
    flags.add_argument("--target", type=int, default=1, help="The label that is wanted of it.")
    flags.add_argument("--label", type=int | None, default=None, help="Ask runs that know labels for one.")
    flags.add_argument("--weights", type=str, default="0,1,2,4", help="Weights of guidance: a list or LOW:HIGH:STEP.")
    flags.add_argument("--reveal", type=float, default=0.0, help="How much it tilts revealed tokens.")
    flags.add_argument(
        "--diversity",
        type=str | None,
        default=None,
        help="entropy, word_entropy, distinct_2, unique_words …",
    )
    flags.add_argument("--quality", type=str | None, default=None, help="perplexity, valid_words, mauve, "
                       "property or valid_molecules.")  # fmt: skip
    flags.add_argument("--batch", type=int | None, default=None, help="Samples at once; by default what memory holds.")
    flags.add_argument("--device", type=str, default="auto", help="auto, cpu or cuda; auto is every GPU there is.")
    flags.add_argument("--workers", type=int | None, default=None, help="Processes; by default one for each GPU.")
    add_speed(flags)
    given = parse(flags, arguments)
    earlier = [line for source in given.runs if source.endswith(".jsonl") for line in read_lines(Path(source))]
    runs = [source for source in given.runs if not source.endswith(".jsonl")]
    lines = list(earlier)
    if given.label is not None and given.classifier and given.label != given.target:
        raise UserError("--label and --target must ask for the same, or their points cannot be compared.")
    names = scorers(given.scorer, given.words or given.molecules)
    axes = _axes(earlier, bool(names), given)
    if runs:
        lines += Sweep(
            SweepSettings(
                runs=runs, out=given.out, steps=integers(given.steps), temperatures=numbers(given.temperatures),
                options={name: given[name].split(",") for name in method_options() if given[name]},
                top_k=given.top_k, nucleus=given.nucleus, length=given.length, n=given.n, seed=given.seed,
                batch=given.batch, device=given.device, workers=given.workers, precision=given.precision,
                compile=given.compile, scorers=names, context=given.context,
                words=given.words, mauve=given.mauve, letters=given.letters, characters=given.characters,
                molecules=given.molecules, target=given.target,
                classifiers=given.classifier.split(",") if given.classifier else (),
                weights=numbers(given.weights), reveal=given.reveal, label=given.label,
            )
        ).go()  # fmt: skip
    comparison = compare(lines, axes)
    folders = [given.out, *(Path(source).parent for source in given.runs if source.endswith(".jsonl"))]
    try:
        _write(given.out, comparison, lines, folders)
    except OSError as error:
        raise UserError(f"{given.out} cannot be written ({error}); choose another --out.") from None


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


def _axes(earlier: Sequence[Line], scored: bool, given: Namespace) -> Axes:
    """By default perplexity against entropy where there is a scorer, valid against unique words where there is none.

    What cannot be measured is told before anything is made.
    """
    scored = scored or any("perplexity" in line["measures"] for line in earlier)
    quality = given.quality or ("property" if given.molecules else "perplexity" if scored else "valid_words")
    beside = {"perplexity": "entropy", "property": "unique_molecules", "valid_molecules": "unique_molecules"}
    targets = {line["card"]["guidance"]["target"] for line in earlier if line["card"].get("guidance")}
    targets |= {given.target} if given.classifier else set()
    targets |= {given.label} if given.label is not None else set()
    if len(targets) > 1:
        raise UserError("Some points were guided to more of the property, some to less; compare them by themselves.")
    less = targets == {0}
    axes = Axes(given.diversity or beside.get(quality, "unique_words"), quality, less)
    _ = axes.measures
    needs = ("words", "mauve", "molecules", "characters")
    have = {need: bool(given[need]) or bool(earlier) for need in needs} | {"scorer": scored}
    for name, need in (
        ("perplexity", "scorer"),
        ("valid_words", "words"),
        ("word_entropy", "characters"),
        ("unique_words", "words"),
        ("mauve", "mauve"),
        ("property", "molecules"),
        ("valid_molecules", "molecules"),
        ("unique_molecules", "molecules"),
    ):
        if name in (axes.diversity, axes.quality) and not have[need]:
            raise UserError(f"{name} cannot be measured without --{need}; give one, or choose another measure.")
    return axes


def _write(out: Path, comparison: Comparison, lines: Sequence[Line], folders: Sequence[Path]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    samples: dict[str, Samples] = {}
    for folder in folders:
        for line in lines:
            path = folder / "samples" / f"{line['key']}.json"
            if line["key"] not in samples and path.exists():
                samples[line["key"]] = Samples.read(path)
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
