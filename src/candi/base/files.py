"""Files that are whole or absent."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


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
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.writing")  # two processes never write one file aside
    try:
        with aside.open("wb") as file:
            yield file
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
