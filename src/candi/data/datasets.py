"""What a run learns from: sequences to train on, sequences to validate on, and their tokenizer."""

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from candi.base.errors import UserError
from candi.base.labels import Label
from candi.data.batches import Windows
from candi.data.cache import default_folder, load_tokenizer
from candi.data.corpus import Corpus
from candi.data.documents import CHAT
from candi.data.labels import Labels
from candi.data.prepare import store_of
from candi.data.properties import kind_of
from candi.data.rows import Documents, Rows, Sequences, documents_of
from candi.data.store import TokenStore
from candi.data.stream import streamed
from candi.data.tokenizer import Tokenizer


@dataclass(frozen=True)
class Dataset:
    """`fingerprint` is a hash of the data; `labels` are those that its sequences have."""

    tokenizer: Tokenizer
    length: int
    train: Sequences
    valid: Sequences | None
    fingerprint: str
    labels: tuple[Label, ...] = ()
    by_rows: bool = False
    block: int | None = None  # of the models that it is for

    @property
    def rows(self) -> bool:
        """Whether each sequence is a document, which ends and is padded. Molecules always are: their marks say so."""
        return self.by_rows and not self.tokenizer.framed

    @property
    def sizes(self) -> tuple[int, int, tuple[Label, ...], bool]:
        """Vocabulary, length, labels and rows: what a denoiser is built for."""
        return self.tokenizer.vocab_size, self.length, self.labels, self.rows

    def frequencies(self, most: int = 2**23) -> Float[Tensor, "P V"]:
        """How frequent each token is in at most so many tokens of training: one row, as text that is cut anywhere looks

        the same at every position, or one row a position where each sequence is a document of its own. Of what is
        written in blocks it is one row, of what is learned: a block may stand anywhere.
        """
        count = max(1, most // self.length)
        windows = torch.from_numpy(self.train.first(count))
        marks = self.train.first_given(count)
        if self.block is not None:
            learned = windows.flatten() if marks is None else windows[torch.from_numpy(~marks)]
            return torch.bincount(learned, minlength=self.tokenizer.vocab_size)[None].float() / max(1, len(learned))
        columns = windows.T if self.by_rows else windows.reshape(1, -1)
        counts = [torch.bincount(column, minlength=self.tokenizer.vocab_size) for column in columns]
        return torch.stack(counts).float() / columns.shape[1]


def load_dataset(
    data: str,
    tokenizer: str | Tokenizer = "char",
    length: int = 256,
    *,
    valid: str | None = None,
    valid_fraction: float = 0.05,
    text_field: str = "text",
    rows: bool | None = None,
    chat: str = CHAT,
    label: str | None = None,
    skip_bad: bool = False,
    stream: bool = False,
    seed: int = 0,
    cache: Path | None = None,
    block: int | None = None,
) -> Dataset:
    """Text, tables, molecules, integers or prepared tokens as sequences of `length` tokens; `seed` decides their order.

    `data` is anything that `candi train --data` takes, `tokenizer` a spec such as char, smiles or bpe:4096, or a
    tokenizer that exists. Validation is on another text, or on a fraction that is kept from training. With `rows` each
    line, cell or record is a sequence of its own; None lets the data decide. With `stream` the data is read as it is
    needed, and nothing of it is kept. `label` names columns or rules, see `candi train --label`. `block` is that of a
    model that writes in blocks: of each document it learns the blocks up to its end.
    """
    corpus, folder = Corpus(data, text_field, rows, chat, stream), cache or default_folder()
    if isinstance(tokenizer, str):
        tokenizer = load_tokenizer(tokenizer, corpus, folder, skip_bad)
    tokenizer = tokenizer.learning()
    other = None if valid is None else Corpus(valid, text_field, rows, chat)
    train: Sequences
    held_out: Sequences | None
    taught: tuple[Label, ...] = ()
    if stream:
        if label is not None:
            raise UserError("--stream knows no labels; prepare the data, or leave out --label.")
        train, held_out = streamed(
            corpus, tokenizer, length, seed, folder, skip_bad=skip_bad, hold_out=other is None and valid_fraction > 0,
            block=block,
        )  # fmt: skip
        if other is not None:
            held_out = load_sequences(
                other, tokenizer, length, rows=other.by_rows or tokenizer.framed, skip_bad=skip_bad, cache=folder,
                block=block,
            )  # fmt: skip
    elif tokenizer.framed or corpus.by_rows:
        labels = None if label is None else Labels.of(label, corpus, kind_of(tokenizer), folder)
        taught = () if labels is None else labels.taught
        train, held_out = _rows(corpus, other, tokenizer, length, valid_fraction, labels, skip_bad, seed, folder, block)
    else:
        if label is not None:
            raise UserError("--label needs one document a sequence, as --rows or --tokenizer smiles make them.")
        train, held_out = _windows(corpus, other, tokenizer, length, valid_fraction, seed, folder)
    return Dataset(
        tokenizer, length, train, held_out, corpus.fingerprint, taught, by_rows=tokenizer.framed or corpus.by_rows,
        block=block,
    )  # fmt: skip


def load_sequences(
    corpus: Corpus, tokenizer: Tokenizer, length: int, *, rows: bool, skip_bad: bool = False, seed: int = 0,
    cache: Path | None = None, block: int | None = None,
) -> Sequences:  # fmt: skip
    """All of a corpus as sequences of a model, to evaluate it on."""
    store = store_of(corpus, tokenizer, cache or default_folder(), tokenizer.framed)
    if rows:
        return Rows(documents_of(store, tokenizer, length, skip_bad, corpus, block), seed)
    return Windows(store.tokens, length, seed, store.given)


def _windows(
    corpus: Corpus, other: Corpus | None, tokenizer: Tokenizer, length: int, valid_fraction: float, seed: int,
    folder: Path,
) -> tuple[Sequences, Sequences | None]:  # fmt: skip
    """A stream of tokens cut into sequences."""
    store = store_of(corpus, tokenizer, folder)
    size = len(store.tokens)
    if not size:
        raise UserError(f"{corpus.source!r} holds no text at all; point --data at some.")
    if other is not None:
        others = store_of(other, tokenizer, folder)
        held_out = _part(others, length, seed)
        if held_out is None:
            raise UserError(
                f"{other.source} has {len(others.tokens)} tokens, too few for a sequence of {length}; give more."
            )
        cut = size
    else:
        cut = size - int(size * valid_fraction)
        cut = cut if size - cut >= length else size  # too little to validate on is still trained on
        held_out = _part(store, length, seed, cut)
    train = _part(store, length, seed, 0, cut)
    if train is None:
        raise UserError(f"The text has {cut} tokens, too few for a sequence of {length}; give more text.")
    train.check_epoch()
    return train, held_out


def _part(store: TokenStore, length: int, seed: int, start: int = 0, stop: int | None = None) -> Windows | None:
    """Windows of a part of the stream, if it is long enough for one."""
    stop = len(store.tokens) if stop is None else stop
    if stop - start < length:
        return None
    return Windows(
        store.tokens.part(start, stop), length, seed, None if store.given is None else store.given.part(start, stop)
    )


def _rows(
    corpus: Corpus, other: Corpus | None, tokenizer: Tokenizer, length: int, valid_fraction: float,
    labels: Labels | None, skip_bad: bool, seed: int, folder: Path, block: int | None,
) -> tuple[Sequences, Sequences | None]:  # fmt: skip
    """A sequence for each document."""

    def documents(of: Corpus) -> Documents:
        return documents_of(store_of(of, tokenizer, folder, tokenizer.framed), tokenizer, length, skip_bad, of, block)

    def rows(of: Corpus, some: Documents) -> Rows:
        if labels is None:
            return Rows(some, seed)
        found = labels.numbers if of is corpus else labels.of_other(of, kind_of(tokenizer), folder)
        return Rows(some, seed, found[some.numbers])

    train, held_out = documents(corpus).split(0.0 if other is not None else valid_fraction)
    if other is not None:
        held_out = documents(other)
    return rows(corpus, train), rows(other or corpus, held_out) if len(held_out) else None
