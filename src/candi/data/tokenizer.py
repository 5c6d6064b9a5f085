"""Tokenizers: single characters, byte-pair encoding trained here, or one that exists. Always a `tokenizers` file."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from candi.base.errors import UserError
from candi.base.progress import say
from candi.data.corpus import Corpus, Piece, check_text

EOS = "<|endoftext|>"
# of rows, which are one document each: begin, end, and what follows it
BEGIN, END, PAD = "<bos>", "<eos>", "<pad>"
_SMILES = r"\[[^\]]*\]|Br|Cl|%[0-9]{2}|[\s\S]"  # brackets, two-letter atoms and two-digit rings whole


def made_from_data(spec: str) -> bool:
    """Whether a tokenizer is made for the text at hand, and lies nowhere."""
    return spec in ("char", "smiles") or spec.startswith("bpe:")


class Tokenizer:
    """Text to token ids and back."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.vocab_size = max(backend.get_vocab(True).values(), default=-1) + 1  # ids may have holes
        self.eos: int | None = backend.token_to_id(EOS)
        words = isinstance(backend.model, models.WordLevel)
        rows = words and all(backend.token_to_id(token) is not None for token in (BEGIN, END, PAD))
        self.pad: int | None = backend.token_to_id(PAD) if rows else None  # of tokenizers that make rows
        self._character_ids = self._lookup_table()

    @classmethod
    def characters(cls, pieces: Iterable[Piece]) -> "Tokenizer":
        """Every character that occurs, in code-point order; an end-of-text token if there are several documents."""
        alphabet: set[str] = set()
        documents = 0
        for piece in pieces:
            alphabet.update(piece.text)
            documents += piece.ends
        if not alphabet:
            raise UserError("The data holds no text at all; point --data at some.")
        backend = Backend(models.WordLevel({c: i for i, c in enumerate(sorted(alphabet))}))
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        backend.decoder = decoders.Fuse()
        if documents > 1:
            backend.add_special_tokens([AddedToken(EOS, special=True)])
        return cls(backend)

    @classmethod
    def smiles(cls, pieces: Iterable[Piece]) -> "Tokenizer":
        """Atoms, bonds, rings and brackets of molecules, one molecule a row."""
        split = re.compile(_SMILES)
        found = sorted({token for piece in pieces for token in split.findall(piece.text)})
        if not found:
            raise UserError("The data holds no molecules at all; point --data at some.")
        backend = Backend(models.WordLevel({token: i for i, token in enumerate(found)}))
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(_SMILES), "isolated")
        backend.decoder = decoders.Fuse()
        backend.add_special_tokens([AddedToken(token, special=True) for token in (BEGIN, END, PAD)])
        return cls(backend)

    @classmethod
    def train_bpe(cls, pieces: Iterable[Piece], vocab_size: int) -> "Tokenizer":
        """Byte-level BPE: every text can be encoded, whatever its characters."""
        if vocab_size < 257:
            raise UserError(f"A byte-level BPE needs at least 257 tokens, not {vocab_size}.")
        if vocab_size > 10**7:
            raise UserError(f"A BPE of {vocab_size} tokens is more than any text fills; choose at most 10000000.")
        say(f"Training a byte-pair encoding of {vocab_size} tokens.")
        backend = Backend(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=[EOS],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        backend.train_from_iterator((part for piece in pieces for part in _lines(piece.text)), trainer)
        return cls(backend)

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """A tokenizer.json, or a folder with one or with GPT-2's encoder.json and vocab.bpe."""
        if not path.exists():
            raise UserError(f"There is no tokenizer at {str(path)!r}; give char, bpe:SIZE, or the path of one.")
        if path.is_dir():
            if not (path / "tokenizer.json").exists():
                return cls(_gpt2(path))
            path = path / "tokenizer.json"
        try:
            backend = Backend.from_file(str(path))
        except Exception as error:
            raise UserError(f"{path} is not a tokenizer file: {str(error).splitlines()[0]}") from None
        backend.no_truncation()  # some are saved with what somebody's batches needed
        backend.no_padding()
        return cls(backend)

    @classmethod
    def from_spec(cls, spec: str, corpus: Corpus) -> "Tokenizer":
        """char, smiles, bpe:SIZE (made from the corpus), or the path of one that exists."""
        if spec == "char":
            return cls.characters(corpus.pieces())
        if spec == "smiles":
            return cls.smiles(corpus.pieces())
        if spec.startswith("bpe:"):
            size = spec.removeprefix("bpe:")
            if not size.isdecimal():
                raise UserError(f"The tokenizer {spec!r} has no size; write for example bpe:4096.")
            return cls.train_bpe(corpus.pieces(), int(size))
        return cls.load(Path(spec).expanduser())

    def encode(self, text: str) -> NDArray[np.int64]:
        check_text(text, "The text")
        if self.pad is not None:
            return self._known(text)
        if self._character_ids is None:
            ids = [e.ids for e in self.backend.encode_batch_fast(list(_lines(text)), add_special_tokens=False)]
            return np.concatenate([np.asarray(i, np.int64) for i in ids]) if ids else np.empty(0, np.int64)
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        found = self._character_ids[np.minimum(points, len(self._character_ids) - 1)]
        if (found < 0).any():
            strange = sorted({chr(c) for c in points[found < 0]})
            shown = ", ".join(repr(c) for c in strange[:5]) + (" and more" if len(strange) > 5 else "")
            raise UserError(f"The character vocabulary has no {shown}; use only characters of the training text.")
        return found

    def _known(self, text: str) -> NDArray[np.int64]:
        """Every part of the text must be a token of the vocabulary: WordLevel would leave the others out."""
        parts = [part for part, _ in self.backend.pre_tokenizer.pre_tokenize_str(text)]
        ids = [self.backend.token_to_id(part) for part in parts]
        if None in ids:
            raise UserError(f"The vocabulary has no {parts[ids.index(None)]!r}; use only what the training data has.")
        return np.asarray(ids, np.int64)

    def decode(self, ids: Sequence[int] | NDArray[np.int64]) -> str:
        """Text again; of a row, what stands before its end."""
        ids = list(ids)
        if self.pad is not None and self.end in ids:
            ids = ids[: ids.index(self.end)]
        return self.backend.decode(ids, skip_special_tokens=True)

    @property
    def begin(self) -> int:
        return self._special(BEGIN)

    @property
    def end(self) -> int:
        return self._special(END)

    def _special(self, token: str) -> int:
        found: int | None = self.backend.token_to_id(token)
        assert found is not None, "this tokenizer makes no rows"
        return found

    def row(self, text: str, length: int) -> NDArray[np.int64] | None:
        """<bos> text <eos> <pad> ...; None if it does not fit."""
        assert self.pad is not None, "this tokenizer makes no rows"
        ids = self.encode(text)
        if len(ids) + 2 > length:
            return None
        return np.concatenate([[self.begin], ids, [self.end], [self.pad] * (length - len(ids) - 2)]).astype(np.int64)

    def whole_row(self, text: str, length: int) -> NDArray[np.int64]:
        """A row, of a few tokens more where a sample has filled it without room for <bos> and <eos>."""
        row = self.row(text, max(length, len(self.encode(text)) + 2))
        assert row is not None
        return row

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each token as text of its own, for showing positions one by one."""
        return [self.backend.decode([i], skip_special_tokens=True) for i in ids]

    def encode_beginning(self, corpus: Corpus, characters: int) -> NDArray[np.int64]:
        """Token ids of about so many characters, of as many documents as that takes. Molecules stay whole."""
        found, seen = [np.empty(0, np.int64)], 0
        for piece in corpus.pieces():
            found.append(self.encode(piece.text if self.pad is not None else piece.text[: characters - seen]))
            seen += len(piece.text)
            if seen >= characters:
                break
        return np.concatenate(found)

    def encode_corpus(self, corpus: Corpus) -> Iterator[NDArray[np.int64]]:
        """Token ids piece by piece, an end-of-text token after every document if the vocabulary has one."""
        for piece in corpus.pieces():
            yield self.encode(piece.text)
            if piece.ends and self.eos is not None:
                yield np.array([self.eos])

    @property
    def json(self) -> str:
        return self.backend.to_str(pretty=True)

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.backend.to_str().encode()).hexdigest()

    def _lookup_table(self) -> NDArray[np.int64] | None:
        """Code point -> id where every token is a single character (numpy is a hundred times faster there)."""
        if not isinstance(self.backend.model, models.WordLevel):
            return None
        vocab = self.backend.get_vocab(with_added_tokens=False)
        if any(len(token) != 1 for token in vocab):
            return None
        table = np.full(max(map(ord, vocab)) + 2, -1, np.int64)  # the last entry stands for all beyond
        for token, index in vocab.items():
            table[ord(token)] = index
        return table


def _lines(text: str, at_least: int = 1 << 16) -> Iterator[str]:
    """The text in parts of some 64k characters, cut after a line's end, so that they can be encoded in parallel."""
    part: list[str] = []
    size = 0
    for line in text.splitlines(keepends=True):
        part.append(line)
        size += len(line)
        if size >= at_least:
            yield "".join(part)
            part, size = [], 0
    if part:
        yield "".join(part)


def _gpt2(folder: Path) -> Backend:
    for vocab, merges in (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt")):
        if (folder / vocab).exists() and (folder / merges).exists():
            try:
                backend = Backend(models.BPE.from_file(str(folder / vocab), str(folder / merges)))
                tokens = json.loads((folder / vocab).read_text(encoding="utf-8"))
            except Exception as error:
                raise UserError(f"{folder} holds no readable BPE: {str(error).splitlines()[0]}") from None
            backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            backend.decoder = decoders.ByteLevel()
            if EOS in tokens:
                backend.add_special_tokens([AddedToken(EOS, special=True)])
            return backend
    raise UserError(f"{folder} holds neither tokenizer.json nor encoder.json with vocab.bpe.")
