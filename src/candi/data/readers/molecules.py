"""Molecules, one a line: SMILES first. What follows counts if a first line "smiles NAME ..." names it."""

from collections.abc import Iterator, Sequence

from candi.base.errors import UserError
from candi.data.files import DataFile
from candi.data.pieces import Place, Row

SMILES = "smiles"  # how a title line of molecules begins


def molecule_rows(file: DataFile, columns: Sequence[str] | None = None) -> Iterator[Row]:
    names: list[str] = []
    mark = None
    with file.text() as lines:
        for number, line in enumerate(lines, 1):
            if number == 1 and line.split()[:1] and line.split()[0].lower() == SMILES:
                mark = "\t" if "\t" in line.strip() else None  # between tabs there may be names of several words
                names = [name.strip() for name in line.strip().split(mark)][1:]
            elif line.strip():
                place = Place(file.name, "line", number)
                words = [word.strip() for word in line.strip().split(mark)][1:]
                if names and len(words) > len(names):
                    raise UserError(f"{place} has more columns than its first line names; put tabs between them.")
                yield Row(place, {**dict(zip(names, words, strict=False)), SMILES: line.split()[0]})
