"""candi analyse"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from jsonargparse import ArgumentParser, Namespace
from matplotlib.figure import Figure
from torch import Tensor

from candi import plots
from candi.analysis import studies
from candi.analysis.tables import SMOLLM2, load_table
from candi.cli.parsing import parse, parser
from candi.config import read_json
from candi.data.corpus import Corpus
from candi.errors import UserError, unknown
from candi.files import write_text
from candi.loading import load
from candi.model import Model
from candi.training.run import SETTINGS

_STUDIES = {
    "curves": "rho and r against the noise, for several vocabularies",
    "validation": "the formulas against simulation",
    "kernels": "r against rho under the Gaussian and the hybrid kernel",
    "embeddings": "a learned table against random ones of the same mean and variance",
    "schedule": "what a run's schedule does to the positions of a text",
}
_CHARACTERS = 50_000  # of the text that a schedule is judged on


def run(arguments: Sequence[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: candi analyse STUDY [options]\n")
        print(*(f"  {name:<12}{what}" for name, what in _STUDIES.items()), sep="\n")
        sys.exit(0)
    if arguments[0] not in _STUDIES:
        raise unknown("study", arguments[0], _STUDIES)
    name = arguments[0]
    given = parse(_parser(name), arguments[1:])
    rows, figure, sentence = _MADE[name](given)
    stem = Path(given.out) / name
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        write_text(stem.with_suffix(".jsonl"), "".join(json.dumps(row) + "\n" for row in rows))
        paths = plots.save(figure, stem)
    except OSError as error:
        raise UserError(f"The figure cannot be written ({error}); choose another --out.") from error
    if sentence:
        print(sentence)
    print("Written:", ", ".join(str(path) for path in (stem.with_suffix(".jsonl"), *paths)))


def _parser(name: str) -> ArgumentParser:
    needs = {"schedule": "RUN", "embeddings": "TABLE"}.get(name, "")
    flags = parser(f"analyse {name}", needs, f"Draw {_STUDIES[name]}.")
    if name == "schedule":
        flags.add_argument("run", type=str, help="The run's folder, a checkpoint's folder, or hf:OWNER/NAME.")
        flags.add_argument("--text", type=str | None, default=None, help="The text; by default the run's own data.")
        flags.add_argument("--draws", type=int, default=200, help="Noisy copies of each position.")
    if name == "embeddings":
        flags.add_argument(
            "table", type=str, help=f"A run, FILE.safetensors or FILE.safetensors:TENSOR, a GGUF file, or {SMOLLM2}."
        )
        flags.add_argument("--draws", type=int, default=1000, help="Noisy copies of each vector.")
    if name == "validation":
        flags.add_argument("--points", type=int, default=5000, help="Noisy vectors that are drawn.")
    flags.add_argument("--out", type=str, default="figures", help="Folder for the figure and its numbers.")
    return flags


Made = tuple[list[dict[str, Any]], Figure, str]


def _curves(given: Namespace) -> Made:
    rows = studies.curves()
    return rows, plots.curves(rows), ""


def _validation(given: Namespace) -> Made:
    rows = studies.validation(points=given.points)
    off = max(
        abs(r[k] - r[f"{k}_simulated"]) / max(r[f"{k}_error"], 1e-9) for r in rows for k in ("corruption", "rank")
    )
    return rows, plots.validation(rows), f"The farthest simulation is {off:.1f} standard errors from its formula."


def _kernels(given: Namespace) -> Made:
    rows = studies.kernels()
    return rows, plots.kernels(rows), ""


def _embeddings(given: Namespace) -> Made:
    if given.draws < 8:
        raise UserError(f"--draws must be at least 8, not {given.draws}.")
    rows = studies.embeddings(load_table(given.table), Path(given.table).name, draws=given.draws)
    return rows, plots.embeddings(rows), ""


def _schedule(given: Namespace) -> Made:
    if given.draws < 2:
        raise UserError(f"--draws must be at least 2, not {given.draws}.")
    model = load(given.run, "cpu")
    tokens, note = _tokens(model, Path(given.run).expanduser(), given.text)
    rows, verdict = studies.schedule(model.denoiser.method, tokens, given.draws)
    return rows, plots.schedule(rows), verdict.sentence + note


def _tokens(model: Model, run: Path, text: str | None) -> tuple[Tensor, str]:
    """Tokens of the text, else of the run's data, else one of each, which the note then says."""
    source, field = (text, "text") if text is not None else _data(run)
    if source is None:
        return torch.arange(model.tokenizer.vocab_size), " (No text was given: every token counts once.)"
    ids = model.tokenizer.encode_beginning(Corpus(source, field), _CHARACTERS)
    if not len(ids):
        raise UserError(f"{source!r} holds no text to look at; give some with --text.")
    return torch.as_tensor(ids), ""


def _data(run: Path) -> tuple[str | None, str]:
    """What a run, or the run of a checkpoint, was trained on."""
    for folder in (run, run.parent.parent):
        if (folder / SETTINGS).exists():
            record = read_json(folder / SETTINGS)
            settings = record.get("settings") if isinstance(record, dict) else None
            if not isinstance(settings, dict) or "data" not in settings:
                raise UserError(f"{folder / SETTINGS} is damaged; say with --text what to look at.")
            return settings["data"], settings.get("text_field", "text")
    return None, "text"


_MADE: dict[str, Callable[[Namespace], Made]] = {
    "curves": _curves,
    "validation": _validation,
    "kernels": _kernels,
    "embeddings": _embeddings,
    "schedule": _schedule,
}
