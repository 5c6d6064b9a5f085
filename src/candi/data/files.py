"""Files of data: what a path stands for, how it is unpacked, and the files inside archives."""

import bz2
import codecs
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import IO, cast

from candi.base.errors import UserError, extra

_Opener = Callable[[BufferedIOBase], BufferedIOBase]
_ARCHIVES = (".tar", ".zip")
_SNIFFED = 1 << 13  # bytes that tell text from other things
# the marks that files may begin with, the longest first: UTF-32's begins as UTF-16's does
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def _zstd(file: BufferedIOBase) -> BufferedIOBase:
    try:
        import pyarrow
    except ImportError:
        raise UserError(f"Reading .zst needs pyarrow; get it with {extra('parquet')}.") from None
    stream = pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), "zstd")
    return io.BufferedReader(stream, 1 << 20)


_PACKED: dict[str, _Opener] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".xz": lambda file: lzma.LZMAFile(cast(IO[bytes], file)),  # noqa: SIM115 - who asks closes it
    ".bz2": lambda file: bz2.BZ2File(file),
    ".zst": _zstd,
}
_SHORT = {".tgz": ".tar.gz", ".tbz2": ".tar.bz2", ".txz": ".tar.xz", ".tzst": ".tar.zst"}
# what is never text, so that nobody need look inside
_NO_TEXT = frozenset({
    ".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".ico", ".tiff", ".pdf", ".mp3", ".wav", ".flac", ".ogg", ".mp4",
    ".avi", ".mov", ".mkv", ".so", ".dll", ".exe", ".o", ".a", ".pyc", ".class", ".jar", ".whl", ".7z", ".rar",
    ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".gguf", ".onnx", ".sqlite", ".db", ".woff",
    ".cls", ".id", ".woff2", ".ttf", ".otf", ".mo",
})  # fmt: skip


@dataclass(frozen=True)
class DataFile:
    """A file, or one inside an archive: its name and how it is opened."""

    name: str
    open: Callable[[], BufferedIOBase]
    path: Path | None = None  # of a file that lies on disk as it is
    size: int = 0  # bytes of a file, packed or not

    @property
    def kind(self) -> str:
        """The ending that says what it holds, when it is unpacked: .txt of notes.txt.gz."""
        return kind_of(Path(self.name))

    def unpacked(self) -> BufferedIOBase:
        """What it holds, unpacked."""
        packing = suffixes(Path(self.name))[1]
        file = self.open()
        return _PACKED[packing](file) if packing else file

    def seekable(self) -> BufferedIOBase:
        """The same, for formats that are read back and forth: what is packed is held in memory."""
        stream = self.unpacked()
        return stream if stream.seekable() and not suffixes(Path(self.name))[1] else io.BytesIO(stream.read())

    def text(self) -> io.TextIOWrapper:
        """Its text. A mark at its beginning says how it is encoded and is no text; \\r\\n becomes \\n."""
        stream = io.BufferedReader(cast(io.RawIOBase, self.unpacked()), 1 << 16)
        head = stream.peek(4)[:4]
        encoding = next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8")
        return io.TextIOWrapper(stream, encoding=encoding)

    def looks_like_text(self) -> bool:
        """Whether its beginning is text."""
        if self.kind in _NO_TEXT:
            return False
        head = self._head()
        if head.startswith(tuple(mark for mark, _ in _MARKS)):
            return True
        try:
            whole = len(head) < _SNIFFED  # else the last character may be cut
            codecs.getincrementaldecoder("utf-8")().decode(head, final=whole)
        except UnicodeDecodeError:
            return False
        return b"\0" not in head

    def holds_nul(self) -> bool:
        """Whether its beginning has bytes that no text has."""
        return b"\0" in self._head()

    def _head(self) -> bytes:
        with self.unpacked() as stream:
            return stream.read(_SNIFFED)


def suffixes(path: Path) -> tuple[str, str]:
    """The ending that says what a file holds, and the one of its packing: .txt and .gz."""
    name = path.name
    for short, long in _SHORT.items():
        if name.lower().endswith(short):
            name = name[: -len(short)] + long
    packing = Path(name).suffix.lower()
    if packing not in _PACKED:
        return packing, ""
    return Path(Path(name).stem).suffix.lower(), packing


def kind_of(path: Path) -> str:
    return suffixes(path)[0]


def is_archive(path: Path) -> bool:
    return kind_of(path) in _ARCHIVES


def on_disk(path: Path) -> DataFile:
    return DataFile(str(path), lambda: path.open("rb"), None if suffixes(path)[1] else path, path.stat().st_size)


def members(file: DataFile) -> Iterator[DataFile]:
    """The file itself, or the files of an archive in their order. Each is read before the next is asked for."""
    path = Path(file.name)
    if not is_archive(path):
        yield file
    elif kind_of(path) == ".zip":
        with zipfile.ZipFile(file.seekable()) as archive:
            for entry in archive.infolist():
                if not entry.is_dir() and not _hidden(entry.filename):
                    yield DataFile(f"{path}/{entry.filename}", _in_zip(archive, entry))
    else:
        with file.unpacked() as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                if member.isfile() and not _hidden(member.name):
                    yield DataFile(f"{path}/{member.name}", _in_tar(tar, member))


def _in_zip(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Callable[[], BufferedIOBase]:
    return lambda: io.BytesIO(archive.read(entry))


def _in_tar(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], BufferedIOBase]:
    kept: list[bytes] = []

    def open() -> BufferedIOBase:
        """A stream is passed once: what is asked for again (a look at the beginning, the text) is kept."""
        if not kept:
            file = archive.extractfile(member)
            assert file is not None  # it is a file
            kept.append(file.read())
        return io.BytesIO(kept[0])

    return open


def _hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in Path(name).parts)
