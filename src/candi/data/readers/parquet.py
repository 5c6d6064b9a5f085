"""Parquet: a row of the table is a row."""

import importlib.util
from collections.abc import Iterator, Sequence

from candi.base.errors import UserError, extra
from candi.data.files import DataFile
from candi.data.pieces import Place, Row

_ROWS, _BYTES = 1024, 1 << 20  # read at once


def parquet_rows(file: DataFile, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """Each row, of all columns or those of some names that are there."""
    if importlib.util.find_spec("pyarrow") is None:
        raise UserError(f"Reading {file.name} needs pyarrow; get it with {extra('parquet')}.")
    import pyarrow.parquet as parquet
    from pyarrow import ArrowInvalid

    try:
        table = parquet.ParquetFile(file.seekable(), buffer_size=_BYTES)
        names = table.schema_arrow.names
        some = None if columns is None else [name for name in names if name in columns]
        if some == [] and columns is not None:
            raise UserError(
                f"{file.name} has no column {columns[0]!r}; set --text-field to one of: {', '.join(names)}."
            )
        number = 0
        for batch in table.iter_batches(batch_size=_ROWS, columns=some):
            for values in batch.to_pylist():
                number += 1
                yield Row(Place(file.name, "row", number), values)
    except ArrowInvalid:
        raise UserError(f"{file.name} is not a readable Parquet file; it may be damaged or cut short.") from None
