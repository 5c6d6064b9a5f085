"""candi demo"""

import importlib.util
import os
import sys
from collections.abc import Sequence

from candi.base.errors import UserError, extra
from candi.cli.parsing import add_device, listed, parse, parser


def run(arguments: Sequence[str]) -> None:
    flags = parser("demo", "[RUN ...]", "Open a page to play with, on this machine alone (extra: candi[demo]).")
    flags.add_argument("runs", type=str, nargs="*", help="Runs of your own, beside the models that ship.")
    flags.add_argument("--classifiers", type=str | None, default=None, help="A list of classifiers for molecules.")
    flags.add_argument("--port", type=int | None, default=None, help="By default the first free one from 7860 on.")
    add_device(flags)
    given = parse(flags, arguments)
    if importlib.util.find_spec("gradio") is None:
        raise UserError(f"The page needs gradio; get it with {extra('demo')}.")
    from candi.demo.app import Page
    from candi.demo.model_store import ModelStore

    store = ModelStore(given.runs, listed(given.classifiers), given.device)
    try:
        page = Page(store, given.port)
    except OSError as error:
        raise UserError(f"The page cannot be opened ({error}); choose another --port.") from None
    print(f"Open {page.address} in a browser; Ctrl-C closes it.", file=sys.stderr, flush=True)
    try:
        page.wait()
    finally:
        page.close()
    # a visitor's thread may be inside C++ (a molecule is drawn, say): an interpreter that ends around it aborts
    sys.stderr.flush()
    os._exit(0)
