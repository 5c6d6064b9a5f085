"""One file that opens from disk: a template of ours, filled with data that is never taken for markup."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from candi.base.files import write_text

# nothing is fetched, and nothing runs but what the page itself brings
_HEAD = """<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">"""  # noqa: E501


def write_filled(path: Path, template: str, data: Any) -> None:
    """The template with the head that all pages share and its data as JSON."""
    page = (files("candi.views") / template).read_text(encoding="utf-8")
    filled = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")  # "<" cannot end the script element early
    write_text(path, page.replace("__HEAD__", _HEAD, 1).replace("__DATA__", filled, 1))
