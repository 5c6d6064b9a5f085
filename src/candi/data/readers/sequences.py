"""Sequences of biology: FASTA and FASTQ. The words name=value of a title are columns."""

from collections.abc import Iterator, Sequence

from candi.base.errors import UserError
from candi.data.files import DataFile
from candi.data.pieces import Place, Row


def fasta_rows(file: DataFile, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """`>` begins a title, all lines up to the next one are its sequence."""
    title, start, lines = None, 0, list[str]()
    with file.text() as text:
        for number, line in enumerate(text, 1):
            line = line.strip()
            if line.startswith(">"):
                if title is not None:
                    yield _row(file, start, title, lines)
                title, start, lines = line[1:], number, []
            elif line and not line.startswith(";"):  # a remark
                if title is None:
                    raise UserError(f"{file.name} line {number} stands before the first title; FASTA begins with '>'.")
                lines.append(line)
    if title is not None:
        yield _row(file, start, title, lines)


def fastq_rows(file: DataFile, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """Four lines each: @title, sequence, +, qualities."""
    with file.text() as text:
        lines = enumerate((line.strip() for line in text), 1)
        for number, title in lines:
            if not title:
                continue
            sequence, plus, quality = (next(lines, (0, ""))[1] for _ in range(3))
            if not title.startswith("@") or not plus.startswith("+") or len(sequence) != len(quality):
                raise UserError(f"{file.name} line {number} begins no FASTQ record of four lines; mend it.")
            yield _row(file, number, title[1:], [sequence], {"quality": quality})


def _row(file: DataFile, number: int, title: str, lines: list[str], more: dict[str, str] | None = None) -> Row:
    identity, _, description = title.strip().partition(" ")
    named = dict(word.split("=", 1) for word in description.split() if "=" in word.strip("="))
    values = {**named, "id": identity, "description": description, "sequence": "".join(lines)}
    return Row(Place(file.name, "line", number), values | (more or {}))
