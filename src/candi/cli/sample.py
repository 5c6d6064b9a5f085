"""candi sample"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from candi.cli.parsing import parse, parser
from candi.cli.walking import WALK, add_speed, add_walk, method_options
from candi.cli.watch import watch
from candi.draws import PRECISION
from candi.errors import UserError
from candi.loading import load
from candi.model import Model
from candi.report.animation import write_animation
from candi.report.frames import frames


def run(arguments: Sequence[str]) -> None:
    flags = parser("sample", "RUN", "Write samples of a trained model.")
    flags.add_argument(
        "run",
        type=str,
        help="The run's folder, a checkpoint's folder, hf:OWNER/NAME, or a model that ships (candi models).",
    )
    flags.add_argument("--n", type=int, default=1, help="How many samples.")
    add_walk(flags)
    flags.add_argument("--batch", type=int, default=64, help="Samples made at once.")
    flags.add_argument("--device", type=str, default="auto", help="auto, cpu or cuda.")
    add_speed(flags)
    flags.add_argument("--watch", type=bool, default=False, nargs="?", const=True, help="Show the denoising live.")
    flags.add_argument("--frames", type=Path | None, default=None, help="Save the denoising as out.svg or out.gif.")
    flags.add_argument("--json", type=bool, default=False, nargs="?", const=True, help="One JSON object a line.")
    given = parse(flags, arguments)
    if given.watch and given.json:
        raise UserError("--watch and --json cannot go together; leave one out.")
    if given.frames is not None and (given.n != 1 or given.frames.suffix not in (".svg", ".gif")):
        raise UserError("--frames saves one sample as .svg or .gif; leave out --n, and end its name in one of them.")
    if given.n < 1:
        raise UserError(f"At least 1 sample is needed, not {given.n}.")
    model = load(given.run, given.device)
    options = model.settled(**{name: given[name] for name in (*WALK, "precision", "compile", *method_options())})
    if given.frames is not None:
        _save_frames(given.frames, model, options)
    if given.watch:
        watch(model, given.n, options)
    if given.watch or given.frames is not None:
        return
    for number, ids in enumerate(model.sample(given.n, batch=given.batch, **options).tolist()):
        text = model.tokenizer.decode(ids)
        if given.json:
            record = {"text": text, "tokens": ids, "number": number, "draws": PRECISION, **options}
            print(json.dumps(record, ensure_ascii=False), flush=True)
        else:
            sys.stdout.write(text + "\n\n" if number + 1 < given.n else text + "\n")


def _save_frames(path: Path, model: Model, options: Mapping[str, Any]) -> None:
    try:
        write_animation(path, list(frames(model, options, 0)))
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error}); choose another --frames.") from None
    print(f"Saved {path}; any browser plays it.", file=sys.stderr)
