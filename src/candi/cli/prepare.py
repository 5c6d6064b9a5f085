"""candi prepare"""

from collections.abc import Sequence
from pathlib import Path

from candi.base.errors import UserError
from candi.cli.parsing import flag, parse, parser
from candi.cli.sampling_flags import add_chat
from candi.data.cache import default_folder, load_tokenizer
from candi.data.corpus import Corpus
from candi.data.prepare import prepared
from candi.data.store import LOCK, MANIFEST, TOKENIZER


def run(arguments: Sequence[str]) -> None:
    flags = parser(
        "prepare",
        "--data TEXT --tokenizer T --out STORE",
        "Turn data into tokens beforehand, for many runs and machines: candi train --data STORE.",
    )
    flags.add_argument("--data", type=str, required=True, help="Data, of any kind that candi train takes.")
    flags.add_argument("--tokenizer", type=str, default="char", help="As of candi train.")
    flags.add_argument("--out", type=Path, required=True, help="Folder of the store. The same command continues it.")
    flags.add_argument("--text_field", type=str, default="text", help="Column with the text, of data with columns.")
    flags.add_argument("--rows", type=bool | None, default=None, nargs="?", const=True, help="As of candi train.")
    add_chat(flags)
    flag(flags, "skip_bad", "Leave out molecules that cannot be read when the vocabulary is made.")
    given = parse(flags, arguments)
    out = given.out
    if out.exists() and not (out.is_dir() and all(map(_own, out.iterdir()))):
        raise UserError(f"{out} holds other things; choose another --out.")
    corpus = Corpus(given.data, given.text_field, given.rows, given.chat)
    if corpus.prepared is not None:
        raise UserError(f"{given.data} is prepared already; train with it.")
    tokenizer = load_tokenizer(given.tokenizer, corpus, default_folder(), given.skip_bad).learning()
    store = prepared(corpus, tokenizer, out, tokenizer.framed)
    size = sum(path.stat().st_size for path in out.glob("*.safetensors"))
    unusable = f", {store.unusable:,} of which cannot be used" if store.unusable else ""
    print(
        f"{out}: {len(store.ends):,} documents{unusable}, {len(store.tokens):,} tokens of {tokenizer.vocab_size:,}, "
        f"{size / 1e6:,.1f} MB. candi train --data {out} learns from it."
    )


def _own(path: Path) -> bool:
    """Whether it is a part of a store, finished or not."""
    return path.name in (MANIFEST, TOKENIZER, LOCK) or path.suffix == ".safetensors" or path.name.startswith(".")
