"""candi-lab reproduce"""

import sys
from collections.abc import Sequence
from pathlib import Path

from candi.base.errors import UserError
from candi.cli.parsing import add_device, listed, parse, parser
from candi.views.plots import frontiers, save
from candi_lab.report.page import Measured, compare_sweeps, verdict_lines
from candi_lab.report.run_tables import reference_marks
from candi_lab.runner.experiment import SCALES, experiments, read
from candi_lab.runner.jobs import beside
from candi_lab.runner.runner import Reproduction


def run(arguments: Sequence[str]) -> None:
    about = "Run an experiment from data to figure, or continue it."
    flags = parser("reproduce", "NAME --scale SCALE", about, program="candi-lab")
    known = ", ".join(experiments())
    flags.add_argument("name", type=str, help=f"An experiment ({known}), or the path of a YAML file of your own.")
    flags.add_argument("--scale", type=str, default="small", help=f"{', '.join(SCALES)}; toy takes minutes on a CPU.")
    flags.add_argument("--data", type=str | None, default=None, help="The text; toy scales bring their own.")
    flags.add_argument("--out", type=Path | None, default=None, help="Folder of runs and samples; by default "
                       "runs/NAME-SCALE. The same command continues it.")  # fmt: skip
    flags.add_argument("--results", type=Path, default=Path("lab/results"), help="Folder of points and ledgers.")
    flags.add_argument("--runs", type=str | None, default=None, help="A list of some runs; by default all.")
    flags.add_argument("--scorers", type=str | None, default=None, help="Other scorers than the experiment names.")
    flags.add_argument("--tokenizer", type=str | None, default=None, help="The place of its tokenizer's files.")
    add_device(flags, "; where samples are made")
    flags.add_argument("--jobs", type=int, default=1, help="Processes that share the work on one device; small runs "
                       "alone leave a GPU idle. All but the first write to OUT/jobs.")  # fmt: skip
    flags.add_argument("--shared", type=int, default=1, help="How many times this command was begun beside itself "
                       "to share the work; it is noted with the times.")  # fmt: skip
    given = parse(flags, arguments)
    for name in ("jobs", "shared"):
        if given[name] < 1:
            raise UserError(f"--{name} must be at least 1, not {given[name]}.")
    experiment = read(given.name, given.scale).adapted(given.tokenizer, listed(given.scorers))
    data = given.data or experiment.data
    if data is None:
        raise UserError(f"{experiment.name} needs {experiment.text}; give it with --data FILE.")
    work, results = given.out or Path("runs") / experiment.label, given.results / experiment.label
    reproduction = Reproduction(experiment, data, work, results, given.device, given.shared * given.jobs)
    only = listed(given.runs)
    try:
        reproduction.check(only)  # before there are processes
        with beside(given.jobs - 1, reproduction, only):
            reproduction.go(only)
        measured = Measured(experiment, reproduction.kept, compare_sweeps(reproduction.kept))
        for name, comparison in measured.sweeps.items():
            save(frontiers(comparison, reference_marks(experiment, reproduction.kept.ledger)), work / name)
    except OSError as error:
        raise UserError(f"Reading or writing failed ({error}); mend that and run the same command again.") from None
    if waiting := sorted(path.name for path in results.glob("*.samples.jsonl")):
        print(f"Set aside until the same command is run where there is RDKit: {', '.join(waiting)}.", file=sys.stderr)
    print(*verdict_lines(measured), sep="\n")
    print(f"Points are in {results}, figures in {work}.", file=sys.stderr)
