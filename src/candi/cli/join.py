"""candi join"""

import sys
from collections.abc import Sequence
from pathlib import Path

from candi.base.errors import UserError
from candi.cli.parsing import parse, parser
from candi.model.checkpoint import find_checkpoint, joined, to_stderr


def run(arguments: Sequence[str]) -> None:
    flags = parser("join", "RUN --out FOLDER", "Make one file of the pieces that the processes of a run have written.")
    flags.add_argument("run", type=Path, help="The run's folder, or a checkpoint's folder.")
    flags.add_argument("--out", type=Path, required=True, help="Folder of the checkpoint in whole files.")
    given = parse(flags, arguments)
    folder = find_checkpoint(given.run, to_stderr) if given.run.is_dir() else None
    if folder is None:
        raise UserError(f"There is no run or checkpoint at {str(given.run)!r}.")
    print(f"Joining {folder}; one tensor at a time is in memory.", file=sys.stderr)
    joined(folder, given.out)
    print(f"{given.out}: {', '.join(sorted(path.name for path in given.out.iterdir()))}.")
