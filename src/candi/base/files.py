"""Files that are whole or absent, shared with those with whom their folder is."""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from candi.base.errors import UserError
from candi.base.progress import say

_ASIDE = ".writing"


def write_text(path: Path, text: str) -> None:
    """All of it or nothing."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """All of it or nothing."""
    with whole_file(path) as file:
        file.write(data)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that appears when the block ends, and not at all if the block fails. Its folder is made."""
    make_folder(path.parent)
    aside = path.with_name(f".{path.name}.{os.getpid()}{_ASIDE}")  # two processes never write one file aside
    try:
        with aside.open("wb") as file:
            yield file
        share(aside)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def make_folder(path: Path) -> None:
    """A folder and those above it, each as open to a group as the one that it is made in."""
    if not path.exists():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        share(path)


def share(path: Path) -> None:
    """Let the group do with a file or folder what it may do with the folder around it."""
    around, own = path.parent.stat().st_mode, path.stat().st_mode
    wanted = own | (around & (stat.S_IRGRP | stat.S_IWGRP))
    if path.is_dir():
        wanted |= around & (stat.S_IXGRP | stat.S_ISGID)
    if wanted != own:
        path.chmod(wanted)


def sweep(folder: Path) -> None:
    """Remove what killed processes have left behind. Nobody else may be writing into the folder."""
    for left in folder.glob(f".*{_ASIDE}"):
        left.unlink(missing_ok=True)


@contextmanager
def waiting_lock(path: Path, waiting: str) -> Iterator[None]:
    """Held by one process at a time, and by none that has died; who has to wait says so."""
    make_folder(path.parent)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0.2)
    except Timeout:
        say(waiting)
        lock.acquire(poll_interval=0.2)
    with suppress(PermissionError):  # another one's file, who has shared it
        share(path)
    try:
        yield
    finally:
        lock.release()


def need_file(path: Path) -> None:
    """Refuse what is there and is no file, whatever it is called: a device or a pipe would be read for ever."""
    if os.path.exists(path) and not os.path.isfile(path):  # of names that are too long as well
        raise UserError(f"{path} is no file; what is a device, a pipe or a folder is not read here.")


def sha256(path: Path) -> str:
    need_file(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
