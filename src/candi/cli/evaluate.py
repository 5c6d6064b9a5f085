"""candi evaluate"""

import dataclasses
import json
import math
from collections.abc import Sequence

import numpy as np
from jsonargparse import Namespace
from numpy.typing import NDArray

from candi.cli.judges import add_judges, scorers
from candi.cli.parsing import parse, parser
from candi.data.batches import Windows
from candi.data.cache import default_folder, load_tokens
from candi.data.corpus import Corpus
from candi.data.rows import Rows, load_documents
from candi.errors import UserError
from candi.evaluation.contestant import Contestant
from candi.evaluation.likelihood import likelihood
from candi.evaluation.mauve import Mauve
from candi.evaluation.measures import MEASURES
from candi.evaluation.samples import make
from candi.evaluation.scorers import load_scorer
from candi.evaluation.table import Line, measured, scored
from candi.evaluation.words import word_list
from candi.loading import device_named, load
from candi.model import Model


def run(arguments: Sequence[str]) -> None:
    flags = parser(
        "evaluate",
        "RUN --data TEXT | --quality",
        "Bits per token of a text under a model, or the quality of its samples.",
    )
    flags.add_argument("run", type=str, help="The run's folder, a checkpoint's folder, or hf:OWNER/NAME.")
    flags.add_argument("--data", type=str | None, default=None, help="Text, of any kind that candi train takes.")
    flags.add_argument("--text_field", type=str, default="text", help="Column with the text in JSON lines and Parquet.")
    flags.add_argument("--skip_bad", type=bool, default=False, nargs="?", const=True, help="Leave out molecules that "
                       "are too long or cannot be read.")  # fmt: skip
    flags.add_argument("--sequences", type=int, default=256, help="How many, spread over the text.")
    flags.add_argument("--times", type=int, default=8, help="Times t drawn for each.")
    flags.add_argument("--quality", type=bool, default=False, nargs="?", const=True, help="Measure samples instead.")
    flags.add_argument("--n", type=int, default=128, help="Samples to measure.")
    flags.add_argument("--steps", type=int, default=32, help="Denoising steps of the samples.")
    flags.add_argument("--temperature", type=float, default=1.0, help="Of the samples.")
    add_judges(flags)
    flags.add_argument("--batch", type=int, default=16, help="Sequences at once.")
    flags.add_argument("--seed", type=int, default=0, help="Of times and noise.")
    flags.add_argument("--device", type=str, default="auto", help="auto, cpu or cuda.")
    flags.add_argument("--json", type=bool, default=False, nargs="?", const=True, help="As a JSON object.")
    given = parse(flags, arguments)
    if given.quality == (given.data is not None):
        raise UserError("Say what to evaluate: --data TEXT for bits per token, or --quality for samples.")
    if given.quality:
        _quality(given)
    else:
        _likelihood(given)


def _likelihood(given: Namespace) -> None:
    if given.sequences < 1:
        raise UserError(f"A likelihood needs at least 1 sequence, not {given.sequences}.")
    model = load(given.run, given.device)
    result = likelihood(model, _sequences(given, model), times=given.times, batch=given.batch, seed=given.seed)
    if given.json:
        told = dataclasses.asdict(result)
        told |= {name: None for name in ("low", "high") if not math.isfinite(told[name])}  # of one sequence
        print(json.dumps({"method": model.config.method, "data": given.data, **told}))
        return
    kind = "exactly" if result.exact else "at most"
    print(
        f"{kind} {result.bits_per_token:.4f} bits per token (95% interval {result.low:.4f} to {result.high:.4f}, "
        f"{result.sequences} sequences of {model.config.length} tokens, {result.times} times each)"
    )


def _sequences(given: Namespace, model: Model) -> NDArray[np.int64]:
    """As the model was trained on them: windows of a text, or documents that are sequences by themselves."""
    corpus, length = Corpus(given.data, given.text_field), model.config.length
    if model.tokenizer.pad is None:
        return Windows(load_tokens(corpus, model.tokenizer, default_folder()), length, given.seed).first(
            given.sequences
        )
    documents = load_documents(
        corpus, model.tokenizer, length, default_folder(), molecules=True, skip_bad=given.skip_bad
    )
    return Rows(documents.tokens, given.seed).first(given.sequences)


def _quality(given: Namespace) -> None:
    if min(given.n, given.steps, given.batch) < 1:
        raise UserError("Samples need --n, --steps and --batch of at least 1.")
    judges = {name: load_scorer(name, device=str(device_named(given.device)), context=given.context)
              for name in scorers(given.scorer, given.words)}  # fmt: skip
    known = None if given.words is None else word_list(given.words, given.letters)
    one = Contestant.of(given.run)
    model = load(one.folder, given.device)
    (point,) = one.points(
        [given.steps],
        [given.temperature],
        {},
        top_k=None,
        nucleus=None,
        length=None,
        seed=given.seed,
        n=given.n,
        precision="bf16" if model.device.type == "cuda" else "float32",
    )
    samples = make(model, point, given.batch)
    scores = {name: scored(judge, samples.texts) for name, judge in judges.items()}
    mauve = None
    if given.mauve is not None:
        if not judges:
            raise UserError("--mauve needs a --scorer, whose features it compares.")
        mauve = Mauve(next(iter(judges.values())), given.mauve, given.seed).of(samples.texts)
    line = measured(point, samples, scores, known, mauve)
    print(json.dumps(line, ensure_ascii=False) if given.json else _told(line))


def _told(line: Line) -> str:
    """A measure a line, and last how it was made."""
    card, lines = line["card"], []
    for name, value in line["measures"].items():
        kind, _, scorer = name.partition(":")
        label = MEASURES[kind].label + (f", {scorer}" if scorer else "")
        lines.append(f"{label:<40} {'undefined' if value is None else f'{value:.4g}'}")
    lines.append(
        f"({card['n']} samples of {card['length']} tokens, {card['steps']} steps, temperature {card['temperature']:g}. "
        "One temperature says little: candi frontier compares whole frontiers.)"
    )
    return "\n".join(lines)
