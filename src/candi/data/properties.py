"""Properties that are computed from a sequence itself: by RDKit of molecules, as sums over letters of the others."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from candi.base.errors import UserError, unknown
from candi.base.files import whole_file
from candi.base.progress import say
from candi.data import molecules
from candi.data.corpus import Corpus
from candi.data.molecules import rdkit_version
from candi.data.tokenizer import Tokenizer
from candi.data.vocabularies import ALPHABETS

Kind: TypeAlias = Literal["molecules", "protein", "dna", "text"]

# hydropathy of a residue by Kyte and Doolittle (1982)
_HYDROPATHY = {
    "A": 1.8, "R": -4.5, "N": -3.5, "D": -3.5, "C": 2.5, "Q": -3.5, "E": -3.5, "G": -0.4, "H": -3.2, "I": 4.5,
    "L": 3.8, "K": -3.9, "M": 1.9, "F": 2.8, "P": -1.6, "S": -0.8, "T": -0.7, "W": -0.9, "Y": -1.3, "V": 4.2,
}  # fmt: skip
# average masses of residues in dalton, without the water that their bonds have given off
_MASS = {
    "A": 71.08, "R": 156.19, "N": 114.10, "D": 115.09, "C": 103.14, "E": 129.12, "Q": 128.13, "G": 57.05, "H": 137.14,
    "I": 113.16, "L": 113.16, "K": 128.17, "M": 131.19, "F": 147.18, "P": 97.12, "S": 87.08, "T": 101.10, "W": 186.21,
    "Y": 163.18, "V": 99.13,
}  # fmt: skip
_WATER = 18.02
_CHARGE = {"K": 1.0, "R": 1.0, "H": 0.1, "D": -1.0, "E": -1.0}  # about, at pH 7


def _mean(values: Mapping[str, float]) -> Callable[[str], float]:
    """Over the letters that have a value."""

    def of(text: str) -> float:
        found = [values[letter] for letter in text if letter in values]
        return sum(found) / len(found) if found else float("nan")

    return of


def _charge(text: str) -> float:
    return sum(_CHARGE.get(letter, 0.0) for letter in text)


def _weight(text: str) -> float:
    return sum(_MASS.get(letter, 0.0) for letter in text) + _WATER


def _length(text: str) -> float:
    return float(len(text))


def _words(text: str) -> float:
    return float(len(text.split()))


_COMPUTED: dict[str, dict[str, Callable[[str], float]]] = {
    "protein": {"length": _length, "charge": _charge, "hydropathy": _mean(_HYDROPATHY), "weight": _weight},
    "dna": {"length": _length, "gc": _mean({"G": 1.0, "C": 1.0, "A": 0.0, "T": 0.0})},
    "text": {"length": _length, "words": _words},
}


def kind_of(tokenizer: Tokenizer) -> Kind:
    """What its sequences are, as far as the vocabulary tells."""
    if tokenizer.framed:
        return "molecules"
    letters = set(tokenizer.backend.get_vocab(with_added_tokens=False))
    for kind in ("protein", "dna"):
        if letters == set(ALPHABETS[kind]):
            return kind  # type: ignore[return-value]
    return "text"


def known_properties(kind: Kind) -> list[str]:
    return list(molecules.PROPERTIES if kind == "molecules" else _COMPUTED[kind])


def check_property(name: str, kind: Kind) -> None:
    if name not in known_properties(kind):
        raise unknown("property", name, known_properties(kind))


def properties(texts: Iterable[str], name: str, kind: Kind) -> NDArray[np.float64]:
    """Of each sequence; nan for what has none."""
    if kind == "molecules":
        return molecules.properties(texts, name)
    return np.array([_COMPUTED[kind][name](text) for text in texts], np.float64)


def property_values(corpus: Corpus, name: str, kind: Kind, folder: Path) -> NDArray[np.float64]:
    """A property of every document: a column of the corpus, or what is computed, once, and kept."""
    if name not in known_properties(kind) or corpus.has(name):
        return _column(corpus, name, kind)
    reader = ("property 1", corpus.fingerprint, name, rdkit_version() if kind == "molecules" else kind)
    path = folder / f"{hashlib.sha256(chr(10).join(reader).encode()).hexdigest()[:32]}.property.npy"
    if not path.exists():
        say(f"Computing {name} of the sequences of {corpus.source}; it is kept in {folder}.")
        values = properties((piece.text for piece in corpus.pieces()), name, kind)
        with whole_file(path) as file:
            np.save(file, values)
    return np.asarray(np.load(path), dtype=np.float64)


def _column(corpus: Corpus, name: str, kind: Kind) -> NDArray[np.float64]:
    try:
        return np.array([float(value) for value in corpus.table(name)], dtype=np.float64)
    except ValueError as error:
        if isinstance(error, UserError):
            known = ", ".join(known_properties(kind))
            raise UserError(f"{name!r} is no property that is computed of {kind} ({known}), and: {error}") from None
        raise UserError(
            f"The column {name!r} holds something that is no number ({error}); for classes by name give {name} alone."
        ) from None
