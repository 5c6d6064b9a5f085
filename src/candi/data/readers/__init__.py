"""What reads which kind of file: a registry, one small file a reader."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from candi.data.files import DataFile
from candi.data.pieces import Row
from candi.data.readers.integers import integer_rows
from candi.data.readers.json_lines import json_rows
from candi.data.readers.molecules import molecule_rows
from candi.data.readers.parquet import parquet_rows
from candi.data.readers.sequences import fasta_rows, fastq_rows
from candi.data.readers.tables import table_rows


@dataclass(frozen=True)
class Reader:
    """Rows of a file, and the column in which its text stands if another is not asked for and there."""

    rows: Callable[[DataFile, Sequence[str] | None], Iterator[Row]]
    column: str = "text"


READERS: dict[str, Reader] = {}


def register_reader(reader: Reader, *endings: str) -> None:
    """Files with these endings are read by it, packed or not."""
    READERS.update(dict.fromkeys(endings, reader))


register_reader(Reader(json_rows), ".jsonl", ".ndjson", ".json")
register_reader(Reader(parquet_rows), ".parquet")
register_reader(Reader(table_rows), ".csv", ".tsv")
register_reader(Reader(molecule_rows, "smiles"), ".smi", ".smiles")
register_reader(Reader(fasta_rows, "sequence"), ".fasta", ".fa", ".fna", ".faa", ".ffn", ".frn")
register_reader(Reader(fastq_rows, "sequence"), ".fastq", ".fq")
register_reader(Reader(integer_rows, "tokens"), ".npy", ".npz")
