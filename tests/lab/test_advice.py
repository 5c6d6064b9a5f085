"""Which method is recommended at which number of steps, from intervals alone."""

import math
from dataclasses import replace

import pytest
from candi_lab.report import plots
from candi_lab.report.page import Measured
from candi_lab.report.readme import BEGIN, END, summary_table, write_readme
from candi_lab.runner.experiment import Experiment, read
from candi_lab.runner.schema import Advice, CurveRef, Grid, NamedCurve, Overview
from candi_lab.runner.store import Results
from candi_lab.verdicts.advice import advice_tables, choices

from candi.base.errors import UserError
from candi.evaluation.compare import Axes, Group
from candi.evaluation.pareto import Dominance
from tests.lab.made import MOLECULES, WORDS, Versus, comparison, group, versus

NAMES = {"a": "Alpha", "b": "beta", "c": "gamma", "ar": "one by one"}


def _advised(where: str, sweep: str, names: dict[str, str]) -> Advice:
    return Advice(where, sweep, [NamedCurve(CurveRef(run), name) for run, name in names.items()])


def _versus(second: str, low: float, high: float, first: str = "a") -> Versus:
    return versus(first, second, low, high)


def _experiment(axes: Axes) -> Experiment:
    grid = Grid("words", runs=list(NAMES), property="qed" if axes.quality == "property" else None)
    return replace(read("text8", "toy"), axes=axes, grids={"s": grid}, advice=[_advised("Here", "s", NAMES)])


def _advice(*groups: Group, axes: Axes = WORDS) -> list[str]:
    return list(advice_tables(_experiment(axes), {"s": comparison(*groups, axes=axes)}))


def test_the_first_where_it_is_ahead_and_both_where_they_are_level():
    (text,) = _advice(
        group(8, _versus("b", 0.80, 0.90), _versus("c", 0.5, 0.6)),
        group(16, _versus("b", 0.85, 0.95), _versus("c", 0.5, 0.6)),
        group(32, _versus("b", 0.95, 1.05), _versus("c", 0.5, 0.6)),
        group(64, _versus("b", 1.10, 1.20), _versus("c", 0.5, 0.6)),
    )
    head = "**Here: Alpha at 8 and 16 steps; Alpha or beta at 32 steps; beta at 64 steps** (toy scale)."
    assert text.splitlines()[0] == head
    assert "| valid words of Alpha against | 8 steps | 16 steps | 32 steps | 64 steps |" in text
    assert "| beta | +17.9% | +11.3% | level (+0.1%) | -13.0% |" in text
    assert "| gamma | +82.6% |" in text
    assert "one by one" not in text  # of which there are no points


def test_curves_that_cross_are_text_to_do_so_and_neither_is_left_out():
    mean = (0.85, 0.8, 0.9, math.log(0.85))
    (text,) = _advice(group(8, Versus("a", "b", Dominance(0.1, 0.9, 0.7, 0.6, 0.3, *mean))))
    assert text.startswith("**Here: Alpha or beta at 8 steps** (")
    assert "| beta | crosses (+17.6%) |" in text


def test_of_two_that_are_ahead_of_the_first_only_the_better_one_is_recommended():
    both = [_versus("b", 1.1, 1.2), _versus("c", 1.3, 1.4)]
    assert _advice(group(8, *both, _versus("c", 1.1, 1.2, first="b")))[0].startswith("**Here: gamma at 8")
    assert _advice(group(8, *both, _versus("c", 0.9, 1.2, first="b")))[0].startswith("**Here: beta or gamma at 8")


def test_who_was_not_measured_at_a_number_of_steps_is_not_recommended_there():
    text = _advice(
        group(8, _versus("b", 0.8, 0.9), _versus("c", 0.8, 0.9), _versus("c", 0.9, 1.1, first="b")),
        group(16, _versus("b", 1.1, 1.2)),
        group(
            32,
        ),
    )[0]
    assert text.startswith("**Here: Alpha at 8 steps; beta at 16 steps** (")
    circle = [_versus("b", 0.8, 0.9), _versus("c", 1.1, 1.2), _versus("c", 0.8, 0.9, first="b")]
    assert _advice(group(8, *circle))[0].startswith("**Here: Alpha or beta or gamma at 8 steps** (")


def test_one_that_decides_its_own_steps_is_recommended_where_they_are_no_matter():
    ahead = _advice(group(8, _versus("b", 0.8, 0.9), _versus("ar", 1.1, 1.2), fixed={"ar": 256}))[0]
    assert ahead.startswith("**Here: Alpha at 8 steps; one by one if 256 network evaluations are affordable** (")
    behind = _advice(group(8, _versus("b", 0.8, 0.9), _versus("ar", 0.7, 0.8), fixed={"ar": 256}))[0]
    assert behind.startswith("**Here: Alpha at 8 steps** (")
    assert "| one by one | +33.6% |" in behind


