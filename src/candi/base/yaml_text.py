"""YAML that anybody may have written."""

from pathlib import Path
from typing import Any

import yaml

from candi.base.errors import UserError
from candi.base.files import need_file

_DEPTH, _VALUES = 100, 100_000  # of settings; no file of ours has a hundredth of either


def read_yaml(path: Path) -> Any:
    """The values of a file; what cannot be read is a UserError that says where."""
    need_file(path)
    try:
        text = path.read_text(encoding="utf-8")
        check_yaml(text)
        return yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:  # also bytes that are no text, and endless numbers
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path} cannot be read as YAML ({reason}).") from None


def check_yaml(text: str) -> None:
    """Refuse text that nests too deeply, or whose aliases of aliases stand for more values than anybody writes.

    It is read event by event: nothing is built of it.
    """
    named: dict[str, int] = {}  # the values behind each anchor
    open_: list[tuple[str | None, int]] = [(None, 0)]  # collections that have begun, and their values so far
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        anchor, values = getattr(event, "anchor", None), 0
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append((anchor, 1))
            if anchor is not None:
                named[anchor] = _VALUES  # an alias inside of what it names has no end
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, values = open_.pop()
        elif isinstance(event, yaml.AliasEvent):
            anchor, values = None, named.get(event.anchor, 0)
        elif isinstance(event, yaml.ScalarEvent):
            values = 1
        if values and anchor is not None:
            named[anchor] = values
        open_[-1] = (open_[-1][0], open_[-1][1] + values)
        if len(open_) > _DEPTH:
            raise yaml.YAMLError("it is nested too deeply")
        if open_[-1][1] > _VALUES:
            raise yaml.YAMLError("its aliases stand for more values than settings have")
