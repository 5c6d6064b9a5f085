"""Files that are whole or absent."""

import hashlib
import os
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """All of it or nothing."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.writing")  # two processes never write one file aside
    try:
        aside.write_text(text, encoding="utf-8")
        os.replace(aside, path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
