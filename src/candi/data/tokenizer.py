"""Tokenizers: those that are made here, or one that exists. Always a `tokenizers` file."""

import copy
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from candi.base.errors import UserError
from candi.base.files import need_file
from candi.data import vocabularies
from candi.data.corpus import Corpus
from candi.data.documents import check_text
from candi.data.guarded import guard_for
from candi.data.pieces import Part, Piece
from candi.data.vocabularies import BEGIN, END, EOS, PAD, UNKNOWN, lines

_MADE = ("char", "char+unknown", "smiles", "integers")
_ENDS = (EOS, "<|end_of_text|>", "</s>", "<eos>", "[SEP]")  # what ends a document, in the words of some tokenizers
_BEGINNING = 10**8  # characters of a stream that a vocabulary is made of
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")  # how sentencepiece spells a byte


class Encoded(NamedTuple):
    """Tokens of a piece, and which of them are given if some are."""

    tokens: NDArray[np.int64]
    given: NDArray[np.bool_] | None = None


def made_from_data(spec: str) -> bool:
    """Whether a tokenizer is made for the text at hand, and lies nowhere."""
    return spec in _MADE or spec.startswith(("bpe:", "integers:"))


class Tokenizer:
    """Text to token ids and back."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.vocab_size = max(backend.get_vocab(True).values(), default=-1) + 1  # ids may have holes
        self.words = isinstance(backend.model, models.WordLevel)
        # molecules stand between marks, in rows
        self.framed = self.words and all(backend.token_to_id(token) is not None for token in (BEGIN, END, PAD))
        ends = [] if self.framed else [backend.token_to_id(name) for name in _ENDS]
        self.eos: int | None = next((token for token in ends if token is not None), None)
        self.unknown: int | None = self._unknown_token()
        self.tolerant = False  # does what is unknown become a token?
        self._character_ids = self._lookup_table()
        self._split = re.compile(vocabularies.SMILES) if self.framed else None
        self._guard = guard_for(backend)
        self._vocabulary = backend.get_vocab(True) if self.words else {}

    @classmethod
    def characters(cls, pieces: Iterable[Piece], rows: bool = False, unknown: bool = False) -> "Tokenizer":
        """Every character that occurs."""
        return cls(vocabularies.characters(pieces, rows, unknown))

    @classmethod
    def smiles(cls, pieces: Iterable[Piece]) -> "Tokenizer":
        """Atoms, bonds, rings and brackets of molecules, one molecule a row."""
        return cls(vocabularies.of_molecules(pieces))

    @classmethod
    def train_bpe(cls, pieces: Iterable[Piece], vocab_size: int) -> "Tokenizer":
        """Byte-level BPE: every text can be encoded, whatever its characters."""
        return cls(vocabularies.trained_bpe(pieces, vocab_size))

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """A tokenizer.json, or a folder with one or with GPT-2's encoder.json and vocab.bpe."""
        if not path.exists():
            raise UserError(
                f"There is no tokenizer at {str(path)!r}; give char, bytes, bpe:SIZE, smiles, dna, protein, integers, "
                "or the path of one."
            )
        if path.is_dir():
            if not (path / "tokenizer.json").exists():
                return cls(_gpt2(path))
            path = path / "tokenizer.json"
        need_file(path)
        try:
            backend = Backend.from_file(str(path))
        except Exception as error:
            raise UserError(f"{path} is not a tokenizer file: {str(error).splitlines()[0]}") from None
        _check_unknown(backend, path)
        backend.no_truncation()  # some are saved with what somebody's batches needed
        backend.no_padding()
        return cls(backend)

    @classmethod
    def from_spec(cls, spec: str, corpus: Corpus) -> "Tokenizer":
        """char, bytes, bpe:SIZE, smiles, dna, protein, integers, or the path of one that exists."""
        kind, _, how = spec.partition(":")
        if kind == "integers" or (spec == "char" and _holds_integers(corpus)):
            return cls(vocabularies.integers_of(corpus.pieces(), how))
        if spec in ("char", "char+unknown"):
            return cls.characters(corpus.pieces(), corpus.by_rows, spec == "char+unknown")
        if spec == "bytes":
            return cls(vocabularies.of_bytes())
        if spec in vocabularies.ALPHABETS:
            return cls(vocabularies.of_alphabet(spec))
        if spec == "smiles":
            return cls.smiles(corpus.pieces())
        if kind == "bpe":
            if not how.isdecimal():
                raise UserError(f"The tokenizer {spec!r} has no size; write for example bpe:4096.")
            return cls.train_bpe(_beginning(corpus) if corpus.streamed else corpus.pieces(), int(how))
        return cls.load(Path(spec).expanduser())

    @cached_property
    def _bytes(self) -> dict[int, bytes] | None:
        """The bytes of each token, of vocabularies in which a token may be a part of a character."""
        known = self.backend.get_vocab(with_added_tokens=False)
        if isinstance(self.backend.decoder, decoders.ByteLevel):
            byte_of = {sign: byte for byte, sign in enumerate(vocabularies.byte_signs())}
            spelled = {index: [byte_of.get(sign) for sign in token] for token, index in known.items()}
            return {index: bytes(b for b in some if b is not None) for index, some in spelled.items()}
        if "<0x00>" not in known:
            return None
        found = {index: _BYTE.fullmatch(token) for token, index in known.items()}
        return {
            index: token.replace("▁", " ").encode() if (byte := found[index]) is None else bytes([int(byte[1], 16)])
            for token, index in known.items()
        }

    def tolerating(self) -> "Tokenizer":
        """The same, for which what it does not know is its token for that."""
        if self.unknown is None and self._bytes is None:
            raise UserError(
                "The vocabulary has no token for what is unknown; train with --tokenizer char+unknown, bytes or bpe:N, "
                "or leave out --unknown."
            )
        found = copy.copy(self)
        found.tolerant = True
        return found

    def learning(self) -> "Tokenizer":
        """The same for training: what a vocabulary leaves to its token for rare characters teaches that token."""
        return self if self.backend.token_to_id(UNKNOWN) is None else self.tolerating()

    def encode(self, text: str) -> NDArray[np.int64]:
        check_text(text, "The text")
        if self.words:
            return self._known(text)
        return _joined(self._encode_all(list(lines(text))))

    def _encode_all(self, texts: list[str]) -> list[list[int]]:
        if self._guard is not None:
            return self._guard.encode(texts)
        try:
            return [found.ids for found in self.backend.encode_batch_fast(texts, add_special_tokens=False)]
        except Exception as error:
            raise UserError(f"The tokenizer cannot read a text ({error}); use another one.") from None

    def encode_pieces(self, pieces: Sequence[Piece]) -> list[Encoded | UserError]:
        """All at once, on all cores, with the marks of documents; what cannot be encoded in its place."""
        if self.words or any(piece.tokens is not None for piece in pieces):
            return [self._encoded(piece) for piece in pieces]
        parts = [self._parts(piece) for piece in pieces]
        cut = [[list(lines(part.text)) for part in some] for some in parts]
        texts = list(chain.from_iterable(chain.from_iterable(cut)))
        ids = iter(self._encode_all(texts))
        return [
            self._marked(piece, [_joined(next(ids) for _ in line) for line in some])
            for piece, some in zip(pieces, cut, strict=True)
        ]

    def _encoded(self, piece: Piece) -> Encoded | UserError:
        try:
            if piece.tokens is not None:
                return self._integers(piece)
            return self._marked(piece, [self.encode(part.text) for part in self._parts(piece)])
        except UserError as error:
            return error

    @staticmethod
    def _parts(piece: Piece) -> tuple[Part, ...]:
        return (Part(piece.text, False),) if piece.parts is None else piece.parts

    def _integers(self, piece: Piece) -> Encoded:
        tokens = piece.tokens
        assert tokens is not None
        size = self.vocab_size - (self.words and self.eos is not None)  # an end may stand in tokens of others
        if len(tokens) and int(tokens.max()) >= size:
            raise UserError(f"The integer {int(tokens.max())} is beyond the vocabulary, which has {size}.")
        if not piece.ends or self.eos is None:
            return Encoded(tokens, piece.given)
        given = None if piece.given is None else np.append(piece.given, False)
        return Encoded(np.append(tokens, self.eos), given)

    def _marked(self, piece: Piece, ids: Sequence[NDArray[np.int64]]) -> Encoded:
        """With what stands before and after a document. Its end is to be learned, its beginning is given."""
        before = [self.begin] if self.framed else []
        end = self.end if piece.ends else None
        after = [] if end is None else [end]
        tokens = _joined((before, *ids, after))
        if piece.parts is None or not any(part.given for part in piece.parts):
            return Encoded(tokens)
        given = [np.full(len(some), part.given) for part, some in zip(piece.parts, ids, strict=True)]
        return Encoded(tokens, np.concatenate([np.ones(len(before), bool), *given, np.zeros(len(after), bool)]))

    def _known(self, text: str) -> NDArray[np.int64]:
        """Every part of the text must be a token of the vocabulary: WordLevel would leave the others out."""
        if self._character_ids is not None:
            points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
            found = self._character_ids[np.minimum(points, len(self._character_ids) - 1)]
            if (found < 0).any() and not (self.tolerant and self.unknown is not None):
                strange = sorted({chr(c) for c in points[found < 0]})
                shown = ", ".join(repr(c) for c in strange[:5]) + (" and more" if len(strange) > 5 else "")
                advice = "use only characters of the training text" + (
                    ", or --unknown token" if self.unknown is not None else ""
                )
                raise UserError(f"The character vocabulary has no {shown}; {advice}.")
            return found if self.unknown is None else np.where(found < 0, self.unknown, found)
        if self._split is not None:
            parts = self._split.findall(text)
        elif self._guard is not None:
            parts = self._guard.split(text)
        else:
            splitter = self.backend.pre_tokenizer
            parts = [text] if splitter is None else [part for part, _ in splitter.pre_tokenize_str(text)]
        ids = [self._vocabulary.get(part) for part in parts]
        if None in ids and not (self.tolerant and self.unknown is not None):
            raise UserError(f"The vocabulary has no {parts[ids.index(None)]!r}; use only what the training data has.")
        return np.asarray([self.unknown if i is None else i for i in ids], np.int64)

    def decode(self, ids: Sequence[int] | NDArray[np.int64], rows: bool = False) -> str:
        """Text again, without marks; of a row, what stands before its end."""
        ids = list(ids)
        if (rows or self.framed) and self.end in ids:
            ids = ids[: ids.index(self.end)]
        return self._decode(ids)

    def _decode(self, ids: Sequence[Any]) -> str:
        if self._guard is not None:
            return self._guard.decode(ids)
        return self.backend.decode(ids, skip_special_tokens=True)

    def show(self, ids: Sequence[int] | NDArray[np.int64], rows: bool = False) -> str:
        """Text for people: of a stream, the ends of documents are seen."""
        if rows or self.eos is None:
            return self.decode(ids, rows)
        found, part = [], list[int]()
        for i in ids:
            if i == self.eos:
                found += [self.decode(part), self._spelling(self.eos)]
                part = []
            else:
                part.append(int(i))
        return "".join([*found, self.decode(part)])

    def _spelling(self, token: int) -> str:
        return self.backend.id_to_token(token) or ""

    @property
    def begin(self) -> int:
        return self._special(BEGIN)

    @property
    def end(self) -> int | None:
        """What ends a document."""
        return self._special(END) if self.framed else self.eos

    @property
    def pad(self) -> int | None:
        """What follows the end of a row that is shorter than the others."""
        return self._special(PAD) if self.framed else self.eos

    def _special(self, token: str) -> int:
        found: int | None = self.backend.token_to_id(token)
        assert found is not None, "this tokenizer frames no rows"
        return found

    def row(self, text: str, length: int) -> NDArray[np.int64] | None:
        """<bos> text <eos> <pad> ..., or text and ends; None if it does not fit."""
        found = self._marked(Piece(text, True), [self.encode(text)]).tokens
        return padded(found, length, self.pad) if len(found) <= length else None

    def whole_row(self, text: str, length: int) -> NDArray[np.int64]:
        """A row, of a few tokens more where a sample has filled it without room for its marks."""
        found = self._marked(Piece(text, True), [self.encode(text)]).tokens
        return padded(found, max(length, len(found)), self.pad)

    def pieces(self, ids: Sequence[int], rows: bool = False) -> list[str]:
        """Each token as text of its own, for showing positions one by one; -1 stands for no token.

        A character of several tokens stands at the first of them; bytes that make no character are shown as such.
        """
        marks = {} if rows or self.eos is None else {self.eos: self._spelling(self.eos)}
        return [marks.get(i, text) for i, text in zip(ids, self._spelled(ids), strict=True)]

    def _spelled(self, ids: Sequence[int]) -> list[str]:
        if self._bytes is None:
            return ["" if i < 0 else self._decode([i]) for i in ids]
        spelled = [b"\xff" if i < 0 else self._bytes.get(int(i), b"") for i in ids]  # no text holds the byte ff
        owner = [place for place, some in enumerate(spelled) for _ in some]
        found, at = [""] * len(spelled), 0
        for character in b"".join(spelled).decode("utf-8", "surrogateescape"):
            strange = "\udc80" <= character <= "\udcff"
            shown = f"⟨{ord(character) - 0xDC00:02x}⟩" if strange else character
            found[owner[at]] += shown
            at += 1 if strange else len(character.encode())
        return ["" if i < 0 else text for i, text in zip(ids, found, strict=True)]

    def size(self, ids: Sequence[int] | NDArray[np.int64]) -> tuple[int, int]:
        """Characters and bytes that some tokens spell; what marks ends is none. A character counts where it begins."""
        if self._bytes is None:
            text = self.decode([int(i) for i in ids if i != self.pad])
            return len(text), len(text.encode())
        spelled = b"".join(self._bytes.get(int(i), b"") for i in ids if i != self.eos)
        return sum(byte & 0xC0 != 0x80 for byte in spelled), len(spelled)

    def encode_beginning(self, corpus: Corpus, characters: int) -> NDArray[np.int64]:
        """Token ids of about so many characters, of as many documents as that takes. Molecules stay whole."""
        found, seen = [np.empty(0, np.int64)], 0
        for piece in corpus.pieces():
            if piece.tokens is not None:
                found.append(piece.tokens[: characters - seen])
                seen += len(piece.tokens)
            else:
                found.append(self.encode(piece.text if self.framed else piece.text[: characters - seen]))
                seen += len(piece.text)
            if seen >= characters:
                break
        return np.concatenate(found)

    def encode_corpus(self, corpus: Corpus) -> Iterator[NDArray[np.int64]]:
        """Token ids piece by piece, with what ends each document."""
        for piece in corpus.pieces():
            (found,) = self.encode_pieces([piece])
            if isinstance(found, UserError):
                raise found
            yield found.tokens

    @property
    def json(self) -> str:
        return self.backend.to_str(pretty=True)

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.backend.to_str().encode()).hexdigest()

    def _unknown_token(self) -> int | None:
        name = getattr(self.backend.model, "unk_token", None)  # not all models have one
        known = self.backend.get_vocab(True)
        return known.get(name) if name else known.get(UNKNOWN)

    def _lookup_table(self) -> NDArray[np.int64] | None:
        """Code point -> id where every token is a single character (numpy is a hundred times faster there)."""
        if not self.words or isinstance(self.backend.pre_tokenizer, pre_tokenizers.WhitespaceSplit):
            return None
        vocab = self.backend.get_vocab(with_added_tokens=False)
        vocab.pop(UNKNOWN, None)
        if any(len(token) != 1 for token in vocab):
            return None
        size = max(map(ord, vocab), default=0) + 2  # the last entry stands for all beyond
        table = np.full(size if self.backend.normalizer is None else max(size, 129), -1, np.int64)
        for token, index in vocab.items():
            table[ord(token)] = index
        if self.backend.normalizer is not None:  # other spellings of a letter
            for point in range(128):
                table[point] = vocab.get(self.backend.normalizer.normalize_str(chr(point)), table[point])
        return table


