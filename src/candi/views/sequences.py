"""Samples to look at: a page of drawn molecules or of texts with their scores, an SDF, a table."""

import base64
import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from candi.base.files import write_text
from candi.data.molecules import parse
from candi.evaluation.measures import plain
from candi.views.page import write_filled

_BINS = 24


@dataclass(frozen=True)
class Drawn:
    """One generated sequence."""

    text: str
    values: Mapping[str, float]
    novel: bool | None


def write_page(
    path: Path, title: str, facts: Mapping[str, str], shown: Sequence[Drawn],
    samples: Mapping[str, Sequence[float]], training: Mapping[str, Sequence[float]], molecules: bool = True,
) -> None:  # fmt: skip
    """`samples` and `training` hold the properties of all valid samples and of the training data, for histograms."""
    data = {
        "title": title,
        "facts": facts,
        "what": "Molecules" if molecules else "Samples",
        "sequences": [
            {
                "text": one.text,
                "values": plain(one.values),
                "novel": one.novel,
                "picture": picture(one.text) if molecules else None,
            }
            for one in shown
        ],
        "histograms": {
            name: _histogram(_finite(values), _finite(training.get(name, ())))
            for name, values in samples.items()
            if _finite(values)
        },
    }
    write_filled(path, "sequences.html", data)


def _finite(values: Sequence[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


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
        molecule = parse(one.text)
        AllChem.Compute2DCoords(molecule)  # type: ignore[attr-defined]
        molecule.SetProp("_Name", one.text)  # type: ignore[union-attr]
        for name, value in one.values.items():
            molecule.SetProp(name, f"{value:.4f}")  # type: ignore[union-attr]
        writer.write(molecule)
    writer.close()
    write_text(path, text.getvalue())


def write_table(
    path: Path, samples: Sequence[str], texts: Sequence[str | None], drawn: Mapping[str, Drawn], molecules: bool = True
) -> None:
    """A line a sample, as it was written; molecules with their canonical spelling, and properties."""
    names = list(next(iter(drawn.values())).values) if drawn else []
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["sample", *(["smiles"] if molecules else []), "novel", *names])
    for sample, text_of in zip(samples, texts, strict=True):
        one = drawn.get(text_of) if text_of is not None else None
        spelled = [text_of or ""] if molecules else []
        novel = "" if one is None or one.novel is None else str(one.novel).lower()
        table.writerow([sample, *spelled, novel, *(f"{one.values[name]:.4f}" if one else "" for name in names)])
    write_text(path, text.getvalue())
