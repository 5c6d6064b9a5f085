"""candi export"""

import re
from collections.abc import Sequence
from pathlib import Path

from candi.base.errors import UserError
from candi.cli.parsing import flag, listed, parse, parser
from candi.cli.sampling_flags import add_method_options, method_options
from candi.hub.export import export
from candi.hub.push import check_name, push


def run(arguments: Sequence[str]) -> None:
    flags = parser("export", "RUN --out FOLDER", "Pack a run to be shared: weights in bf16, tokenizer, model card.")
    flags.add_argument("run", type=str, help="The run's folder, a checkpoint's folder, or what was packed before.")
    flags.add_argument("--out", type=Path, required=True, help="Folder; its name is the model's.")
    flags.add_argument("--title", type=str, default="", help="What the model is, in a sentence.")
    flags.add_argument("--trained_on", type=str, default="", help="What it was trained on, in words.")
    flags.add_argument("--licence", type=str, default="", help="Of the weights.")
    flags.add_argument("--points", type=str | None, default=None, help="points.jsonl of a sweep of what was packed, or "
                       "a list of them: their measures go into the card.")  # fmt: skip
    flags.add_argument("--words", type=str | None, default=None, help="Text whose words are packed as a filter.")
    flags.add_argument("--molecules", type=str | None, default=None, help="File whose molecules are packed as a "
                       "filter, so that candi guide says which ones are new.")  # fmt: skip
    flags.add_argument(
        "--classifiers", type=str | None, default=None, help="Packed with it, as qed=FOLDER,rings=FOLDER."
    )
    flags.add_argument("--held_out", type=str | None, default=None, help="Text whose likelihood goes into the card.")
    flags.add_argument("--push", type=str | None, default=None, help="Upload it to the hub as OWNER/NAME.")
    flag(flags, "private", "Where --push makes a new place on the hub: for its owner alone.")
    flags.add_argument("--steps", type=int | None, default=None, help="Steps that the model recommends.")
    flags.add_argument("--temperature", type=float | None, default=None, help="Temperature that it recommends.")
    add_method_options(flags, "Recommended, of")
    given = parse(flags, arguments)
    names = ("steps", "temperature", *method_options())
    recommended = {name: given[name] for name in names if given[name] is not None}
    about = {"title": given.title, "data": given.trained_on, "licence": given.licence}
    classifiers = dict(_pair(part) for part in listed(given.classifiers))
    points = [Path(part) for part in listed(given.points)]
    if given.push is not None:
        check_name(given.push)
    try:
        folder = export(given.run, given.out, about, points, recommended, given.words, classifiers,
                        given.molecules, given.push, given.held_out)  # fmt: skip
    except OSError as error:
        raise UserError(f"{given.out} cannot be written ({error}); choose another --out.") from None
    print(f"Packed into {folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}.")
    if given.push is not None:
        place = push(folder, given.push, given.private)
        print(f"Uploaded to {place}; try: candi sample hf:{given.push}")


def _pair(text: str) -> tuple[str, str]:
    name, equals, folder = text.partition("=")
    if not equals or not re.fullmatch(r"\w+", name):
        raise UserError(f"{text!r} names no classifier; write it as PROPERTY=FOLDER.")
    return name, folder
