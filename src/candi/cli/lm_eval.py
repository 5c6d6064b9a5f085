"""candi lm-eval"""

import importlib.util
import sys
from collections.abc import Sequence

from candi.base.errors import UserError, extra


def run(arguments: Sequence[str]) -> None:
    """The command of lm-evaluation-harness, which knows the model `candi` then; all flags are its own."""
    if importlib.util.find_spec("lm_eval") is None:
        raise UserError(f"This is the command of lm-evaluation-harness; get it with {extra('harness')}.")
    from lm_eval.__main__ import cli_evaluate

    import candi.hub.harness  # noqa: F401 - registers the model

    ours = [] if any(word == "--model" or word.startswith("--model=") for word in arguments) else ["--model", "candi"]
    asked = any(word in ("ls", "validate", "-h", "--help") for word in arguments[:1])
    before, sys.argv = sys.argv, ["candi lm-eval", *arguments, *([] if asked else ours)]
    try:
        cli_evaluate()
    finally:
        sys.argv = before
