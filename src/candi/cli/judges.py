"""Options that say who judges samples."""

from jsonargparse import ArgumentParser

_DEFAULT, _NONE = "gpt2-large", "none"


def add_judges(flags: ArgumentParser) -> None:
    """Of every command that measures samples."""
    add = flags.add_argument
    kinds = "a name or folder of transformers, a GGUF file, smollm2, a run of ours, or none"
    default = f"by default {_DEFAULT} if there are no --words"
    add("--scorer", type=str | None, default=None, help=f"Who judges; the first of a list decides: {kinds}; {default}.")
    add("--context", type=int, default=1024, help="Tokens of a text that a scorer reads.")
    add("--words", type=str | None, default=None, help="Text whose words are the valid ones, or text8.")
    add("--mauve", type=str | None, default=None, help="Reference text for MAUVE (extra: candi[mauve]).")
    add("--letters", type=bool, default=True, help="Whether words of one letter count.")


def scorers(text: str | None, words: str | None = None) -> list[str]:
    if text is None:
        return [] if words else [_DEFAULT]
    return [] if text == _NONE else text.split(",")
