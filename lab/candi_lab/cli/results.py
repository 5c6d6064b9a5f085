"""candi-lab results"""

from collections.abc import Sequence
from pathlib import Path

from candi.base.errors import UserError
from candi.cli.parsing import parse, parser
from candi_lab.report.bits import write_bits
from candi_lab.report.blocks import write_blocks
from candi_lab.report.page import read_results, write_page
from candi_lab.report.performance import write_performance
from candi_lab.report.pretrained import write_pretrained
from candi_lab.report.readme import write_readme

_ROOT = Path(__file__).resolve().parents[3]  # of the repository, where the lab is installed from


def run(arguments: Sequence[str]) -> None:
    about = "Write docs/results.md with its figures, performance.md, pretrained.md, likelihood.md, README's table."
    flags = parser("results", "", about, program="candi-lab")
    flags.add_argument("--root", type=Path, default=_ROOT, help="The repository.")
    root = parse(flags, arguments).root
    results, docs, readme = root / "lab" / "results", root / "docs", root / "README.md"
    for path in (results, readme):
        if not path.exists():
            raise UserError(f"{path} is missing; give the repository with --root FOLDER.")
    measured = read_results(results)
    write_page(measured, docs)
    write_performance(root / "lab" / "benchmarks", docs / "performance.md")
    write_pretrained(results / "adapt", docs / "pretrained.md")
    write_bits(results / "bits", docs / "likelihood.md")
    write_blocks(results / "blocks", docs / "blocks.md")
    write_readme(readme, measured)
    print(f"Written: {docs / 'results.md'}, {docs / 'performance.md'}, {readme}")
