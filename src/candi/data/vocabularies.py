"""Vocabularies that are made here: from the data, or from an alphabet that is known."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from candi.base.errors import UserError
from candi.base.files import need_file
from candi.base.progress import say
from candi.data.pieces import Piece

EOS = "<|endoftext|>"
UNKNOWN = "<|unknown|>"
# of molecules: begin, end, and what follows it
BEGIN, END, PAD = "<bos>", "<eos>", "<pad>"
SMILES = r"\[[^\]]*\]|Br|Cl|%[0-9]{2}|[\s\S]"  # brackets, two-letter atoms and two-digit rings whole
ALPHABETS = {"dna": "ACGTN", "protein": "ACDEFGHIKLMNPQRSTVWYXBJOUZ*-"}  # N and X stand for any
_ANY = {"dna": "N", "protein": "X"}
_SOME = {"dna": "RYSWKMBDHV", "protein": ""}  # letters for one of some, which are read as any
_RARE = 3  # characters that occur less often teach what an unknown one is
_WORD = 256  # a merge of a word looks at all of it: text without white space is cut, or it would take for ever


def characters(pieces: Iterable[Piece], rows: bool = False, unknown: bool = False) -> Tokenizer:
    """Every character that occurs, in code-point order; an end-of-text token if there are several documents, or if

    each is a row. With `unknown` rare characters are left to a token for all that are not there.
    """
    counts = Counter[str]()
    documents = 0
    for piece in pieces:
        if piece.tokens is not None:
            raise UserError(f"{piece.place} holds integers and no characters; give --tokenizer integers.")
        counts.update(piece.text)
        documents += piece.ends
    alphabet = sorted(character for character, count in counts.items() if not unknown or count >= _RARE)
    if not alphabet:
        raise UserError("The data holds no text at all; point --data at some.")
    return of_characters(alphabet, eos=documents > 1 or rows, unknown=UNKNOWN if unknown else None)


def of_characters(
    alphabet: Sequence[str], eos: bool, unknown: str | None = None, spellings: Mapping[str, str] | None = None
) -> Tokenizer:
    """One token a character. `unknown` stands for others; it may be one of them. `spellings` are read as others."""
    vocabulary = {character: number for number, character in enumerate(alphabet)}
    if unknown is not None:
        vocabulary.setdefault(unknown, len(vocabulary))
    model = models.WordLevel(vocabulary) if unknown is None else models.WordLevel(vocabulary, unk_token=unknown)
    made = Tokenizer(model)
    if spellings:
        made.normalizer = normalizers.Sequence([normalizers.Replace(c, read) for c, read in spellings.items()])
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    made.decoder = decoders.Fuse()
    if eos:
        made.add_special_tokens([AddedToken(EOS, special=True)])
    return made


def of_alphabet(name: str) -> Tokenizer:
    """The letters of DNA or proteins, in upper and lower case."""
    alphabet, any_one = ALPHABETS[name], _ANY[name]
    spellings = dict.fromkeys(_SOME[name] + _SOME[name].lower(), any_one)
    spellings |= {letter.lower(): letter for letter in alphabet if letter.isalpha()}
    return of_characters(alphabet, True, any_one, spellings)


def of_molecules(pieces: Iterable[Piece]) -> Tokenizer:
    """Atoms, bonds, rings and brackets of molecules, one molecule a row."""
    split = re.compile(SMILES)
    found = sorted({token for piece in pieces for token in split.findall(piece.text)})
    if not found:
        raise UserError("The data holds no molecules at all; point --data at some.")
    made = Tokenizer(models.WordLevel({token: i for i, token in enumerate(found)}))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(SMILES), "isolated")
    made.decoder = decoders.Fuse()
    made.add_special_tokens([AddedToken(token, special=True) for token in (BEGIN, END, PAD)])
    return made


def of_bytes() -> Tokenizer:
    """A token for each of the 256 bytes, in their order: any text in any script."""
    signs = byte_signs()
    made = Tokenizer(models.BPE({sign: byte for byte, sign in enumerate(signs)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(EOS, special=True)])
    return made


def byte_signs() -> list[str]:
    """How byte-level encodings spell each byte: as itself where it can be printed, the others from 256 on."""
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in set(printed)]
    signs = {byte: chr(byte) for byte in printed} | {byte: chr(256 + n) for n, byte in enumerate(others)}
    return [signs[byte] for byte in range(256)]


def of_integers(names: Sequence[str], eos: bool) -> Tokenizer:
    """Integers with their names, which white space separates in text."""
    if any(name.split() != [name] for name in names) or len(set(names)) < len(names):
        raise UserError("The names of the integers must differ, and hold no white space; mend them.")
    made = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if eos:
        made.add_special_tokens([AddedToken(EOS, special=True)])
    return made


def integers_of(pieces: Iterable[Piece], how: str) -> Tokenizer:
    """Integers of the data: all up to the largest, so many, or as many as a file has names for.

    There is an end token unless every row is as long as every other.
    """
    largest, lengths = -1, set[int]()
    for piece in pieces:
        if piece.tokens is None:
            raise UserError(f"{piece.place} holds text and no integers; give another --tokenizer.")
        largest = max(largest, int(piece.tokens.max(initial=-1)))
        lengths.add(len(piece.tokens) if piece.ends else -1)
    if largest < 0:
        raise UserError("The data holds no integers at all; point --data at some.")
    if how.isdecimal():
        names = [str(number) for number in range(int(how))]
    else:
        names = _names(Path(how).expanduser()) if how else [str(number) for number in range(largest + 1)]
    if largest >= len(names):
        raise UserError(f"The data holds the integer {largest}, but the vocabulary has only {len(names)}; give more.")
    return of_integers(names, eos=len(lengths) > 1)


def _names(path: Path) -> list[str]:
    """A name a line, or a JSON list of them."""
    need_file(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
        names = json.loads(text) if path.suffix == ".json" else text.split("\n")
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read as names of integers ({error}); write one a line.") from None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(f"{path} is no list of names; write one a line.")
    return [name.strip() for name in names if name.strip()]


def trained_bpe(pieces: Iterable[Piece], vocab_size: int) -> Tokenizer:
    """Byte-level BPE: every text can be encoded, whatever its characters."""
    if vocab_size < 257:
        raise UserError(f"A byte-level BPE needs at least 257 tokens, not {vocab_size}.")
    if vocab_size > 10**7:
        raise UserError(f"A BPE of {vocab_size} tokens is more than any text fills; choose at most 10000000.")
    say(f"Training a byte-pair encoding of {vocab_size} tokens.")
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[EOS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator((word for piece in pieces for part in lines(piece.text) for word in _cut(part)), trainer)
    return made


def lines(text: str, at_least: int = 1 << 16) -> Iterator[str]:
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


def _cut(part: str) -> Iterator[str]:
    if max(map(len, part.split()), default=0) <= _WORD:
        yield part
    else:
        yield from (part[start : start + _WORD] for start in range(0, len(part), _WORD))
