"""The text itself, measured as samples are, and the same with its tokens shuffled.

Samples as good as the text lie at the first; samples of a model that knows the frequency of tokens and nothing else,
at the second.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from candi.base.errors import UserError
from candi.data.corpus import Corpus
from candi.data.datasets import load_dataset
from candi.evaluation.diversity import entropy, word_entropy
from candi.evaluation.points import cut
from candi.evaluation.scorers import Scorer, load_scorer
from candi.evaluation.words import words as count_words
from candi.evaluation.words import words_of
from candi.training.settings import TrainSettings
from candi_lab.runner.schema import REFERENCE
from candi_lab.runner.store import Results, say

TEXT, SHUFFLED = "the text itself", "its tokens shuffled"
Load = Callable[[str, str], Scorer]  # from a source and a device


def keep_reference_points(
    kept: Results,
    plan: str,
    settings: TrainSettings,
    scorers: Sequence[str],
    device: torch.device,
    stamp: Callable[[float], dict[str, Any]],
    load: Load = lambda source, device: load_scorer(source, device=device),
) -> None:
    """In the ledger, unless they are there. A failure is reported and stops nothing: the points are made already."""
    if kept.ledger.done(REFERENCE, TEXT, plan):
        return
    say(f"{TEXT}: measuring it as samples are")
    start, how = time.monotonic(), kept.experiment
    try:
        loaded = {source: load(source, str(device)) for source in scorers}
        found = reference_points(settings, loaded, how.n, how.characters, how.counts_words)
    except UserError as error:
        return say(f"{TEXT}: {error}")
    for what, measures in found.items():
        kept.record(REFERENCE, what, plan, **stamp(time.monotonic() - start), measures=measures)


def reference_points(
    settings: TrainSettings, scorers: dict[str, Scorer], n: int, characters: int | None, words: bool = False
) -> dict[str, dict[str, float]]:
    """Measures by name, of up to n sequences that were kept from training; valid `words` are those of the data."""
    dataset = load_dataset(
        settings.data, settings.tokenizer, settings.length, valid=settings.valid,
        valid_fraction=settings.valid_fraction, text_field=settings.text_field, skip_bad=settings.skip_bad,
        seed=settings.seed, cache=settings.cache,
    )  # fmt: skip
    if dataset.valid is None:
        raise UserError("no text is kept from training to measure beside the samples.")
    tokens = dataset.valid.first(n)
    marks = {TEXT: tokens}
    if characters is None:  # where tokenizers differ, no tokenizer's tokens are the right ones to shuffle
        marks[SHUFFLED] = np.random.default_rng(0).permuted(tokens, axis=1)
    found = {}
    for name, rows in marks.items():
        texts = cut([dataset.tokenizer.decode(row) for row in rows.tolist()], characters)
        found[name] = _diversity(rows, texts, characters)
        for index, (source, scorer) in enumerate(scorers.items()):
            mark = f":{Path(source).name}" if index else ""
            found[name][f"perplexity{mark}"] = scorer.score(texts).perplexity()
        if words:
            counted = count_words(texts, words_of(Corpus(settings.data, settings.text_field)))
            found[name] |= {"valid_words": counted.valid, "unique_words": counted.unique}
    return found


def _diversity(tokens: Int[np.ndarray, "N L"], texts: Sequence[str], characters: int | None) -> dict[str, float]:
    values = {"entropy": float(entropy(torch.as_tensor(tokens)).mean())}
    if characters is not None:
        values["word_entropy"] = float(np.mean([word_entropy(text) if text.split() else 0.0 for text in texts]))
    return values