def test_properties_are_text_by_their_differences_and_who_is_out_of_reach_without_a_number():
    axes = MOLECULES  # cost is exp(-property)
    far = Versus("a", "c", None, "a")
    (text,) = _advice(group(16, _versus("b", math.exp(-0.02), math.exp(-0.01)), far), axes=axes)
    assert "| qed of Alpha against | 16 steps |" in text
    assert "| beta | +0.015 |" in text
    assert "| gamma | ahead |" in text


def test_a_figure_shows_by_how_much_the_first_is_better():
    pair = _versus("b", 0.8, 0.9)
    far = Versus("a", "c", None, "a")  # ahead, nobody knows by how much
    gains = {}
    for quality, unit in (
        ("valid_words", "more valid words by Alpha, %"),
        ("perplexity", "less perplexity by Alpha, %"),
        ("property", "more qed by Alpha"),
    ):
        axes = Axes("unique_words", quality)
        experiment, found = _experiment(axes), {"s": comparison(group(8, pair, far), axes=axes)}
        (one,) = choices(experiment, found)
        assert (one.where, one.gain, one.ratios) == ("Here, toy scale", unit, False)
        assert list(one.others) == ["beta"]
        (gain,) = one.others["beta"]
        assert gain.low < gain.value < gain.high
        gains[quality] = gain
        assert list(choices(experiment, {})) == []
        assert len([axes for axes in plots.choices([one, one, one]).axes if axes.get_visible()]) == 3
    cost = math.sqrt(0.72)  # of the first, the second's being 1
    assert gains["valid_words"].value == pytest.approx(100 * (1 / cost - 1))
    assert (gains["valid_words"].low, gains["valid_words"].high) == pytest.approx((100 / 0.9 - 100, 25))
    assert gains["perplexity"].value == pytest.approx(100 * (1 - cost))
    assert (gains["perplexity"].low, gains["perplexity"].high) == pytest.approx((10, 20))
    assert gains["property"].value == pytest.approx(-math.log(cost))


def test_where_one_is_many_times_better_the_figure_shows_ratios():
    """Percent would put a perplexity five times as high at -400 and one of a fifth at 80."""
    pairs = [_versus("b", 4.0, 6.25), _versus("c", 0.16, 0.25)]
    for quality, gain, better in (
        ("perplexity", "their perplexity / that of Alpha", [0.2, 5]),
        ("valid_words", "valid words of Alpha / theirs", [0.2, 5]),
    ):
        axes = Axes("unique_words", quality)
        found = {"s": comparison(group(8, *pairs), axes=axes)}
        (one,) = choices(_experiment(axes), found)
        assert (one.gain, one.ratios) == (gain, True)
        assert [some[0].value for some in one.others.values()] == pytest.approx(better)
        assert all(some[0].low < some[0].value < some[0].high for some in one.others.values())
        panel = plots.choices([one]).axes[0]
        assert panel.get_xscale() == "log"
        assert panel.get_lines()[0].get_xdata()[0] == 1  # no difference
        (text,) = advice_tables(_experiment(axes), found)
        times = {"perplexity": ("5.00", "0.20"), "valid_words": ("0.20", "5.00")}[quality]
        assert f"| beta | {times[0]} times |" in text
        assert f"| gamma | {times[1]} times |" in text


def test_differences_are_never_text_as_ratios_however_large():
    axes = MOLECULES
    pair = _versus("b", math.exp(-3.1), math.exp(-2.9))
    (one,) = choices(_experiment(axes), {"s": comparison(group(8, pair), axes=axes)})
    assert not one.ratios
    assert one.others["beta"][0].value == pytest.approx(3.0)


def test_the_same_methods_in_several_places_share_a_table_that_says_whom_to_take():
    places = [
        _advised("There", "s", {"a": "Alpha", "b": "beta"}),
        _advised("Yonder", "t", {"c": "Alpha", "ar": "beta"}),
    ]
    places += [
        _advised("Beyond", "u", {"x": "Alpha", "y": "beta"}),
        _advised("Nowhere", "v", {"x": "Alpha", "y": "beta"}),
    ]
    experiment = _experiment(WORDS)
    grids = dict.fromkeys("stuv", experiment.grids["s"])
    experiment = replace(experiment, advice=[places[0], _advised("Here", "s", NAMES), *places[1:]], grids=grids)
    steps = (8, 16, 32)
    here = [group(n, _versus("b", *ends)) for n, ends in zip(steps, [(0.8, 0.9), (0.95, 1.05)] * 2, strict=False)]
    there = [group(8, _versus("ar", 1.1, 1.2, first="c"))]
    beyond = [group(n, _versus("y", 1.1, 1.2, first="x")) for n in steps]
    found = {name: comparison(*groups, axes=WORDS) for name, groups in {"s": here, "t": there, "u": beyond}.items()}
    together, alone = advice_tables(experiment, found)
    assert alone.startswith("**Here: ")
    lines = together.splitlines()
    assert lines[0] == f"**{experiment.title}** (toy scale)."
    assert lines[2] == "| valid words of Alpha against beta | 8 steps | 16 steps | 32 steps | take |"
    assert lines[4:] == [
        "| There | +17.9% | level (+0.1%) | +17.9% | Alpha at 8 and 32 steps; Alpha or beta at 16 steps |",
        "| Yonder | -13.0% |  |  | beta at 8 steps |",
        "| Beyond | -13.0% | -13.0% | -13.0% | beta |",
    ]
    assert len(list(choices(experiment, found))) == 4
    shown = replace(experiment, overview=Overview("b", {"a": ["a"], "b": ["b"]}))
    assert list(choices(shown, found)) == []  # they are in the overview already


