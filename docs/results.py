"""Write docs/results.md and its figures from the files under results/: python docs/results.py"""

from pathlib import Path

from candi.reproduce.page import write

ROOT = Path(__file__).parent.parent

if __name__ == "__main__":
    write(ROOT / "results", ROOT / "docs")
