"""Methods and trunks of users' own: Python files that register them, run here and in processes started from here."""

import os
import runpy

from candi.base.errors import UserError

_FILES = "CANDI_PLUGINS"  # in the environment, which processes inherit


def load_plugin(path: str) -> None:
    """Run a file, here and in whatever processes are started from here."""
    if not os.path.isfile(path):
        raise UserError(f"There is no plugin file {path!r}; --plugin takes the path of a Python file.")
    _run(path)
    known = os.environ.get(_FILES, "").split(os.pathsep)
    if os.path.abspath(path) not in known:
        os.environ[_FILES] = os.pathsep.join([*filter(None, known), os.path.abspath(path)])


def load_inherited() -> None:
    """In a process that was started with nothing but its arguments: run what the one before it had run."""
    for path in filter(None, os.environ.get(_FILES, "").split(os.pathsep)):
        _run(path)


def _run(path: str) -> None:
    try:
        runpy.run_path(path, run_name="candi_plugin")
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"The plugin {path} fails: {type(error).__name__}: {error}") from error
