"""What a run is trained on and validated on."""

from pathlib import Path

from candi.data.batches import Windows
from candi.data.cache import load_tokens
from candi.data.corpus import Corpus
from candi.data.labels import Label
from candi.data.rows import Documents, Rows, Sequences, load_documents
from candi.data.tokenizer import Tokenizer
from candi.errors import UserError
from candi.training.settings import TrainSettings


def sequences(
    settings: TrainSettings, corpus: Corpus, tokenizer: Tokenizer, cache: Path
) -> tuple[Sequences, Sequences | None]:
    """What is trained on and what is validated on."""
    if tokenizer.pad is not None:
        return _rows(settings, corpus, tokenizer, cache)
    if settings.label is not None:
        raise UserError("--label needs one document a sequence, as --tokenizer smiles makes them.")
    tokens = load_tokens(corpus, tokenizer, cache)
    if settings.valid is not None:
        held_out = load_tokens(Corpus(settings.valid, settings.text_field), tokenizer, cache)
        if len(held_out) < settings.length:
            raise UserError(
                f"{settings.valid} has {len(held_out)} tokens, too few for a sequence of {settings.length}; give more."
            )
    else:
        cut = len(tokens) - int(len(tokens) * settings.valid_fraction)
        cut = cut if len(tokens) - cut >= settings.length else len(tokens)  # too little to validate is no loss to learn
        tokens, held_out = tokens[:cut], tokens[cut:]
    windows = Windows(tokens, settings.length, settings.seed)
    windows.check_epoch()
    validated = settings.validate_every and len(held_out)
    return windows, Windows(held_out, settings.length, settings.seed) if validated else None


def _rows(
    settings: TrainSettings, corpus: Corpus, tokenizer: Tokenizer, cache: Path
) -> tuple[Sequences, Sequences | None]:
    """The same of a corpus whose documents are sequences by themselves."""

    def documents(of: Corpus) -> Documents:
        molecules = settings.tokenizer == "smiles"
        return load_documents(of, tokenizer, settings.length, cache, molecules=molecules, skip_bad=settings.skip_bad)

    def rows(of: Corpus, some: Documents) -> Rows:
        if settings.label is None:
            return Rows(some.tokens, settings.seed)
        labels, _ = Label.of(settings.label).fixed(corpus, cache).of_corpus(of, cache, both=of is corpus)
        return Rows(some.tokens, settings.seed, labels[some.numbers])

    train, held_out = documents(corpus).split(0.0 if settings.valid is not None else settings.valid_fraction)
    other = corpus
    if settings.valid is not None:
        other = Corpus(settings.valid, settings.text_field)
        held_out = documents(other)
    validated = settings.validate_every and len(held_out.tokens)
    return rows(corpus, train), rows(other, held_out) if validated else None
