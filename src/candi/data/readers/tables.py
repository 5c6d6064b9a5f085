"""Tables of text: .csv and .tsv, the names of the columns in the first line."""

import csv
from collections.abc import Iterator, Sequence

from candi.data.files import DataFile
from candi.data.pieces import Place, Row

_MARKS = {".csv": ",", ".tsv": "\t"}
csv.field_size_limit(1 << 24)  # a molecule's row may hold all its atoms


def table_rows(file: DataFile, columns: Sequence[str] | None = None) -> Iterator[Row]:
    with file.text() as lines:
        table = csv.DictReader(lines, delimiter=_MARKS[file.kind])
        for row in table:
            values = {name: cell.strip() if isinstance(cell, str) else cell for name, cell in row.items()}
            yield Row(Place(file.name, "line", table.line_num), values)
