"""candi tune-noise"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from candi.base.config import finite
from candi.base.errors import UserError
from candi.cli.frontier import numbers
from candi.cli.parsing import add_device, flag, parse, parser
from candi.cli.sampling_flags import add_batch_size, add_chat, add_seed
from candi.data.corpus import Corpus
from candi.data.datasets import load_sequences
from candi.diffusion.methods.candi import CandiSettings
from candi.evaluation.tune_noise import Tried, grid, tune_noise
from candi.hub.loading import load


def run(arguments: Sequence[str]) -> None:
    flags = parser(
        "tune-noise", "RUN --data TEXT", "Which ranges, paths and priors of noise have the smallest bound under a run?"
    )
    flags.add_argument("run", type=str, help="A run of candi; one trained with --candi.independent knows all paths.")
    flags.add_argument("--data", type=str, required=True, help="Text that it was not trained on.")
    flags.add_argument("--text_field", type=str, default="text", help="Column with the text, of data with columns.")
    add_chat(flags)
    flags.add_argument("--ranks", type=str | None, default=None, help="Ends of ranges: a list or LOW:HIGH:STEP; by "
                       "default five in the run's own range.")  # fmt: skip
    flags.add_argument("--sequences", type=int, default=64, help="How many, spread over the text.")
    flags.add_argument("--times", type=int, default=8, help="Times t drawn for each.")
    add_batch_size(flags, 16)
    add_seed(flags)
    add_device(flags)
    flag(flags, "json", "A JSON object for each.")
    given = parse(flags, arguments)
    if min(given.sequences, given.times, given.batch_size) < 1:
        raise UserError("At least 1 sequence, 1 time and a batch of 1 are needed.")
    model = load(given.run, given.device)
    settings = model.config.settings
    if not isinstance(settings, CandiSettings):
        raise UserError(f"{model.config.method} has no ranks and paths of noise; tune a run of candi.")
    noises = grid(settings, model.denoiser.method.frequencies is not None, numbers(given.ranks) if given.ranks else ())
    corpus = Corpus(given.data, given.text_field, model.config.rows or None, given.chat)
    data = load_sequences(
        corpus, model.tokenizer, model.config.length, rows=model.rows, seed=given.seed, block=model.config.block
    )
    sequences, marks = data.first(given.sequences), data.first_given(given.sequences)
    tried = []
    for one in tune_noise(
        model, sequences, noises, given=marks, times=given.times, batch_size=given.batch_size, seed=given.seed
    ):
        print(json.dumps(finite(asdict(one))) if given.json else _line(one), flush=True)
        tried.append(one)
    print(_advice(tried, settings), file=sys.stderr if given.json else sys.stdout)


def _line(one: Tried) -> str:
    noise = one.noise
    parts = ", ".join(f"{name} {one.parts[name]:.3f}" for name in ("tokens", "gaussian", "prior"))
    against = f"{one.more:+.4f} ± {one.margin:.4f}" if one.margin else "the run's own"
    return (
        f"ranks {noise.low:<6g} to {noise.high:<6g} {noise.path:8} {noise.prior:11} {one.bits:.4f} bits per token "
        f"({against}; {parts})"
    )


def _advice(tried: Sequence[Tried], settings: CandiSettings) -> str:
    best = min(tried, key=lambda one: one.bits)
    prior = " and the prior from token frequencies" if best.noise.prior == "frequencies" else ""
    sure = "" if best.more + best.margin < 0 or best is tried[0] else " (no sure difference to the run's own)"
    known = {rank for one in tried for rank in (one.noise.low, one.noise.high)}
    edges = [
        f"{'below' if rank == min(known) else 'above'} {rank:g}"
        for rank in (best.noise.low, best.noise.high) if rank in (min(known), max(known)) and len(known) > 2
    ]  # fmt: skip
    more = f" It lies at an edge of what was tried: try ranks {' and '.join(edges)} too, --ranks." if edges else ""
    trained = "" if settings.independent else (
        " This run has seen its own noise alone, so others look worse than runs trained with them would: a run with "
        "--candi.independent knows them all."
    )  # fmt: skip
    return f"Smallest bound: {best.noise.flags}{prior}{sure}.{more}{trained}"
