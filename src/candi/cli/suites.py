"""candi evaluate --suite: protocols that leave nothing open."""

import json
from dataclasses import asdict
from pathlib import Path

from jsonargparse import ArgumentParser, Namespace

from candi.base.checks import at_least
from candi.base.config import finite
from candi.base.errors import UserError, unknown
from candi.cli.parsing import listed
from candi.cli.scorer_flags import scorer_names
from candi.data.cache import default_folder
from candi.diffusion.draws import PRECISION
from candi.evaluation.points import Point
from candi.evaluation.suites import Score, power, zero_shot
from candi.evaluation.sweep import Sweep
from candi.evaluation.sweep_settings import SweepSettings
from candi.hub.loading import load, run_handle

_TEMPERATURES = [0.7, 0.8, 0.9, 1.0]  # of the frontier through the pair that is reported, which is at 1
_STEPS = 64


def add_suite(flags: ArgumentParser) -> None:
    add = flags.add_argument
    add("--suite", type=str | None, default=None, help="zero-shot: bits and perplexity on named corpora; generative: "
        "perplexity and entropy of samples, with the frontier through them.")  # fmt: skip
    add("--corpora", type=str | None, default=None, help="Of zero-shot: a list; by default all that are there.")
    add("--corpora_in", type=Path | None, default=None, help="A folder with a file or folder for each, as ptb.txt; by "
        "default what the hub has.")  # fmt: skip


def run_suite(given: Namespace) -> None:
    if given.suite not in _SUITES:
        raise unknown("suite", given.suite, _SUITES)
    for name in ("sequences", "times", "batch_size", "n"):
        at_least(name, given[name], 1)
    _SUITES[given.suite](given)


def _zero_shot(given: Namespace) -> None:
    model = load(given.run, given.device)
    for score in zero_shot(
        model, listed(given.corpora), given.corpora_in, sequences=given.sequences, times=given.times,
        batch_size=given.batch_size, seed=given.seed,
    ):  # fmt: skip
        print(json.dumps(finite(asdict(score))) if given.json else _line(score), flush=True)


def _line(score: Score) -> str:
    most = "" if score.exact else "at most "
    return (
        f"{score.corpus:9} perplexity {most}{score.perplexity:.2f} a token ({power(score.bits_low):.2f} to "
        f"{power(score.bits_high):.2f}), {score.word_perplexity:.1f} a word; {score.bits_per_byte:.3f} bits a byte, "
        f"{score.bits_per_character:.3f} a character\n"
        f"          {score.suite}: {score.tokens:,} tokens, {score.words:,.0f} words, windows of {score.context} that "
        f"do not overlap, rule {score.detokenised}, text {score.text[:12]}, {score.times} times, candi {score.candi}"
    )


def _generative(given: Namespace) -> None:
    """Samples of the model's length, drawn exactly; what a scorer reads of them is their text without marks of ends."""
    handle, names = run_handle(given.run), scorer_names(given.scorers)
    steps = given.steps or _STEPS
    if not names:
        raise UserError("The generative suite needs a scorer; name one with --scorers.")
    settings = SweepSettings(
        runs=[handle], out=default_folder() / "suites" / f"generative-{handle.checkpoint[:16]}", steps=[steps],
        temperatures=_TEMPERATURES, n=given.n, seed=given.seed, device=given.device, scorers=names,
        context=given.context,
    )  # fmt: skip
    points = Sweep(settings).go()
    for point in points:
        print(json.dumps(point.to_json()) if given.json else _pair(point), flush=True)
    if not given.json:
        cell = points[0].cell
        print(
            f"generative 1: {given.n} samples of {cell.length} tokens in {cell.steps} steps, draws in {PRECISION}, "
            f"network in {cell.precision}, scorer {names[0]} with {given.context} tokens of context, marks of ends "
            f"left out, seed {given.seed}. The pair is that of temperature 1; a model is a curve, and candi frontier "
            "compares them."
        )


def _pair(point: Point) -> str:
    perplexity, entropy = point.measures["perplexity"], point.measures["entropy"]
    shown = "undefined" if perplexity is None else f"{perplexity:.2f}"
    return f"temperature {point.cell.temperature:<4g} perplexity {shown:>10}   entropy {entropy:.3f} nats"


_SUITES = {"zero-shot": _zero_shot, "generative": _generative}
