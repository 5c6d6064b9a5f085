"""Molecules to look at: a page of drawn structures with their scores, an SDF, a table."""

import base64
import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from candi.base.files import write_text
from candi.data.molecules import parse
from candi.views.page import write_filled

_BINS = 24


@dataclass(frozen=True)
class Drawn:
    """One generated molecule."""

    smiles: str
    values: Mapping[str, float]
    novel: bool | None


def write_page(
    path: Path, title: str, facts: Mapping[str, str], molecules: Sequence[Drawn],
    samples: Mapping[str, Sequence[float]], training: Mapping[str, Sequence[float]],
) -> None:  # fmt: skip
    """`samples` and `training` hold the properties of all valid samples and of the training data, for histograms."""
    data = {
        "title": title,
        "facts": facts,
        "molecules": [
            {"smiles": one.smiles, "values": one.values, "novel": one.novel, "picture": picture(one.smiles)}
            for one in molecules
        ],
        "histograms": {name: _histogram(values, training.get(name, ())) for name, values in samples.items() if values},
    }
    write_filled(path, "molecules.html", data)


def picture(smiles: str) -> str:
    """A drawing as an image of its own, in which nothing can run."""
    from rdkit.Chem.Draw import rdMolDraw2D

    drawer = rdMolDraw2D.MolDraw2DSVG(220, 160)
    drawer.drawOptions().clearBackground = False  # type: ignore[assignment]
    rdMolDraw2D.PrepareAndDrawMolecule(drawer, parse(smiles))
    drawer.FinishDrawing()
    return "data:image/svg+xml;base64," + base64.b64encode(drawer.GetDrawingText().encode()).decode()


def _histogram(values: Sequence[float], training: Sequence[float]) -> dict[str, Any]:
    """Shares in equal bins over the range of both; whole numbers have a bin each."""
    both = np.concatenate([np.asarray(values, float), np.asarray(training, float)])
    low, high = float(both.min()), float(both.max())
    whole = bool((both == both.round()).all()) and high - low < _BINS
    edges = np.arange(low - 0.5, high + 1) if whole else np.linspace(low, high + 1e-9, _BINS + 1)
    return {
        "low": low,
        "high": high,
        "samples": _shares(values, edges),
        "training": _shares(training, edges),
        "mean": float(np.mean(values)),
        "training_mean": float(np.mean(training)) if len(training) else None,
    }


def _shares(values: Sequence[float], edges: Any) -> list[float]:
    counts = np.histogram(np.asarray(values, float), edges)[0]
    return (counts / max(1, counts.sum())).tolist()


def write_sdf(path: Path, molecules: Sequence[Drawn]) -> None:
    """Structures with two-dimensional coordinates and their properties."""
    from rdkit import Chem
    from rdkit.Chem import AllChem

    text = io.StringIO()
    writer = Chem.SDWriter(text)
    for one in molecules:
        molecule = parse(one.smiles)
        AllChem.Compute2DCoords(molecule)  # type: ignore[attr-defined]
        molecule.SetProp("_Name", one.smiles)  # type: ignore[union-attr]
        for name, value in one.values.items():
            molecule.SetProp(name, f"{value:.4f}")  # type: ignore[union-attr]
        writer.write(molecule)
    writer.close()
    write_text(path, text.getvalue())


def write_table(
    path: Path, samples: Sequence[str], smiles: Sequence[str | None], molecules: Mapping[str, Drawn]
) -> None:
    """A line a sample, as it was written; molecules with their canonical spelling and properties."""
    names = list(next(iter(molecules.values())).values) if molecules else []
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["sample", "smiles", "novel", *names])
    for sample, spelled in zip(samples, smiles, strict=True):
        one = molecules.get(spelled) if spelled is not None else None
        novel = "" if one is None or one.novel is None else str(one.novel).lower()
        table.writerow([sample, spelled or "", novel, *(f"{one.values[name]:.4f}" if one else "" for name in names)])
    write_text(path, text.getvalue())
