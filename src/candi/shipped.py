"""Models that come with the package."""

from importlib.resources import files
from pathlib import Path
from typing import Any

from candi.config import read_json
from candi.errors import UserError
from candi.files import sha256

CARD = "card.json"  # what a model was made of, how well it does, what it should be sampled with
WORDS = "words.bloom"  # the words of its data
MOLECULES = "molecules.bloom"  # the molecules of its data, in RDKit's one spelling
CLASSIFIERS = "classifiers"  # those that can guide it, each under the name of its property


def shipped() -> dict[str, Path]:
    """Folders of models by name."""
    folder = Path(str(files("candi") / "models"))
    return {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{CARD}"))}


def classifier_of(folder: Path, name: str) -> str:
    """Where a classifier lies: at a path, or, if there is nothing, with the model, under the name of its property."""
    packed = folder / CLASSIFIERS / name
    return str(packed) if packed.is_dir() and not Path(name).expanduser().exists() else name


def check_weights(folder: Path, weights: Path) -> None:
    """Refuse weights that are not those of the card, if there is one."""
    card = read_json(folder / CARD) if (folder / CARD).exists() else {}
    expected = card.get("sha256") if isinstance(card, dict) else None
    if expected is not None and sha256(weights) != expected:
        raise UserError(
            f"{weights} is not what {folder / CARD} was written for (SHA-256 differs); fetch the model anew."
        )


def recommended(folder: Path) -> dict[str, Any]:
    """Options that a model is best sampled with, as its card says; none without a card."""
    path = folder / CARD
    if not path.exists():
        return {}
    card = read_json(path)
    advice = card.get("recommended", {}) if isinstance(card, dict) else None
    kinds: dict[str, Any] = {"steps": int, "temperature": (int, float)}
    if not isinstance(advice, dict) or not all(
        isinstance(v, kinds.get(k, str)) and not isinstance(v, bool) for k, v in advice.items()
    ):
        raise UserError(f"{path} is no card of a model: what it recommends is no table of sampling options.")
    return advice
