"""candi evaluate"""

import dataclasses
import json
from collections.abc import Sequence

from candi.cli.parsing import parse, parser
from candi.data.batches import Windows
from candi.data.cache import default_folder, load_tokens
from candi.data.corpus import Corpus
from candi.errors import UserError
from candi.evaluation.likelihood import likelihood
from candi.loading import load


def run(arguments: Sequence[str]) -> None:
    flags = parser("evaluate", "RUN --data TEXT", "Bits per token of a text under a model.")
    flags.add_argument("run", type=str, help="The run's folder, a checkpoint's folder, or hf:OWNER/NAME.")
    flags.add_argument("--data", type=str, required=True, help="Text, of any kind that candi train takes.")
    flags.add_argument("--text_field", type=str, default="text", help="Column with the text in JSON lines and Parquet.")
    flags.add_argument("--sequences", type=int, default=256, help="How many, spread over the text.")
    flags.add_argument("--times", type=int, default=8, help="Times t drawn for each.")
    flags.add_argument("--batch", type=int, default=16, help="Sequences at once.")
    flags.add_argument("--seed", type=int, default=0, help="Of times and noise.")
    flags.add_argument("--device", type=str, default="auto", help="auto, cpu or cuda.")
    flags.add_argument("--json", type=bool, default=False, nargs="?", const=True, help="As a JSON object.")
    given = parse(flags, arguments)
    if given.sequences < 1:
        raise UserError(f"A likelihood needs at least 1 sequence, not {given.sequences}.")
    model = load(given.run, given.device)
    tokens = load_tokens(Corpus(given.data, given.text_field), model.tokenizer, default_folder())
    sequences = Windows(tokens, model.config.length, given.seed).first(given.sequences)
    result = likelihood(model, sequences, times=given.times, batch=given.batch, seed=given.seed)
    if given.json:
        print(json.dumps({"method": model.config.method, "data": given.data, **dataclasses.asdict(result)}))
        return
    kind = "exactly" if result.exact else "at most"
    print(
        f"{kind} {result.bits_per_token:.4f} bits per token (95% interval {result.low:.4f} to {result.high:.4f}, "
        f"{result.sequences} sequences of {model.config.length} tokens, {result.times} times each)"
    )
