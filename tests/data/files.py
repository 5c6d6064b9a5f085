"""Files of data for tests."""

import io
import json
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from candi.data.corpus import Corpus
from candi.data.pieces import Piece


def pieces(source: object, **options: Any) -> list[Piece]:
    return list(Corpus(str(source), **options).pieces())


def texts(source: object, **options: Any) -> list[str]:
    """The documents, each in one."""
    found, part = [], ""
    for piece in pieces(source, **options):
        part += piece.text
        if piece.ends:
            found.append(part)
            part = ""
    return found


def places(source: object, **options: Any) -> list[str]:
    return [piece.place.short for piece in pieces(source, **options)]


def write_lines(path: Path, rows: Iterable[Any]) -> Path:
    """JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def write_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix in (".gz", ".tgz") else "w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def write_zip(path: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path
