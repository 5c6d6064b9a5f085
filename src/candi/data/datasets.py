"""What a run learns from: sequences to train on, sequences to validate on, and their tokenizer."""

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from candi.base.errors import UserError
from candi.data.batches import Windows
from candi.data.cache import default_folder, load_tokenizer, load_tokens
from candi.data.corpus import Corpus
from candi.data.labels import Label
from candi.data.rows import Documents, Rows, Sequences, load_documents
from candi.data.tokenizer import Tokenizer


@dataclass(frozen=True)
class Dataset:
    """`fingerprint` is a hash of the data; `label` the rule by which sequences are labelled, if they are."""

    tokenizer: Tokenizer
    length: int
    train: Sequences
    valid: Sequences | None
    fingerprint: str
    label: str | None = None

    @property
    def sizes(self) -> tuple[int, int, str | None]:
        """Vocabulary, length and label: what a denoiser is built for."""
        return self.tokenizer.vocab_size, self.length, self.label

    def frequencies(self, most: int = 2**23) -> Float[Tensor, "P V"]:
        """How frequent each token is in at most so many tokens of training: one row, as text that is cut anywhere looks

        the same at every position, or one row a position where each sequence is a document of its own.
        """
        windows = torch.from_numpy(self.train.first(max(1, most // self.length)))
        columns = windows.T if self.tokenizer.pad is not None else windows.reshape(1, -1)
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
    label: str | None = None,
    skip_bad: bool = False,
    seed: int = 0,
    cache: Path | None = None,
) -> Dataset:
    """Text, tables or molecules as sequences of `length` tokens; `seed` decides their order.

    `data` is anything that `candi train --data` takes, `tokenizer` a spec such as char, smiles or bpe:4096, or a
    tokenizer that exists. Validation is on another text, or on a fraction that is kept from training.
    """
    corpus, folder = Corpus(data, text_field), cache or default_folder()
    if isinstance(tokenizer, str):
        tokenizer = load_tokenizer(tokenizer, corpus, folder, skip_bad)
    other = None if valid is None else Corpus(valid, text_field)
    if tokenizer.pad is None:
        if label is not None:
            raise UserError("--label needs one document a sequence, as --tokenizer smiles makes them.")
        train, held_out = _windows(corpus, other, tokenizer, length, valid_fraction, seed, folder)
    else:
        train, held_out = _rows(corpus, other, tokenizer, length, valid_fraction, label, skip_bad, seed, folder)
    return Dataset(tokenizer, length, train, held_out, corpus.fingerprint, label)


def _windows(
    corpus: Corpus, other: Corpus | None, tokenizer: Tokenizer, length: int, valid_fraction: float, seed: int,
    folder: Path,
) -> tuple[Sequences, Sequences | None]:  # fmt: skip
    """A stream of tokens cut into sequences."""
    tokens = load_tokens(corpus, tokenizer, folder)
    if other is not None:
        held_out = load_tokens(other, tokenizer, folder)
        if len(held_out) < length:
            raise UserError(
                f"{other.source} has {len(held_out)} tokens, too few for a sequence of {length}; give more."
            )
    else:
        cut = len(tokens) - int(len(tokens) * valid_fraction)
        cut = cut if len(tokens) - cut >= length else len(tokens)  # too little to validate on is still trained on
        tokens, held_out = tokens[:cut], tokens[cut:]
    windows = Windows(tokens, length, seed)
    windows.check_epoch()
    return windows, Windows(held_out, length, seed) if len(held_out) else None


def _rows(
    corpus: Corpus, other: Corpus | None, tokenizer: Tokenizer, length: int, valid_fraction: float, label: str | None,
    skip_bad: bool, seed: int, folder: Path,
) -> tuple[Sequences, Sequences | None]:  # fmt: skip
    """A sequence for each document."""

    def documents(of: Corpus) -> Documents:
        return load_documents(of, tokenizer, length, folder, molecules=True, skip_bad=skip_bad)

    def rows(of: Corpus, some: Documents) -> Rows:
        if label is None:
            return Rows(some.tokens, seed)
        labels, _ = Label.of(label).fixed(corpus, folder).of_corpus(of, folder, both=of is corpus)
        return Rows(some.tokens, seed, labels[some.numbers])

    train, held_out = documents(corpus).split(0.0 if other is not None else valid_fraction)
    if other is not None:
        held_out = documents(other)
    return rows(corpus, train), rows(other or corpus, held_out) if len(held_out.tokens) else None
