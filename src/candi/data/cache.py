"""Tokens on disk, memory-mapped, keyed by content and tokenizer: a changed file or tokenizer never meets old tokens."""

import hashlib
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from candi.base.errors import UserError
from candi.base.files import whole_file, write_text
from candi.base.progress import say
from candi.data.corpus import Corpus
from candi.data.molecules import rdkit_version, readable
from candi.data.tokenizer import Tokenizer, made_from_data


def default_folder() -> Path:
    """$CANDI_CACHE, or candi under the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("CANDI_CACHE") or Path(base) / "candi")


def load_tokenizer(spec: str, corpus: Corpus, folder: Path, skip_bad: bool = False) -> Tokenizer:
    """The tokenizer of a spec; one that is made from the corpus is made once."""
    if not made_from_data(spec):
        return Tokenizer.from_spec(spec, corpus)
    known = f"{spec} {rdkit_version()}" if skip_bad and spec == "smiles" else spec
    path = folder / f"{_key(corpus.fingerprint, known)}.tokenizer.json"
    if path.exists():
        return Tokenizer.load(path)
    if skip_bad and spec == "smiles":  # what is left out teaches no tokens
        tokenizer = Tokenizer.smiles(piece for piece in corpus.pieces() if readable([piece.text])[0])
    else:
        tokenizer = Tokenizer.from_spec(spec, corpus)
    write_text(path, tokenizer.json)
    return tokenizer


def load_tokens(corpus: Corpus, tokenizer: Tokenizer, folder: Path) -> NDArray[np.unsignedinteger]:
    """All tokens of the corpus in one array that lives on disk."""
    dtype = np.dtype(np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32)
    path = folder / f"{_key(corpus.fingerprint, tokenizer.fingerprint)}.{dtype.name}"
    if not path.exists():
        say(f"Turning {corpus.source} into tokens; they are kept in {folder}.")
        with whole_file(path) as file:
            for ids in tokenizer.encode_corpus(corpus):
                file.write(ids.astype(dtype).tobytes())
    if path.stat().st_size == 0:
        raise UserError(f"{corpus.source!r} holds no text at all; point --data at some.")
    return np.memmap(path, dtype=dtype, mode="r")


def _key(*parts: str) -> str:
    return hashlib.sha256("\n".join(("1", *parts)).encode()).hexdigest()[:32]
