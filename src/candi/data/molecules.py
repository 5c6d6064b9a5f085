"""What RDKit tells of molecules. It is an extra: nothing else needs it."""

import hashlib
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candi.base.errors import UserError, extra
from candi.base.files import write_text
from candi.data.corpus import Corpus

HAS_RDKIT = importlib.util.find_spec("rdkit") is not None


def need_rdkit(what: str) -> None:
    if not HAS_RDKIT:
        raise UserError(f"{what} needs RDKit; get it with {extra('molecules')}.")


def rdkit_version() -> str:
    if not HAS_RDKIT:
        return "none"
    import rdkit

    return str(rdkit.__version__)


def speller() -> str:
    """Who spells canonical SMILES here: releases of RDKit differ in some."""
    return f"RDKit {rdkit_version()}"


def parse(smiles: str) -> Any | None:
    """RDKit's molecule, or None if there is none: nothing at all is no molecule either."""
    need_rdkit("Reading molecules")
    from rdkit import Chem, RDLogger

    RDLogger.DisableLog("rdApp.*")  # type: ignore[attr-defined]
    molecule = Chem.MolFromSmiles(smiles) if smiles else None
    return molecule if molecule is not None and molecule.GetNumAtoms() else None


def canonical(smiles: str) -> str | None:
    """The one spelling that all spellings of a molecule share; None also for one that cannot be read back."""
    molecule = parse(smiles)
    if molecule is None:
        return None
    from rdkit import Chem

    text = str(Chem.MolToSmiles(molecule))
    return text if parse(text) is not None else None


def readable(texts: Sequence[str]) -> list[bool]:
    """Which of them are molecules; without RDKit nobody can tell, and all are taken."""
    return [parse(text) is not None for text in texts] if HAS_RDKIT else [True] * len(texts)


def canonical_corpus(corpus: Corpus, folder: Path) -> frozenset[str]:
    """All molecules of a corpus in their one spelling, found once and kept."""
    key = "\n".join(("canonical 2", corpus.fingerprint, rdkit_version()))
    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.smi"
    if not path.exists():
        found = {text for piece in corpus.pieces() if (text := canonical(piece.text)) is not None}
        write_text(path, "\n".join(sorted(found)) + "\n")
    return frozenset(path.read_text(encoding="utf-8").split())


def _qed(molecule: Any) -> float:
    from rdkit.Chem import QED

    return float(QED.qed(molecule))


def _rings(molecule: Any) -> float:
    from rdkit.Chem import rdMolDescriptors

    return float(rdMolDescriptors.CalcNumRings(molecule))


def _logp(molecule: Any) -> float:
    from rdkit.Chem import Crippen

    return float(Crippen.MolLogP(molecule))  # type: ignore[attr-defined]


def _weight(molecule: Any) -> float:
    from rdkit.Chem import Descriptors

    return float(Descriptors.MolWt(molecule))  # type: ignore[attr-defined]


PROPERTIES: dict[str, Callable[[Any], float]] = {"qed": _qed, "rings": _rings, "logp": _logp, "weight": _weight}


def properties(smiles: Iterable[str], name: str) -> NDArray[np.float64]:
    """Of each molecule; nan for what is none."""
    need_rdkit(f"The property {name}")
    compute = PROPERTIES[name]
    return np.array([np.nan if (m := parse(text)) is None else compute(m) for text in smiles], dtype=np.float64)
