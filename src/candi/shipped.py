"""Models that come with the package."""

from importlib.resources import files
from pathlib import Path

from candi.config import read_json

CARD = "card.json"  # what a model was made of, how well it does, what it should be sampled with
WORDS = "words.bloom"  # the words of its data


def shipped() -> dict[str, Path]:
    """Folders of models by name."""
    folder = Path(str(files("candi") / "models"))
    return {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{CARD}"))}


def recommended(folder: Path) -> dict[str, object]:
    """Options that a model is best sampled with, as its card says; none without a card."""
    path = folder / CARD
    return dict(read_json(path)["recommended"]) if path.exists() else {}
