"""Hashes of files, computed once: a file of the same size and time as before is not read again."""

import json
import os
import time
from functools import lru_cache
from hashlib import sha256 as hash_of
from pathlib import Path

from candi.base.files import sha256, waiting_lock, write_text

_LARGE = 1 << 20  # smaller ones are read faster than they are looked up
_SETTLED = 2.0  # seconds after which a write would show in a file's time


def default_folder() -> Path:
    """$CANDI_CACHE, or candi under the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("CANDI_CACHE") or Path(base) / "candi")


def digest(path: Path) -> str:
    """SHA-256 of a file. One process hashes a large one, others wait for it."""
    return _digest(path, *_seen(path))


@lru_cache(maxsize=2**16)
def _digest(path: Path, size: int, *seen: int) -> str:
    if size < _LARGE:
        return sha256(path)
    name = hash_of(str(path.resolve()).encode()).hexdigest()[:32]
    kept = default_folder() / "digests" / f"{name}.json"
    try:
        if (known := _known(kept, path)) is not None:
            return known
        with waiting_lock(kept.with_suffix(".lock"), f"Waiting for another process that reads {path}."):
            if (known := _known(kept, path)) is not None:
                return known
            found = sha256(path)
            if time.time() - path.stat().st_mtime > _SETTLED and [size, *seen] == _seen(path):
                write_text(kept, json.dumps([[size, *seen], found]))
            return found
    except PermissionError:  # a cache that is only read
        return sha256(path)


def _seen(path: Path) -> list[int]:
    """What changes with a file's content."""
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ino]


def _known(kept: Path, path: Path) -> str | None:
    try:
        seen, found = json.loads(kept.read_text())
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return str(found) if seen == _seen(path) else None
