"""Does a text that is written on and on fall apart? Perplexity and entropy of each window of long samples."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from candi.data.corpus import Corpus
from candi.data.datasets import load_sequences
from candi.evaluation.diversity import entropy
from candi.evaluation.scorers import RunScorer
from candi.hub.loading import load
from candi.model.model import Model
from candi.views.plots.style import COLOURS, STYLE, column, distinct, legend, of, several
from candi_lab.studies.studies import Row

TEXT = "held-out text"
_NAMES = {"mdlm": "masked, a window at once", "mdlm-16": "masked, blocks of 16", "candi-16": "CANDI, blocks of 16"}


def windows(runs: Sequence[str], scorer: str, text: str, times: int = 4, n: int = 64, steps: int = 64) -> list[Row]:
    """Of `n` samples of each run, `times` as long as it was trained: of every window the scorer's nats a character,

    read by itself, and the entropy of its tokens, each with half of a 95% interval over the samples. The same of text.
    """
    reader = RunScorer(load(scorer), scorer)
    rows: list[Row] = []
    for run in runs:
        model = load(run)
        made = model.sample(n, length=times * model.config.length, ends=False, steps=model.config.block or steps)
        rows += _measured(run.rstrip("/").rpartition("/")[2], model, made, reader)
    model = reader.model
    found = load_sequences(Corpus(text), model.tokenizer, times * model.config.length, rows=False).first(n)
    return rows + _measured(TEXT, model, torch.from_numpy(found), reader)


def _measured(name: str, model: Model, tokens: torch.Tensor, reader: RunScorer) -> list[Row]:
    length = model.config.length
    rows: list[Row] = []
    for number, part in enumerate(tokens.split(length, 1)):
        scores = reader.score([model.tokenizer.decode(row) for row in part.tolist()])
        nats, diversity = (scores.nats / scores.tokens).numpy(), np.asarray(entropy(part))
        row: Row = {"source": name, "window": number + 1, "length": length, "samples": len(part)}
        for key, values in ("nats", nats), ("entropy", diversity):
            row |= {key: float(values.mean()), f"{key}_margin": float(1.96 * values.std(ddof=1) / len(values) ** 0.5)}
        rows.append(row)
    return rows


def draw(rows: Sequence[Mapping[str, Any]]) -> Figure:
    with matplotlib.rc_context(STYLE):
        figure, panels = several(2, (8.4, 3.2))
        for axes, key, label in zip(
            panels, ("nats", "entropy"), ("perplexity per character", "entropy of the window, nats"), strict=True
        ):
            for name, colour in zip(distinct(rows, "source"), COLOURS, strict=False):
                some = of(rows, source=name)
                places = np.array(column(some, "window"))
                middle, margin = np.array(column(some, key)), np.array(column(some, f"{key}_margin"))
                low, middle, high = middle - margin, middle, middle + margin
                if key == "nats":
                    low, middle, high = np.exp(low), np.exp(middle), np.exp(high)
                style: dict[str, Any] = (
                    {"color": "#444444", "linestyle": "--"} if name == TEXT else {"color": colour, "marker": "o"}
                )
                axes.plot(places, middle, label=_NAMES.get(name, name), **style)
                axes.fill_between(places, low, high, color=style["color"], alpha=0.15, linewidth=0)
            axes.set_xlabel(f"window of {rows[0]['length']} characters")
            axes.set_ylabel(label)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        legend(figure, panels)
    return figure
