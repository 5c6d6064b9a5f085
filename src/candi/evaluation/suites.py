"""Named corpora, each read and counted in one stated way, so that two people get the same number."""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from candi.base.errors import UserError, unknown
from candi.base.files import write_text
from candi.base.version import __version__
from candi.data.cache import default_folder
from candi.data.corpus import Corpus
from candi.data.datasets import load_sequences
from candi.data.detokenize import VERSION, detokenizer
from candi.evaluation.likelihood import Likelihood, likelihood
from candi.model.model import Model

_SUITE = "1"  # of all that is done here to a text and counted in it


@dataclass(frozen=True)
class Named:
    """A corpus of a suite: where the hub has it, the column of its text, and how it becomes text again."""

    name: str
    source: str | None = None
    field: str = "text"
    rule: str = "none"
    about: str = ""
    last: int | None = None  # characters at its end, if it is no more than that
    joined: bool = False  # is it one text, which the hub has in lines?


ZERO_SHOT: dict[str, Named] = {
    one.name: one
    for one in (
        Named("text8", about="the last 5,000,000 characters of text8", last=5_000_000),
        Named("lm1b", rule="lm1b", about="One Billion Words, its test part"),
        Named("ptb", rule="ptb", about="Penn Treebank, its test part"),
        Named(
            "wikitext",
            "hf:Salesforce/wikitext:wikitext-103-raw-v1/test",
            rule="wikitext",
            about="WikiText-103",
            joined=True,
        ),
        Named("lambada", "hf:cimec/lambada:plain_text/test", rule="lambada", about="LAMBADA, its test part"),
        Named("ag_news", "hf:fancyzhx/ag_news:data/test", about="AG News, its test part"),
        Named("pubmed", field="article", rule="papers", about="articles of PubMed, their test part"),
        Named("arxiv", field="article", rule="papers", about="articles of arXiv, their test part"),
    )
}


@dataclass(frozen=True)
class Score:
    """What a model makes of a corpus, and all that decides the number."""

    suite: str
    corpus: str
    bits_per_token: float
    bits_low: float
    bits_high: float
    exact: bool
    perplexity: float  # 2^(bits per token)
    bits_per_byte: float
    bits_per_character: float
    word_perplexity: float  # 2^(bits per word), words as published, between white space
    sequences: int
    times: int
    context: int
    stride: int
    detokenised: str
    tokens: int
    words: float
    text: str  # the hash of the text that was read
    tokenizer: str
    candi: str


def zero_shot(
    model: Model, names: Sequence[str] = (), folder: Path | None = None, *, sequences: int = 256, times: int = 8,
    batch_size: int = 16, seed: int = 0, cache: Path | None = None,
) -> Iterator[Score]:  # fmt: skip
    """Each corpus as it is known: of a folder the files and folders that are named so, else of the hub."""
    if model.rows:
        raise UserError("The suite cuts texts into windows; a model of rows has none. Evaluate it with --data.")
    for name in names:
        if name not in ZERO_SHOT:
            raise unknown("corpus", name, ZERO_SHOT)
    places = {name: _place(ZERO_SHOT[name], folder) for name in names or ZERO_SHOT}
    if not names:  # all that is there
        places = {name: place for name, place in places.items() if place is not None}
    missing = next((name for name, place in places.items() if place is None), None)
    if missing is not None or not places:
        wanted = missing or "ptb"
        raise UserError(
            f"{wanted} is at no known place of the hub; give --corpora-in a folder with {wanted}.txt or another file "
            "of that name."
        )
    for name, place in places.items():
        yield _score(model, ZERO_SHOT[name], str(place), sequences, times, batch_size, seed, cache or default_folder())


def _place(named: Named, folder: Path | None) -> str | None:
    """A file or folder of this name, whatever its ending."""
    if folder is None:
        return named.source
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; --corpora-in is one with a file for each corpus, as ptb.txt.")
    found = sorted(path for path in folder.iterdir() if path.name.split(".")[0] == named.name)
    return str(found[0]) if found else None


def _score(
    model: Model, named: Named, source: str, sequences: int, times: int, batch_size: int, seed: int, cache: Path
) -> Score:
    """Documents with an end between them, cut into windows of the model's length that do not overlap."""
    text, words, size = _as_written(named, source, cache)
    data = load_sequences(Corpus(str(text)), model.tokenizer, model.config.length, rows=False, seed=seed, cache=cache)
    found = likelihood(model, data.first(sequences), times=times, batch_size=batch_size, seed=seed)
    return _scored(found, named, model, words, text, size)


def _scored(found: Likelihood, named: Named, model: Model, words: int, text: Path, size: int) -> Score:
    """Words are counted in all of the corpus; the sequences hold as many of them as they hold of its bytes."""
    bits = found.per("byte")[0]
    evaluated = words * found.bytes / max(1, size)
    return Score(
        suite=f"zero-shot {_SUITE}", corpus=named.name, bits_per_token=found.bits_per_token, bits_low=found.low,
        bits_high=found.high, exact=found.exact, perplexity=power(found.bits_per_token), bits_per_byte=bits,
        bits_per_character=found.per("character")[0], word_perplexity=power(bits * found.bytes / max(1.0, evaluated)),
        sequences=found.sequences, times=found.times, context=model.config.length, stride=model.config.length,
        detokenised=f"{named.rule} {VERSION}", tokens=found.tokens, words=round(evaluated, 1),
        text=text.stem, tokenizer=model.tokenizer.fingerprint, candi=__version__,
    )  # fmt: skip


def power(bits: float) -> float:
    return 2**bits if bits < 1000 else math.inf


def _as_written(named: Named, source: str, cache: Path) -> tuple[Path, int, int]:
    """The corpus as people write it, a document a line, kept under its hash; its words as published, its bytes."""
    detokenize, lines, words, size = detokenizer(named.rule), list[str](), 0, 0
    for document in _documents(Corpus(source, named.field), named):
        text = detokenize(document)
        words += len(document.split())
        size += len(text.encode())
        lines.append(json.dumps({"text": text}))
    if not words:
        raise UserError(f"{source} holds no text; give a file that does.")
    content = "\n".join(lines) + "\n"
    path = cache / "suites" / f"{hashlib.sha256(content.encode()).hexdigest()}.jsonl"
    if not path.exists():
        write_text(path, content)
    return path, words, size


def _documents(corpus: Corpus, named: Named) -> Iterator[str]:
    """As the corpus is cut into them; of one that is a text of its own, all of it, or its end."""
    found = _read(corpus)
    if named.joined or named.last is not None:
        text = "".join(found)
        found = iter([text if named.last is None else text[-named.last :]])
    yield from found


def _read(corpus: Corpus) -> Iterator[str]:
    parts = list[str]()
    for piece in corpus.pieces():
        parts.append(piece.text)
        if piece.ends:
            yield "".join(parts)
            parts = []
