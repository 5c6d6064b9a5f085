"""candi-lab figures"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from matplotlib.figure import Figure

from candi.base.errors import UserError, unknown
from candi.base.files import write_text
from candi.cli.parsing import parse, parser
from candi.evaluation.scorers import SMOLLM2
from candi.views.plots import save
from candi_lab.studies import plots, studies, windows
from candi_lab.studies.rates import rate_table, rates
from candi_lab.studies.tables import load_table

ALL = "all"


@dataclass(frozen=True)
class Study:
    """Rows of numbers, and the figure of them."""

    about: str
    rows: Callable[[Namespace], list[studies.Row]]
    draw: Callable[[Sequence[Mapping[str, Any]]], Figure]


def _embeddings(given: Namespace) -> list[studies.Row]:
    if given.draws < 8:
        raise UserError(f"--draws must be at least 8, not {given.draws}.")
    return studies.embeddings(load_table(given.table), Path(given.table).name, draws=given.draws)


_STUDIES = {
    "curves": Study("rho and r against the noise, for several vocabularies", lambda _: studies.curves(), plots.curves),
    "validation": Study(
        "the formulas against simulation", lambda given: studies.validation(points=given.points), plots.validation
    ),
    "kernels": Study(
        "r against rho under the Gaussian and the hybrid kernel", lambda _: studies.kernels(), plots.kernels
    ),
    "embeddings": Study(
        "a learned table against random ones of the same mean and variance", _embeddings, plots.embeddings
    ),
    "rates": Study(
        "how often equal and different runs are called different", lambda given: rates(trials=given.trials), plots.rates
    ),
}


_OF_RUNS = {
    "windows": Study(
        "each window of samples longer than a run was trained on",
        lambda given: windows.windows(given.runs, given.scorer, given.text, n=given.n),
        windows.draw,
    ),
}


def run(arguments: Sequence[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: candi-lab figures STUDY [options]\n")
        print(*(f"  {name:<12}{study.about}" for name, study in {**_STUDIES, **_OF_RUNS}.items()), sep="\n")
        print(f"  {ALL:<12}all that need no run")
        return
    name = arguments[0]
    known = {**_STUDIES, **_OF_RUNS}
    if name not in (*known, ALL):
        raise unknown("study", name, [*known, ALL])
    flags = parser(f"figures {name}", "", f"Draw {known[name].about if name != ALL else 'all studies'}.", "candi-lab")
    if name == "windows":
        flags.add_argument("--runs", type=str, nargs="+", required=True, help="Runs that write.")
        flags.add_argument("--scorer", type=str, required=True, help="An autoregressive run that reads.")
        flags.add_argument("--text", type=str, required=True, help="Text that none of them has learned.")
        flags.add_argument("--n", type=int, default=64, help="Samples of each.")
    if name in ("embeddings", ALL):
        kinds = f"A run, FILE.safetensors or FILE.safetensors:TENSOR, a GGUF file, or {SMOLLM2}."
        flags.add_argument("--table", type=str, default=SMOLLM2, help=f"The learned table: {kinds}")
        flags.add_argument("--draws", type=int, default=1000, help="Noisy copies of each vector.")
    if name in ("validation", ALL):
        flags.add_argument("--points", type=int, default=5000, help="Noisy vectors that are drawn.")
    if name in ("rates", ALL):
        flags.add_argument("--trials", type=int, default=1000, help="Pairs of simulated sweeps for each kind.")
    flags.add_argument("--out", type=Path, default=Path("figures"), help="Folder for the figures and their numbers.")
    given = parse(flags, arguments[1:])
    for study in _STUDIES if name == ALL else [name]:
        _make(study, given)


def _make(name: str, given: Namespace) -> None:
    study = {**_STUDIES, **_OF_RUNS}[name]
    rows, stem = study.rows(given), given.out / name
    try:
        write_text(stem.with_suffix(".jsonl"), "".join(json.dumps(row) + "\n" for row in rows))
        paths = save(study.draw(rows), stem)
    except OSError as error:
        raise UserError(f"The figure cannot be written ({error}); choose another --out.") from error
    if name == "validation":
        farthest = studies.farthest(rows)
        print(f"The farthest simulation is {farthest:.1f} standard errors from its formula.")
    if name == "rates":
        print(rate_table(rows))
    print("Written:", ", ".join(str(path) for path in (stem.with_suffix(".jsonl"), *paths)))
