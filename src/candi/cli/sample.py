"""candi sample"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from candi.base.errors import UserError
from candi.base.terminal import visible, visible_json
from candi.cli.parsing import add_device, flag, parse, parser
from candi.cli.sampling_flags import (
    add_batch_size,
    add_chat,
    add_label,
    add_sampling,
    add_speed,
    add_unknown,
    label_options,
    sampling_options,
    tokenizer_for,
)
from candi.data.corpus import Corpus
from candi.diffusion.draws import PRECISION
from candi.hub.loading import load
from candi.model.model import Model, Template
from candi.model.streaming import Stop
from candi.views.animation import write_animation
from candi.views.frames import frames
from candi.views.terminal import watch


def run(arguments: Sequence[str]) -> None:
    flags = parser("sample", "RUN", "Write samples of a trained model.")
    flags.add_argument(
        "run",
        type=str,
        help="The run's folder, a checkpoint's folder, hf:OWNER/NAME, or a model that ships (candi models).",
    )
    flags.add_argument("--n", type=int, default=1, help="How many samples, of each row of --data.")
    flags.add_argument("--data", type=str | None, default=None, help="Prompts: a row of a file each, a line of a text.")
    flags.add_argument("--text_field", type=str, default="text", help="Column with the prompts, if not prompt.")
    add_chat(flags)
    add_unknown(flags)
    add_sampling(flags)
    add_label(flags)
    add_batch_size(flags)
    add_device(flags)
    add_speed(flags)
    stop = "Texts before which a sample ends, and writing in blocks stops."
    flags.add_argument("--stop", type=str, nargs="+", default=None, help=stop)
    ends = "Whether writing in blocks stops at the end of the text; else it goes on to --length."
    flags.add_argument("--ends", type=bool, default=True, help=ends)
    flag(flags, "stream", "Print the text while it is written: block by block, or from left to right.")
    flag(flags, "watch", "Show the denoising live.")
    flags.add_argument("--frames", type=Path | None, default=None, help="Save the denoising as out.svg or out.gif.")
    flag(flags, "json", "One JSON object a line.")
    given = parse(flags, arguments)
    if given.watch and given.json:
        raise UserError("--watch and --json cannot go together; leave one out.")
    if given.stream and (given.watch or given.json or given.frames or given.data):
        raise UserError("--stream prints plain text of one prompt; leave out --watch, --json, --frames and --data.")
    if given.frames is not None and (given.n != 1 or given.frames.suffix not in (".svg", ".gif")):
        raise UserError("--frames saves one sample as .svg or .gif; leave out --n, and end its name in one of them.")
    if given.n < 1:
        raise UserError(f"At least 1 sample is needed, not {given.n}.")
    if given.data is not None and (given.prompt or given.infill or given.watch or given.frames):
        raise UserError("--data has the prompts; leave out --prompt, --infill, --watch and --frames.")
    model = load(given.run, given.device)
    model.tokenizer = tokenizer_for(model, given.unknown)
    options = model.with_defaults(
        **sampling_options(given, "precision", "compile", "ends"), **label_options(given),
        **({} if given.stop is None else {"stop": given.stop}),
    )  # fmt: skip
    if model.config.block is None:
        del options["ends"]
    if given.frames is not None:
        _save_frames(given.frames, model, options)
    if given.watch:
        watch(model, given.n, options)
    if given.watch or given.frames is not None:
        return
    if given.stream:
        _stream(model, given.n, options)
        return
    templates = None if given.data is None else _templates(given, model)
    samples = model.sample(given.n, batch_size=given.batch_size, templates=templates, **options)
    for number, ids in enumerate(samples.tolist()):
        first = model.given({**options, "templates": templates}, number)
        text = model.text(ids, first, stop=given.stop, ends=given.ends)
        if given.json:
            record = {"text": text, "tokens": ids, "number": number, "draws": PRECISION, **options}
            line = json.dumps(record | _answer(model, templates, number, ids, given.stop), ensure_ascii=False)
            print(visible_json(line), flush=True)
        else:
            sys.stdout.write(visible(text) + ("\n\n" if number + 1 < len(samples) else "\n"))


def _templates(given: Namespace, model: Model) -> list[Template]:
    """One for each sample: `n` for each row."""
    rows = list(Corpus(given.data, given.text_field, chat=given.chat).openings())
    if not rows:
        raise UserError(f"{given.data} has no prompts; give a file with one a row.")
    found = []
    for place, opening in rows:
        try:
            found += [model.opening(opening, given.length)] * given.n
        except UserError as error:
            raise UserError(f"{place}: {error}") from None
    return found


def _stream(model: Model, n: int, options: Mapping[str, Any]) -> None:
    for number in range(n):
        for piece in model.stream(first=number, **options):
            sys.stdout.write(visible(piece))
            sys.stdout.flush()
        sys.stdout.write("\n\n" if number + 1 < n else "\n")


def _answer(
    model: Model, templates: Sequence[Template] | None, number: int, ids: Sequence[int], stop: Stop
) -> dict[str, str]:
    """Prompt and what follows it, where there are prompts that differ."""
    if templates is None:
        return {}
    given = model.given({"templates": templates}, number)
    completion = model.completion(ids[given:], stop)
    return {"prompt": model.tokenizer.decode(ids[:given]), "completion": completion}


def _save_frames(path: Path, model: Model, options: Mapping[str, Any]) -> None:
    try:
        write_animation(path, list(frames(model, options, 0)))
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error}); choose another --frames.") from None
    print(f"Saved {path}; any browser plays it.", file=sys.stderr)