def test_what_has_its_own_steps_is_not_forgotten_in_a_table_of_several_places():
    groups = [group(8, _versus("ar", 1.1, 1.2), fixed={"ar": 256})]
    two = [_advised(where, "s", {"a": "Alpha", "ar": "one by one"}) for where in ("Here", "There")]
    (text,) = advice_tables(replace(_experiment(WORDS), advice=two), {"s": comparison(*groups, axes=WORDS)})
    assert "| Here | -13.0% | Alpha at 8 steps; one by one if 256 network evaluations are affordable |" in text


def test_places_of_different_qualities_share_no_table():
    axes = MOLECULES
    experiment = _experiment(axes)
    grids = {"s": experiment.grids["s"], "t": replace(experiment.grids["s"], property="rings")}
    two = [_advised("Here", sweep, {"a": "Alpha", "b": "beta"}) for sweep in grids]
    found = {sweep: comparison(group(8, _versus("b", 0.8, 0.9)), axes=axes) for sweep in grids}
    text = list(advice_tables(replace(experiment, advice=two, grids=grids), found))
    assert ["| qed of Alpha" in one for one in text] == [True, False]
    assert "| rings of Alpha against | 8 steps |" in text[1]


def test_it_is_said_where_less_is_better():
    axes = Axes("word_entropy", "perplexity", per="character")
    (text,) = _advice(group(8, _versus("b", 0.8, 0.9)), axes=axes)
    assert "| perplexity per character (less is better) of Alpha against | 8 steps |" in text


def test_nothing_is_said_of_what_was_not_measured():
    assert (
        _advice(
            group(
                8,
            )
        )
        == []
    )


def _measured(tmp_path, *groups: Group, axes: Axes = WORDS, names: dict[str, str] | None = None) -> Measured:
    """Curves whose methods are those of the library."""
    experiment = replace(_experiment(axes), advice=[_advised("Here", "s", names or METHODS)])
    return Measured(experiment, Results(experiment, tmp_path), {"s": comparison(*groups, axes=axes)})


METHODS = {
    "candi": "CANDI (calibrated)",
    "mdlm": "masked diffusion",
    "ar": "autoregression",
    "candi-free": "CANDI, other paths",
}


def test_the_table_of_the_readme_has_one_direction_and_marks_what_is_not_sure(tmp_path):
    words = [
        group(8, versus("candi", "mdlm", 0.8, 0.9), versus("candi", "ar", 1.1, 1.2), fixed={"ar": 256}),
        group(16, versus("candi", "mdlm", 0.95, 1.05), versus("candi", "ar", 1.1, 1.2), fixed={"ar": 256}),
    ]
    perplexity = [group(8, versus("candi", "mdlm", 4.0, 6.25)), group(16, versus("candi", "mdlm", 1.2, 1.3))]
    property = [group(8, versus("x", "mdlm", math.exp(-0.02), math.exp(-0.01)))]
    known = [
        _measured(tmp_path, *words),
        _measured(tmp_path, *perplexity, axes=Axes("entropy", "perplexity")),
        _measured(tmp_path, *property, axes=MOLECULES, names={"x": "CANDI, tilted", "mdlm": "masked diffusion"}),
        _measured(tmp_path, group(8, Versus("candi", "mdlm", None, "mdlm"))),
    ]
    assert summary_table(known).splitlines() == [
        "| data | scale | measure | steps | masked | autoregressive |",
        "| --- | --- | --- | --- | --- | --- |",
        "| Here | toy scale | valid words | 8 to 16 | +0.1 to +17.9% ~ | -13.0% |",
        "| Here | toy scale | perplexity | 8 to 16 | -400 to -25% |  |",  # less of it is better
        "| Here: CANDI, tilted | toy scale | qed | 8 | +0.015 |  |",
        "| Here | toy scale | valid words | 8 | behind |  |",  # surely, but no range is shared
    ]


def test_the_rest_of_the_readme_stays_as_it_is(tmp_path):
    page, known = tmp_path / "README.md", [_measured(tmp_path, group(8, versus("candi", "mdlm", 0.8, 0.9)))]
    page.write_text(f"before\n\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        write_readme(page, known)
        before, _, rest = page.read_text().partition(BEGIN)
        middle, _, after = rest.partition(END)
        assert (before, after) == ("before\n\n", "\nafter\n")
        assert "| Here | toy scale | valid words | 8 | +17.9% |" in middle
        assert "old" not in middle
    page.write_text("no place")
    with pytest.raises(UserError, match="no place for the table"):
        write_readme(page, known)
    assert page.read_text() == "no place"
