"""The text itself, measured as samples are, and the same with its tokens in any order.

Samples as good as the text would lie at the one; who knows which tokens there are and nothing else, at the other.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from candi.data.cache import default_folder, load_tokenizer
from candi.data.corpus import Corpus
from candi.errors import UserError
from candi.evaluation.diversity import entropy, word_entropy
from candi.evaluation.scorers import load_scorer
from candi.evaluation.table import cut
from candi.evaluation.words import words as count_words
from candi.evaluation.words import words_of
from candi.reproduce.declared import LANDMARK
from candi.reproduce.results import Results, say
from candi.training.settings import TrainSettings
from candi.training.sources import sequences

TEXT, SHUFFLED = "the text itself", "its tokens shuffled"


def keep_landmarks(
    kept: Results,
    plan: str,
    settings: TrainSettings,
    scorers: Sequence[str],
    device: torch.device,
    stamp: Callable[[float], dict[str, Any]],
) -> None:
    """In the ledger, unless they are there. Whatever becomes of it: the points are there already."""
    if kept.ledger.done(LANDMARK, TEXT, plan):
        return
    say(f"{TEXT}: measuring it as samples are")
    start, how = time.monotonic(), kept.experiment
    try:
        found = landmarks(settings, scorers, how.n, how.characters, str(device), how.counts_words)
    except UserError as error:
        return say(f"{TEXT}: {error}")
    for what, measures in found.items():
        kept.record(LANDMARK, what, plan, **stamp(time.monotonic() - start), measures=measures)


def landmarks(
    settings: TrainSettings, scorers: Sequence[str], n: int, characters: int | None, device: str, words: bool = False
) -> dict[str, dict[str, float]]:
    """Measures by name, of up to n sequences that were kept from training; of `words` those of the data are valid."""
    corpus = Corpus(settings.data, settings.text_field)
    tokenizer = load_tokenizer(settings.tokenizer, corpus, default_folder())
    _, held_out = sequences(replace(settings, validate_every=1), corpus, tokenizer, default_folder())
    if held_out is None:
        raise UserError("no text is kept from training to measure beside the samples.")
    tokens = held_out.first(n)
    marks = {TEXT: tokens}
    if characters is None:  # where tokenizers differ, whose tokens would they be?
        marks[SHUFFLED] = np.random.default_rng(0).permuted(tokens, axis=1)
    texts = {name: cut([tokenizer.decode(row) for row in rows.tolist()], characters) for name, rows in marks.items()}
    found = {name: _diversity(rows, texts[name], characters) for name, rows in marks.items()}
    for index, source in enumerate(scorers):
        scorer = load_scorer(source, device=device)
        for name in marks:
            mark = f":{Path(source).name}" if index else ""
            found[name][f"perplexity{mark}"] = scorer.score(texts[name]).perplexity()
    for name in marks if words else ():
        counted = count_words(texts[name], words_of(corpus))
        found[name] |= {"valid_words": counted.valid, "unique_words": counted.unique}
    return found


def _diversity(tokens: Int[np.ndarray, "N L"], texts: Sequence[str], characters: int | None) -> dict[str, float]:
    values = {"entropy": float(entropy(torch.as_tensor(tokens)).mean())}
    if characters is not None:
        values["word_entropy"] = float(np.mean([word_entropy(text) if text.split() else 0.0 for text in texts]))
    return values
