"""Tokens on disk, memory-mapped, keyed by content and tokenizer: a changed file or tokenizer never meets old tokens."""

import hashlib
import os
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from candi.data.corpus import Corpus
from candi.data.molecules import rdkit_version, readable
from candi.data.tokenizer import Tokenizer, made_from_data
from candi.errors import UserError


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
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
        file.write(tokenizer.json)
    os.replace(file.name, path)
    return tokenizer


def load_tokens(corpus: Corpus, tokenizer: Tokenizer, folder: Path) -> NDArray[np.unsignedinteger]:
    """All tokens of the corpus in one array that lives on disk."""
    dtype = np.dtype(np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32)
    path = folder / f"{_key(corpus.fingerprint, tokenizer.fingerprint)}.{dtype.name}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # written aside and renamed: a cache file is whole or absent
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            try:
                for ids in tokenizer.encode_corpus(corpus):
                    file.write(ids.astype(dtype).tobytes())
            except BaseException:
                os.unlink(file.name)
                raise
        os.replace(file.name, path)
    if path.stat().st_size == 0:
        raise UserError(f"{corpus.source!r} holds no text at all; point --data at some.")
    return np.memmap(path, dtype=dtype, mode="r")


def _key(*parts: str) -> str:
    return hashlib.sha256("\n".join(("1", *parts)).encode()).hexdigest()[:32]
