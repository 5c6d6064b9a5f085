"""The flags of measuring samples, written once."""

from jsonargparse import ArgumentParser

from candi.cli.parsing import listed
from candi.evaluation.words import Letters
from candi.hub.shipped import words_of_model

_DEFAULT, _NONE = "gpt2-large", "none"


def add_scorers(flags: ArgumentParser) -> None:
    add = flags.add_argument
    kinds = "a name or folder of transformers, a GGUF file, smollm2, a run of ours, or none"
    default = f"by default {_DEFAULT} if there are no --words"
    add("--scorers", type=str | None, default=None, help=f"Causal models that give the perplexity; the first of a list "
        f"is what perplexity means: {kinds}; {default}.")  # fmt: skip
    add("--context", type=int, default=1024, help="Tokens of a text that a scorer reads.")
    add("--words", type=str | None, default=None, help="Text whose words are the valid ones, or text8.")
    add("--mauve", type=str | None, default=None, help="Reference text for MAUVE (extra: candi[mauve]).")
    add("--letters", type=Letters, default="count", help="Words of one letter count, are left out, or are invalid.")


def scorer_names(text: str | None, others: str | None = None) -> list[str]:
    """The list; by default one scorer, unless there are `others` to measure by."""
    if text is None:
        return [] if others else [_DEFAULT]
    return [] if text == _NONE else listed(text)


def words_source(words: str | None) -> str | None:
    """A text, or the word filter of a model that ships, by its name."""
    return None if words is None else words_of_model(words) or words
