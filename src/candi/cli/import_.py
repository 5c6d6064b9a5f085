"""candi import"""

from collections.abc import Sequence
from pathlib import Path

from candi.base.errors import UserError
from candi.cli.parsing import parse, parser
from candi.hub.importers import IMPORTERS, import_model


def run(arguments: Sequence[str]) -> None:
    about = (
        "Make a model of a published checkpoint: it samples, infills, is evaluated, guided and swept like any other."
    )
    flags = parser("import", "SOURCE --out FOLDER", about)
    known = "; ".join(f"{one.name}: {one.about}" for one in IMPORTERS.values())
    flags.add_argument("source", type=str, help="hf:OWNER/NAME, a folder with config.json and *.safetensors, "
                       "a GGUF file, or smollm2.")  # fmt: skip
    flags.add_argument("--out", type=Path, required=True, help="Folder; its name is the model's.")
    flags.add_argument("--tokenizer", type=str | None, default=None, help="A folder, a tokenizer.json or "
                       "hf:OWNER/NAME, where it does not lie beside the weights.")  # fmt: skip
    flags.add_argument("--layout", type=str | None, default=None, help=f"Where config.json does not tell: {known}.")
    flags.add_argument("--mask", type=int | None, default=None, help="The id of the mask, where it is not the last.")
    given = parse(flags, arguments)
    try:
        folder = import_model(given.source, given.out, tokenizer=given.tokenizer, layout=given.layout, mask=given.mask)
    except OSError as error:
        raise UserError(f"{given.out} cannot be written ({error}); choose another --out.") from None
    print(f"Imported into {folder}; try: candi sample {folder} --n 2")
