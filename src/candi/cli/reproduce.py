"""candi reproduce"""

import sys
from collections.abc import Sequence
from pathlib import Path

from candi import plots
from candi.cli.parsing import parse, parser
from candi.errors import UserError
from candi.reproduce.experiment import SCALES, experiments, read
from candi.reproduce.jobs import beside
from candi.reproduce.of_runs import places
from candi.reproduce.page import comparisons, verdicts
from candi.reproduce.reproduce import Reproduction


def run(arguments: Sequence[str]) -> None:
    flags = parser("reproduce", "NAME --scale SCALE", "Run an experiment from data to figure, or go on with it.")
    known = ", ".join(experiments())
    flags.add_argument("name", type=str, help=f"An experiment ({known}), or the path of a YAML file of your own.")
    flags.add_argument("--scale", type=str, default="small", help=f"{', '.join(SCALES)}; toy takes minutes on a CPU.")
    flags.add_argument("--data", type=str | None, default=None, help="The text; toy scales bring their own.")
    flags.add_argument("--out", type=Path | None, default=None, help="Folder of runs and samples; by default "
                       "runs/NAME-SCALE. The same command continues it.")  # fmt: skip
    flags.add_argument("--results", type=Path, default=Path("results"), help="Folder of points and ledgers.")
    flags.add_argument("--runs", type=str | None, default=None, help="A list of some runs; by default all.")
    flags.add_argument("--scorers", type=str | None, default=None, help="Other judges than the experiment names.")
    flags.add_argument("--tokenizer", type=str | None, default=None, help="Where its tokenizer lies, if it needs one.")
    flags.add_argument("--device", type=str, default="auto", help="Where samples are made: auto, cpu or cuda.")
    flags.add_argument("--jobs", type=int, default=1, help="Processes that share the work on one device; small runs "
                       "alone leave a GPU idle. All but the first write to OUT/jobs.")  # fmt: skip
    flags.add_argument("--shared", type=int, default=1, help="How many times this command was begun beside itself "
                       "to share the work: told with the times.")  # fmt: skip
    given = parse(flags, arguments)
    for name in ("jobs", "shared"):
        if given[name] < 1:
            raise UserError(f"--{name} must be at least 1, not {given[name]}.")
    experiment = read(given.name, given.scale)
    experiment = experiment.adapted(given.tokenizer, given.scorers.split(",") if given.scorers else ())
    data = given.data or experiment.data
    if data is None:
        raise UserError(f"{experiment.name} needs {experiment.text}; give it with --data FILE.")
    work, results = given.out or Path("runs") / experiment.label, given.results / experiment.label
    try:
        reproduction = Reproduction(experiment, data, work, results, given.device, given.shared * given.jobs)
        only = given.runs.split(",") if given.runs else ()
        reproduction.check(only)  # before there are processes
        with beside(given.jobs - 1, reproduction, only):
            reproduction.go(only)
        for name, comparison in comparisons(experiment, results).items():
            plots.save(plots.frontiers(comparison, places(experiment, reproduction.kept.ledger)), work / name)
    except OSError as error:
        raise UserError(f"Reading or writing failed ({error}); mend that and run the same command again.") from None
    if waiting := sorted(path.name for path in results.glob("*.samples.jsonl")):
        print(f"Set aside until the same command is run where there is RDKit: {', '.join(waiting)}.", file=sys.stderr)
    print(*verdicts(experiment, results), sep="\n")
    print(f"Points are in {results}, figures in {work}.", file=sys.stderr)
