"""Models that come with the package."""

from importlib.resources import files
from pathlib import Path

from candi.model.files import CARD

WORDS = "words.bloom"  # the words of its data
MOLECULES = "molecules.bloom"  # the molecules of its data, in RDKit's one spelling


def shipped() -> dict[str, Path]:
    """Folders of models by name."""
    folder = Path(str(files("candi") / "models"))
    return {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{CARD}"))}


def words_of_model(name: str) -> str | None:
    """The file of the words of a model that ships; None where nothing is called so, or a file of data is."""
    path = shipped().get(name, Path()) / WORDS
    return str(path) if path.exists() and not Path(name).exists() else None