def padded(tokens: NDArray[np.int64], length: int, pad: int | None) -> NDArray[np.int64]:
    """A row of a length; it is full where nothing can pad it."""
    return np.concatenate([tokens, np.full(length - len(tokens), 0 if pad is None else pad, np.int64)])


def _joined(ids: Iterable[Sequence[int] | NDArray[np.int64]]) -> NDArray[np.int64]:
    arrays = [np.asarray(some, np.int64) for some in ids]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays) if arrays else np.empty(0, np.int64)


def _beginning(corpus: Corpus) -> Iterator[Piece]:
    """Some hundred million characters of a stream."""
    size = 0
    for number in range(len(corpus.stream_files)):
        for piece in corpus.pieces_of(number):
            yield piece
            size += len(piece.text)
            if size >= _BEGINNING:
                return


def _holds_integers(corpus: Corpus) -> bool:
    first = next(corpus.pieces(), None)
    return first is not None and first.tokens is not None


def _check_unknown(backend: Backend, path: Path) -> None:
    """What a model calls its unknown word must be one of its words: at the first strange text it would be too late.

    <unk> is what every WordLevel model is given, also those that know no unknown word (ours, of characters).
    """
    name = getattr(backend.model, "unk_token", None)
    named = name is not None and not (name == "<unk>" and isinstance(backend.model, models.WordLevel))
    if named and name not in backend.get_vocab(False):
        raise UserError(f"{path} is no whole tokenizer: its vocabulary lacks its own unknown word {name!r}.")


def _gpt2(folder: Path) -> Backend:
    for vocab, merges in (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt")):
        if (folder / vocab).exists() and (folder / merges).exists():
            need_file(folder / vocab)
            need_file(folder / merges)
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
