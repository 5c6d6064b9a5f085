"""The same text in several vocabularies: figure, tables, and whether the predictions hold."""

from dataclasses import replace

import numpy as np
from candi_lab.report import plots
from candi_lab.runner.experiment import read
from candi_lab.runner.ledger import Ledger
from candi_lab.runner.schema import PREDICTION, Grid, Overview
from candi_lab.verdicts.overview import OfVocabulary, order, overview, ratio_table, word_table

from candi.evaluation.compare import Axes
from candi.evaluation.pareto import Dominance
from tests.lab.made import Versus, comparison, group, versus

PERPLEXITY = Axes("word_entropy", "perplexity", per="character")


def test_the_overview_shows_every_family_at_every_vocabulary():
    sizes = (27, 4096, 50257)
    fall = {size: {8: (0.9, 0.8, 1.0), 64: (1.1, 1.05, 5.0)} for size in sizes}
    runs = [OfVocabulary("candi", size, 0.6, 0.3, fall[size]) for size in sizes]
    runs += [OfVocabulary("mdlm", size, 0.5, 0.5, {}) for size in sizes]
    runs += [OfVocabulary("onehot", size, 1 / size, 0.2, {8: (1.1, 1.0, 1.2)} if size < 100 else {}) for size in sizes]
    runs = [*runs[::-1]]  # the order of the panels is that of the steps, whatever comes first
    figure = plots.over_vocabulary(runs, "perplexity", "mdlm")
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == [
        "8 steps", "64 steps", "predicted: identifiable positions", "predicted: rank that the network sees",
    ]  # fmt: skip
    drawn = [[int(np.isfinite(line.get_ydata()).sum()) for line in axes.get_lines()] for axes in shown]
    assert drawn == [[1, 0, 3, 2], [0, 0, 3, 2], [3, 3, 3], [3, 3, 3]]  # a dashed line at 1 beside the methods above
    assert shown[0].get_ylim() == shown[1].get_ylim()
    assert shown[0].get_ylim()[1] > 5  # all intervals of all panels are on the page
    assert "| candi | 4,096 | 0.9 (0.8 to 1) | 1.1 (1.05 to 5) | 0.60 | 0.30 |" in ratio_table(
        runs, "perplexity", "mdlm"
    )
    assert "trained longer" not in " ".join(text.get_text() for text in figure.legends[0].get_texts())


def test_runs_that_were_trained_longer_are_hollow_marks_beside_the_others():
    behind, level = {8: (1.3, 1.2, 1.4)}, {8: (1.01, 0.9, 1.1), 16: (1.02, 0.9, 1.1)}
    runs = [OfVocabulary("candi", 512, 0.6, 0.3, behind, level), OfVocabulary("mdlm", 512, 0.5, 0.5, {})]
    figure = plots.over_vocabulary(runs, "perplexity", "mdlm")
    assert "both trained longer" in [text.get_text() for text in figure.legends[0].get_texts()]
    hollow = [[line for line in axes.get_lines() if line.get_markerfacecolor() == "white"] for axes in figure.axes[:2]]
    marks = [[(line.get_xdata()[0], line.get_ydata()[0]) for line in lines] for lines in hollow]
    assert marks == [[(512, 1.01)], [(512, 1.02)]]  # at 16 steps nothing else is known
    rows = ratio_table(runs, "perplexity", "mdlm")
    assert "| candi | 512 | 1.3 (1.2 to 1.4) |  | 0.60 | 0.30 |" in rows
    assert "| candi, both trained longer | 512 | 1.01 (0.9 to 1.1) | 1.02 (0.9 to 1.1) |  |  |" in rows


def test_words_say_where_a_method_is_ahead(tmp_path):
    """By the same verdicts as everywhere: what cannot be compared at some steps is not passed over."""
    families = {"candi": ["a", "b"], "mdlm": ["c", "d"]}
    grids = {
        "small": Grid("s", runs=["a", "c"]),
        "large": Grid("l", runs=["b", "d"]),
        "long": Grid("x", runs=["e", "f"]),
    }
    longer = Overview("mdlm", families, {"b": "e", "d": "f"})
    experiment = replace(read("vocabulary", "toy"), axes=PERPLEXITY, grids=grids, overview=longer,
                         runs={name: {} for name in "abcdef"})  # fmt: skip
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for run, size in zip("abcd", (27, 4096, 27, 4096), strict=True):
        ledger.write(PREDICTION, run, "plan", vocab_size=size, identifiable=0.5, rank=0.4)
    small = [group(8, versus("a", "c", 0.8, 0.9)), group(16, versus("c", "a", 1.1, 1.3))]
    far = [versus("b", "d", 1.2, 1.4), Versus("b", "d", None), versus("b", "d", 0.9, 1.2), Versus("b", "d", None, "d")]
    large = [group(steps, pair) for steps, pair in zip((8, 16, 32, 64), far, strict=True)]
    long = [group(8, Versus("e", "f", Dominance(0.1, 0.9, 0.6, 0.5, 0.3, 0.98, 0.9, 0.99, -0.02)))]
    groups = {"small": small, "large": large, "long": long}
    found = {name: comparison(*some, axes=PERPLEXITY) for name, some in groups.items()}
    assert word_table(experiment, found, ledger).splitlines()[2:] == [
        "| 27 | ahead (-16.4% to -15.1%) |",
        "| 4,096 | behind at 8 and 64 steps, not settled at 16 steps, level at 32 steps (+3.9% to +29.6%) |",
        "| 4,096, both trained longer | crosses (-2.0%) |",
    ]
    runs = list(overview(experiment, found, ledger))
    assert [(run.family, run.vocab_size, *run.ratios, *run.longer) for run in runs] == [
        ("candi", 27, 8, 16), ("candi", 4096, 8, 32, 8), ("mdlm", 27), ("mdlm", 4096),
    ]  # fmt: skip


def test_the_predictions_are_held_against_the_order_that_came_out():
    def run(size, identifiable, rank, ratio):
        return OfVocabulary("candi", size, identifiable, rank, {8: (ratio, ratio, ratio)} if ratio else {})

    right = [run(27, 0.9, 0.1, 0.9), run(512, 0.5, 0.2, 1.5), run(4096, 0.2, 0.4, 2.0), run(4096, 0.5, 0.5, None)]
    (sentence,) = order(right, "mdlm", higher_is_better=False)
    assert "over these 3 runs" in sentence
    assert "positions: -1.00 (" in sentence
    assert "sees: 1.00 (" in sentence
    assert "positions: 1.00 (" in order(right, "mdlm", higher_is_better=True)[0]  # whoever has more is not behind
    assert order(right[:2], "mdlm", higher_is_better=False) == []
