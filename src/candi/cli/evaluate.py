"""candi evaluate"""

import dataclasses
import json
from collections.abc import Sequence
from typing import Literal

from jsonargparse import Namespace

from candi.base.checks import at_least
from candi.base.config import finite
from candi.base.errors import UserError
from candi.base.machine import device_named
from candi.cli.parsing import add_device, flag, parse, parser
from candi.cli.sampling_flags import (
    add_batch_size,
    add_chat,
    add_process,
    add_seed,
    add_steps,
    add_unknown,
    tokenizer_for,
)
from candi.cli.scorer_flags import add_scorers, scorer_names, words_source
from candi.cli.suites import add_suite, run_suite
from candi.data.corpus import Corpus
from candi.data.datasets import load_sequences
from candi.data.rows import Sequences
from candi.evaluation.likelihood import likelihood
from candi.evaluation.mauve import Mauve
from candi.evaluation.measures import MEASURES
from candi.evaluation.points import Point, Scored, measure_point
from candi.evaluation.samples import make
from candi.evaluation.scorers import load_scorer
from candi.evaluation.words import word_list
from candi.hub.loading import load, run_handle
from candi.model.model import Model

_UNITS: tuple[Literal["byte"], Literal["character"]] = ("byte", "character")


def run(arguments: Sequence[str]) -> None:
    flags = parser(
        "evaluate",
        "RUN --data TEXT | --generative",
        "Bits per token of a text under a model, or measures of its samples.",
    )
    flags.add_argument("run", type=str, help="The run's folder, a checkpoint's folder, or hf:OWNER/NAME.")
    flags.add_argument("--data", type=str | None, default=None, help="Text, of any kind that candi train takes.")
    flags.add_argument("--text_field", type=str, default="text", help="Column with the text in JSON lines and Parquet.")
    add_chat(flags)
    flag(flags, "skip_bad", "Leave out documents that are too long or cannot be read.")
    add_unknown(flags)
    flags.add_argument("--sequences", type=int, default=256, help="How many, spread over the text.")
    flags.add_argument("--times", type=int, default=8, help="Times t drawn for each.")
    add_process(flags)
    add_suite(flags)
    flag(flags, "generative", "Measure samples of the model instead.")
    flags.add_argument("--n", type=int, default=128, help="Samples to measure.")
    add_steps(flags)
    add_scorers(flags)
    add_batch_size(flags, 16)
    add_seed(flags)
    add_device(flags)
    flag(flags, "json", "As a JSON object.")
    given = parse(flags, arguments)
    if sum((given.generative, given.data is not None, given.suite is not None)) != 1:
        raise UserError("Say what to evaluate: --data TEXT for bits per token, --generative for samples, or a --suite.")
    if given.suite is not None:
        run_suite(given)
    elif given.generative:
        _generative(given)
    else:
        _likelihood(given)


def _likelihood(given: Namespace) -> None:
    if given.sequences < 1:
        raise UserError(f"A likelihood needs at least 1 sequence, not {given.sequences}.")
    model = load(given.run, given.device)
    data = _sequences(given, model)
    sequences, marks = data.first(given.sequences), data.first_given(given.sequences)
    result = likelihood(
        model, sequences, given=marks, times=given.times, batch_size=given.batch_size, seed=given.seed,
        path=given.path, prior=given.prior,
    )  # fmt: skip
    if given.json:
        values = dataclasses.asdict(result)
        values |= {f"bits_per_{unit}": result.per(unit)[0] for unit in _UNITS}
        print(json.dumps(finite({"method": model.config.method, "data": given.data, **values})))
        return
    kind = "exactly" if result.exact else "at most"
    print(
        f"{kind} {result.bits_per_token:.4f} bits per token (95% interval {result.low:.4f} to {result.high:.4f}, "
        f"{result.sequences} sequences of {model.config.length} tokens, {result.times} times each)"
    )
    for unit in _UNITS:
        bits, low, high = result.per(unit)
        print(f"{kind} {bits:.4f} bits per {unit} ({low:.4f} to {high:.4f})")
    if len(result.parts) > 1:
        print("of which " + ", ".join(f"{name} {bits:.4f}" for name, bits in result.parts.items()) + " bits per token")


def _sequences(given: Namespace, model: Model) -> Sequences:
    """As the model was trained on them: windows of a text, or documents that are sequences by themselves."""
    tokenizer = tokenizer_for(model, given.unknown)
    corpus = Corpus(given.data, given.text_field, None if tokenizer.framed else model.rows, given.chat)
    return load_sequences(
        corpus, tokenizer, model.config.length, rows=model.rows, skip_bad=given.skip_bad, seed=given.seed,
        block=model.config.block,
    )  # fmt: skip


def _generative(given: Namespace) -> None:
    for name in ("n", "steps", "batch_size"):
        at_least(name, given[name], 1)
    device, words = str(device_named(given.device)), words_source(given.words)
    names = scorer_names(given.scorers, words)
    scorers = {name: load_scorer(name, device=device, context=given.context) for name in names}
    known = None if words is None else word_list(words, given.letters)
    handle = run_handle(given.run)
    model = Model.read(handle.folder, device)
    complete = model.with_defaults(steps=given.steps, temperature=given.temperature)
    (cell,) = handle.cells(
        [complete["steps"]],
        [complete["temperature"]],
        {},
        top_k=None,
        top_p=None,
        length=None,
        seed=given.seed,
        n=given.n,
        precision="bf16" if model.device.type == "cuda" else "float32",
    )
    samples = make(model, cell, given.batch_size)
    scores = {name: Scored.by(scorer, samples.texts) for name, scorer in scorers.items()}
    mauve = None
    if given.mauve is not None:
        if not scorers:
            raise UserError("--mauve needs --scorers, whose features it compares.")
        mauve = Mauve(next(iter(scorers.values())), given.mauve, given.seed).of(samples.texts)
    point = measure_point(samples, scores, known, mauve)
    print(json.dumps(point.to_json(), ensure_ascii=False) if given.json else _lines(point))


def _lines(point: Point) -> str:
    """A measure a line, and last how it was made."""
    cell, lines = point.cell, []
    for name, value in point.measures.items():
        kind, _, scorer = name.partition(":")
        label = MEASURES[kind].label + (f", {scorer}" if scorer else "")
        lines.append(f"{label:<40} {'undefined' if value is None else f'{value:.4g}'}")
    lines.append(
        f"({cell.n} samples of {cell.length} tokens, {cell.steps} steps, temperature {cell.temperature:g}. "
        "One temperature says little: candi frontier compares whole frontiers.)"
    )
    return "\n".join(lines)
