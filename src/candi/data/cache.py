"""Tokenizers and tokens that are made once and kept: a changed file or tokenizer never meets old tokens."""

import hashlib
from pathlib import Path

from candi.base.errors import UserError
from candi.base.files import waiting_lock, write_text
from candi.data.corpus import Corpus
from candi.data.digests import default_folder
from candi.data.molecules import rdkit_version, readable
from candi.data.prepare import store_of
from candi.data.store import TOKENIZER, Joined
from candi.data.tokenizer import Tokenizer, made_from_data

__all__ = ["default_folder", "load_tokenizer", "load_tokens"]


def load_tokenizer(spec: str, corpus: Corpus, folder: Path, skip_bad: bool = False) -> Tokenizer:
    """The tokenizer of a spec; one that is made from the corpus is made once, by one process."""
    if corpus.prepared is not None:
        return Tokenizer.load(corpus.prepared[0] / TOKENIZER)
    if corpus.streamed and made_from_data(spec) and not spec.startswith("bpe:"):
        raise UserError(
            f"A stream is not read beforehand, so the vocabulary {spec} cannot be made of it; give --tokenizer bytes, "
            "dna, protein, bpe:SIZE (made of its beginning), or the path of one."
        )
    if not made_from_data(spec):
        return Tokenizer.from_spec(spec, corpus)
    known = f"{spec} {rdkit_version()}" if skip_bad and spec == "smiles" else spec
    known += " rows" if corpus.by_rows and spec != "smiles" else ""
    path = folder / f"{_key(corpus.fingerprint, known)}.tokenizer.json"
    if path.exists():
        return Tokenizer.load(path)
    with waiting_lock(path.with_suffix(".lock"), f"Waiting for another process that makes a vocabulary of {spec}."):
        if path.exists():
            return Tokenizer.load(path)
        if skip_bad and spec == "smiles":  # what is left out teaches no tokens
            tokenizer = Tokenizer.smiles(piece for piece in corpus.pieces() if readable([piece.text])[0])
        else:
            tokenizer = Tokenizer.from_spec(spec, corpus)
        write_text(path, tokenizer.json)
    return tokenizer


def load_tokens(corpus: Corpus, tokenizer: Tokenizer, folder: Path) -> Joined:
    """All tokens of the corpus as one array that lives on disk."""
    tokens = store_of(corpus, tokenizer, folder).tokens
    if not len(tokens):
        raise UserError(f"{corpus.source!r} holds no text at all; point --data at some.")
    return tokens


def _key(*parts: str) -> str:
    return hashlib.sha256("\n".join(("1", *parts)).encode()).hexdigest()[:32]
