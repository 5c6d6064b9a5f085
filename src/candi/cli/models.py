"""candi models"""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from candi.cli.parsing import parse, parser
from candi.config import read_json
from candi.errors import unknown
from candi.export import README
from candi.shipped import CARD, shipped


def run(arguments: Sequence[str]) -> None:
    flags = parser("models", "[NAME]", "The models that ship with the package, or the card of one of them.")
    flags.add_argument("name", type=str | None, nargs="?", default=None, help="Of the model whose card is shown.")
    given = parse(flags, arguments)
    known = shipped()
    if given.name is not None:
        if given.name not in known:
            raise unknown("model", given.name, known)
        print((known[given.name] / README).read_text(encoding="utf-8"), end="")
        return
    table = Table(box=None, pad_edge=False)
    for head in ("name", "what", "parameters", "MB", "recommended"):
        table.add_column(head, justify="right" if head in ("parameters", "MB") else "left")
    for name, folder in known.items():
        card = read_json(folder / CARD)
        advice = ", ".join(f"{key} {value}" for key, value in card["recommended"].items())
        table.add_row(name, card["title"], f"{card['parameters']:,}", f"{card['bytes'] / 1e6:.1f}", advice)
    console = Console(highlight=False)
    if not console.is_terminal:  # a pipe has no width
        console = Console(highlight=False, width=160)
    console.print(table)
    print("\ncandi sample NAME writes samples; candi models NAME shows a model's card.")
