"""Write docs/results.md, its figures and the advice of the README from the files under results/."""

from pathlib import Path

from candi.reproduce.page import write

ROOT = Path(__file__).parent.parent

if __name__ == "__main__":
    write(ROOT / "results", ROOT / "docs", ROOT / "README.md")
