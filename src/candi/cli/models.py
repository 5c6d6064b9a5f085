"""candi models"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from candi.base.errors import unknown
from candi.cli.parsing import flag, parse, parser
from candi.evaluation.fingerprint_loss import confirm
from candi.hub.export import README
from candi.hub.model_card import ModelCard
from candi.hub.shipped import shipped
from candi.model.files import CARD


def run(arguments: Sequence[str]) -> None:
    flags = parser("models", "[NAME]", "The models that ship with the package, or the card of one of them.")
    flags.add_argument("name", type=str | None, nargs="?", default=None, help="Of the model whose card is shown, or "
                       "the folder of one that was packed.")  # fmt: skip
    flag(flags, "check", "Check models against their cards: hash of the weights, loss of a known text.")
    given = parse(flags, arguments)
    known = shipped()
    chosen = known if given.name is None else {given.name: _folder(given.name, known)}
    if given.check:
        for name, folder in chosen.items():
            print(f"{name}: weights and loss ({confirm(folder):.5f} nats) are those of its card.")
        return
    if given.name is not None:
        print((chosen[given.name] / README).read_text(encoding="utf-8"), end="")
        return
    table = Table(box=None, pad_edge=False)
    for head in ("name", "what", "parameters", "MB", "recommended"):
        table.add_column(head, justify="right" if head in ("parameters", "MB") else "left")
    for name, folder in known.items():
        card = ModelCard.read(folder)
        advice = ", ".join(f"{key} {value}" for key, value in card.recommended.items())
        table.add_row(name, card.title, f"{card.parameters:,}", f"{card.bytes / 1e6:.1f}", advice)
    console = Console(highlight=False)
    if not console.is_terminal:  # a pipe has no width
        console = Console(highlight=False, width=160)
    console.print(table)
    print("\ncandi sample NAME writes samples; candi models NAME shows a model's card.")


def _folder(name: str, known: Mapping[str, Path]) -> Path:
    if name in known:
        return known[name]
    if not all((Path(name) / file).is_file() for file in (CARD, README)):
        raise unknown("model", name, known)
    return Path(name)
