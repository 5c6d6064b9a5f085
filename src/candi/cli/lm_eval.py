"""candi lm-eval"""

import importlib.util
import sys
from collections.abc import Sequence

from candi.base.errors import UserError, extra
from candi.cli.parsing import parse, parser

_HELP = {
    "model_args": "pretrained=RUN, and times=32, steps=32, temperature=1, order=confidence ...",
    "tasks": "Tasks of the harness, a list; candi lm-eval ls tasks names them.",
    "include_path": "A folder with tasks of your own.",
    "num_fewshot": "Examples in each context.",
    "limit": "Documents of each task.",
    "batch_size": "Sequences at once.",
    "device": "cpu or cuda.",
    "output_path": "Folder for the results.",
}


def run(arguments: Sequence[str]) -> None:
    """The command of lm-evaluation-harness, which knows the model `candi` then; all flags are its own."""
    if list(arguments) in (["-h"], ["--help"]):
        _help(arguments)
    if importlib.util.find_spec("lm_eval") is None:
        raise UserError(f"This is the command of lm-evaluation-harness; get it with {extra('harness')}.")
    from lm_eval.__main__ import cli_evaluate

    import candi.hub.harness  # noqa: F401 - registers the model

    named = any(word.partition("=")[0] in ("--model", "-M") for word in arguments)
    other = not arguments or arguments[0] in ("ls", "validate")  # what evaluates nothing
    before, sys.argv = sys.argv, ["lm-eval", *arguments, *([] if named or other else ["--model", "candi"])]
    try:
        cli_evaluate()
    finally:
        sys.argv = before


def _help(arguments: Sequence[str]) -> None:
    what = "Run tasks of lm-evaluation-harness on a model. All flags are its own: candi lm-eval run --help lists them."
    flags = parser("lm-eval", "--model_args pretrained=RUN --tasks TASKS", what)
    for name, help in _HELP.items():
        flags.add_argument(f"--{name}", type=str | None, default=None, help=help)
    parse(flags, arguments)
