"""docs/pretrained.md: what methods become when they start from a language model, from what lab/adapt.sh kept."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from candi.base.files import write_text
from candi.base.markdown import table

ORDER = ("mdlm", "candi", "duo", "ar")
_NAMES = {"mdlm": "masked", "candi": "CANDI", "duo": "DUO", "ar": "autoregressive"}
_SETTLED = 100  # steps after which compilation is over


@dataclass(frozen=True)
class Adapted:
    """A run that started from a language model: its settings and machine, metrics, bits per token and samples."""

    method: str
    settings: dict[str, Any]
    machine: dict[str, Any]
    rows: list[dict[str, str]]
    bits: dict[str, Any] | None
    samples: list[dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> "Adapted":
        with (folder / "metrics.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        bits, run = folder / "bits.json", json.loads((folder / "run.json").read_text(encoding="utf-8"))
        lines = (folder / "samples.jsonl").read_text(encoding="utf-8").splitlines()
        return cls(
            folder.name, run["settings"], run["machine"], rows,
            json.loads(bits.read_text(encoding="utf-8")) if bits.exists() else None, [json.loads(one) for one in lines],
        )  # fmt: skip

    @property
    def tokens_a_step(self) -> int:
        return int(self.settings["batch_size"]) * int(self.settings["length"])

    @property
    def tokens(self) -> int:
        return int(self.rows[-1]["step"]) * self.tokens_a_step

    @property
    def minutes(self) -> float:
        return float(self.rows[-1]["seconds"]) / 60

    @property
    def pace(self) -> float | None:
        """Tokens a second once nothing is compiled any more, validation left out; None of a run too short to tell."""
        times = [(int(row["step"]), float(row["seconds"])) for row in self.rows if row["seconds"]]
        settled = [one for one in times if one[0] >= _SETTLED][:-1]  # the last row has the validation in it
        if len(settled) < 2:
            return None
        (first, begun), (last, ended) = settled[0], settled[-1]
        return (last - first) * self.tokens_a_step / (ended - begun)

    @property
    def first_loss(self) -> float:
        return float(self.rows[0]["loss"])

    @property
    def held_out_loss(self) -> float:
        return next(float(row["valid_loss"]) for row in reversed(self.rows) if row["valid_loss"])


def write_pretrained(folder: Path, page: Path) -> None:
    """The page, where something was kept."""
    runs = [Adapted.read(folder / method) for method in ORDER if (folder / method).is_dir()]
    if not runs:
        return
    settings, machine = runs[0].settings, runs[0].machine
    about = (
        f"{machine['device']}, torch {machine['torch']}; {settings['batch_size']} sequences of {settings['length']} "
        f"tokens in a step, AdamW at {settings['learning_rate']:g} that falls to 0 in the second half."
    )
    parts = [_HEAD, about, _table(runs), _READING]
    for run in runs:
        parts += _samples(run)
    write_text(page, "\n\n".join(parts) + "\n")


def _table(runs: list[Adapted]) -> str:
    head = [
        "method",
        "tokens learned from",
        "tokens/s",
        "minutes",
        "loss of the first steps",
        "held-out loss",
        "bits a token",
    ]
    return table(head, [list(_row(run)) for run in runs])


def _row(run: Adapted) -> Iterator[str]:
    yield _NAMES[run.method]
    yield f"{run.tokens / 1e6:.1f} million"
    yield "shared the GPU" if run.method != ORDER[0] or run.pace is None else f"{run.pace:,.0f}"
    yield f"{run.minutes:.1f}"
    yield f"{run.first_loss:.2f}"
    yield f"{run.held_out_loss:.3f}"
    bits = run.bits
    if bits is None:
        yield ""
    else:
        at_most = "" if bits["exact"] else "at most "
        yield f"{at_most}{bits['bits_per_token']:.3f} ({bits['low']:.3f} to {bits['high']:.3f})"


def _samples(run: Adapted) -> Iterator[str]:
    yield f"## {_NAMES[run.method][0].upper()}{_NAMES[run.method][1:]}"
    first = run.samples[0]
    steps = "" if run.method == "ar" else f" --steps {first['steps']}"
    options = f"--n {len(run.samples)}{steps} --temperature {first['temperature']:g} --seed 0"
    yield f"    candi sample OUT/{run.method} {options}"
    for sample in run.samples:
        yield "\n".join(f"> {line}" for line in sample["text"].strip().splitlines())


_HEAD = """# Starting from a language model

SmolLM2-135M-Instruct, a causal language model whose weights come in a Python package, goes on as masked diffusion, as
CANDI, as DUO and as itself: `candi train --init smollm2 --method METHOD`, on Wikipedia. This page is written by
`candi-lab results` from `lab/results/adapt`, which one script has made:

    lab/adapt.sh TEXT HELD_OUT OUT"""

_READING = """One run each. Masked diffusion had the GPU for itself, so its pace means something; the others ran side by
side afterwards and learned from a fraction of its tokens: they show that they start, and are no comparison. Losses are
each method's own, in nats a token: of masked diffusion and DUO a bound on the negative log likelihood, of
autoregression that itself, of CANDI the part of the tokens in its bound. Bits are of 512 held-out sequences with a 95%
interval: the whole bound, of autoregression exact. The samples are the first ones, not chosen."""
