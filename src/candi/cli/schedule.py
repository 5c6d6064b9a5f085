"""candi schedule"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from candi.base.config import read_json
from candi.base.errors import UserError
from candi.base.files import write_text
from candi.cli.parsing import parse, parser
from candi.data.corpus import Corpus
from candi.diffusion.schedule_check import check_schedule
from candi.hub.loading import load
from candi.model.model import Model
from candi.training.run import SETTINGS
from candi.views import plots

_CHARACTERS = 50_000  # of the text that a schedule is checked on


def run(arguments: Sequence[str]) -> None:
    flags = parser("schedule", "RUN", "Does a run's noise suit its vocabulary? What its schedule does to a text.")
    flags.add_argument("run", type=str, help="The run's folder, a checkpoint's folder, or hf:OWNER/NAME.")
    flags.add_argument("--data", type=str | None, default=None, help="The text; by default the run's own data.")
    flags.add_argument("--draws", type=int, default=200, help="Noisy copies of each position.")
    flags.add_argument("--out", type=Path, default=Path("figures"), help="Folder for the figure and its numbers.")
    given = parse(flags, arguments)
    if given.draws < 2:
        raise UserError(f"--draws must be at least 2, not {given.draws}.")
    model = load(given.run, "cpu")
    tokens, note = _tokens(model, Path(given.run).expanduser(), given.data)
    rows, verdict = check_schedule(model.denoiser.method, tokens, given.draws)
    stem = given.out / "schedule"
    try:
        write_text(stem.with_suffix(".jsonl"), "".join(json.dumps(asdict(row)) + "\n" for row in rows))
        paths = plots.save(plots.schedule(rows), stem)
    except OSError as error:
        raise UserError(f"The figure cannot be written ({error}); choose another --out.") from error
    print(verdict.sentence + note)
    print("Written:", ", ".join(str(path) for path in (stem.with_suffix(".jsonl"), *paths)))


def _tokens(model: Model, run: Path, data: str | None) -> tuple[Tensor, str]:
    """Tokens of the text, else of the run's data, else one of each, which the note then says."""
    source, field = (data, "text") if data is not None else _trained_on(run)
    if source is None:
        return torch.arange(model.tokenizer.vocab_size), " (No text was given: every token counts once.)"
    ids = model.tokenizer.encode_beginning(Corpus(source, field), _CHARACTERS)
    if not len(ids):
        raise UserError(f"{source!r} holds no text to look at; give some with --data.")
    return torch.as_tensor(ids), ""


def _trained_on(run: Path) -> tuple[str | None, str]:
    """What a run, or the run of a checkpoint, was trained on."""
    for folder in (run, run.parent.parent):
        if (folder / SETTINGS).exists():
            record = read_json(folder / SETTINGS)
            settings = record.get("settings") if isinstance(record, dict) else None
            if not isinstance(settings, dict):
                raise UserError(f"{folder / SETTINGS} is damaged; say with --data what to look at.")
            return settings.get("data"), settings.get("text_field", "text")  # of a run of candi.fit nothing is known
    return None, "text"
