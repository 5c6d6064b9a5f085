"""Who is recommended at which number of steps, from intervals alone."""

import math
from dataclasses import replace

import pytest

from candi import plots
from candi.errors import UserError
from candi.evaluation.compare import Axes, Comparison, Curve, Group, Pair
from candi.evaluation.pareto import Dominance
from candi.reproduce.advice import BEGIN, END, advised, choices, into
from candi.reproduce.declared import Advice, Grid, Overview
from candi.reproduce.experiment import Experiment, read

WORDS = Axes("unique_words", "valid_words")  # cost is 1 / valid words
NAMES = {"a": "Alpha", "b": "beta", "c": "gamma", "ar": "one by one"}


def _pair(second: str, low: float, high: float, first: str = "a") -> Pair:
    middle = math.sqrt(low * high)
    ahead, behind = float(high < 1), float(low > 1)
    return Pair(first, second, Dominance(0.1, 0.9, ahead, ahead, behind, middle, low, high, math.log(middle)))


def _experiment(axes: Axes) -> Experiment:
    grid = Grid("words", runs=list(NAMES), property="qed" if axes.quality == "property" else None)
    return replace(read("text8", "toy"), axes=axes, grids={"s": grid}, advice=[Advice("Here", "s", NAMES)])


def _advice(*groups: Group, axes: Axes = WORDS) -> list[str]:
    return list(advised(_experiment(axes), {"s": Comparison(axes, groups, [])}))


def test_the_first_where_it_is_ahead_and_both_where_they_are_level():
    (told,) = _advice(
        Group(8, [], [_pair("b", 0.80, 0.90), _pair("c", 0.5, 0.6)], None),
        Group(16, [], [_pair("b", 0.85, 0.95), _pair("c", 0.5, 0.6)], None),
        Group(32, [], [_pair("b", 0.95, 1.05), _pair("c", 0.5, 0.6)], None),
        Group(64, [], [_pair("b", 1.10, 1.20), _pair("c", 0.5, 0.6)], None),
    )
    head = "**Here: Alpha at 8 and 16 steps; Alpha or beta at 32 steps; beta at 64 steps** (toy scale)."
    assert told.splitlines()[0] == head
    assert "| valid words of Alpha against | 8 steps | 16 steps | 32 steps | 64 steps |" in told
    assert "| beta | +17.9% | +11.3% | level (+0.1%) | -13.0% |" in told
    assert "| gamma | +82.6% |" in told
    assert "one by one" not in told  # of which there are no points


def test_curves_that_cross_are_told_to_do_so_and_neither_is_left_out():
    mean = (0.85, 0.8, 0.9, math.log(0.85))
    (told,) = _advice(Group(8, [], [Pair("a", "b", Dominance(0.1, 0.9, 0.7, 0.6, 0.3, *mean))], None))
    assert told.startswith("**Here: Alpha or beta at 8 steps** (")
    assert "| beta | crosses (+17.6%) |" in told


def test_of_two_that_are_ahead_of_the_first_only_the_better_one_is_recommended():
    both = [_pair("b", 1.1, 1.2), _pair("c", 1.3, 1.4)]
    assert _advice(Group(8, [], [*both, _pair("c", 1.1, 1.2, first="b")], None))[0].startswith("**Here: gamma at 8")
    assert _advice(Group(8, [], [*both, _pair("c", 0.9, 1.2, first="b")], None))[0].startswith(
        "**Here: beta or gamma at 8"
    )


def test_who_was_not_measured_at_a_number_of_steps_is_not_recommended_there():
    told = _advice(
        Group(8, [], [_pair("b", 0.8, 0.9), _pair("c", 0.8, 0.9), _pair("c", 0.9, 1.1, first="b")], None),
        Group(16, [], [_pair("b", 1.1, 1.2)], None),
        Group(32, [], [], None),
    )[0]
    assert told.startswith("**Here: Alpha at 8 steps; beta at 16 steps** (")
    circle = [_pair("b", 0.8, 0.9), _pair("c", 1.1, 1.2), _pair("c", 0.8, 0.9, first="b")]
    assert _advice(Group(8, [], circle, None))[0].startswith("**Here: Alpha or beta or gamma at 8 steps** (")


def test_one_that_decides_its_own_steps_is_recommended_where_they_are_no_matter():
    fixed = Curve("ar", 256, True, [], WORDS)
    ahead = _advice(Group(8, [fixed], [_pair("b", 0.8, 0.9), _pair("ar", 1.1, 1.2)], None))[0]
    assert ahead.startswith("**Here: Alpha at 8 steps; one by one where 256 steps are no matter** (")
    behind = _advice(Group(8, [fixed], [_pair("b", 0.8, 0.9), _pair("ar", 0.7, 0.8)], None))[0]
    assert behind.startswith("**Here: Alpha at 8 steps** (")
    assert "| one by one | +33.6% |" in behind


def test_properties_are_told_by_their_differences_and_who_is_out_of_reach_without_a_number():
    axes = Axes("unique_molecules", "property")  # cost is exp(-property)
    far = Pair("a", "c", None, "a")
    (told,) = _advice(Group(16, [], [_pair("b", math.exp(-0.02), math.exp(-0.01)), far], None), axes=axes)
    assert "| qed of Alpha against | 16 steps |" in told
    assert "| beta | +0.015 |" in told
    assert "| gamma | ahead |" in told


def test_a_figure_shows_by_how_much_the_first_is_better():
    pair = _pair("b", 0.8, 0.9)
    far = Pair("a", "c", None, "a")  # ahead, nobody knows by how much
    gains = {}
    for quality, unit in (
        ("valid_words", "more valid words by Alpha, %"),
        ("perplexity", "less perplexity by Alpha, %"),
        ("property", "more qed by Alpha"),
    ):
        axes = Axes("unique_words", quality)
        experiment, found = _experiment(axes), {"s": Comparison(axes, [Group(8, [], [pair, far], None)], [])}
        (one,) = choices(experiment, found)
        assert (one.where, one.gain, one.ratios) == ("Here, toy scale", unit, False)
        assert list(one.others) == ["b"]
        (gain,) = one.others["b"]
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
    pairs = [_pair("b", 4.0, 6.25), _pair("c", 0.16, 0.25)]
    for quality, gain, better in (
        ("perplexity", "their perplexity / that of Alpha", [0.2, 5]),
        ("valid_words", "valid words of Alpha / theirs", [0.2, 5]),
    ):
        axes = Axes("unique_words", quality)
        found = {"s": Comparison(axes, [Group(8, [], pairs, None)], [])}
        (one,) = choices(_experiment(axes), found)
        assert (one.gain, one.ratios) == (gain, True)
        assert [some[0].value for some in one.others.values()] == pytest.approx(better)
        assert all(some[0].low < some[0].value < some[0].high for some in one.others.values())
        panel = plots.choices([one]).axes[0]
        assert panel.get_xscale() == "log"
        assert panel.get_lines()[0].get_xdata()[0] == 1  # no difference
        (told,) = advised(_experiment(axes), found)
        times = {"perplexity": ("5.00", "0.20"), "valid_words": ("0.20", "5.00")}[quality]
        assert f"| beta | {times[0]} times |" in told
        assert f"| gamma | {times[1]} times |" in told


def test_differences_are_never_told_as_ratios_however_large():
    axes = Axes("unique_molecules", "property")
    pair = _pair("b", math.exp(-3.1), math.exp(-2.9))
    (one,) = choices(_experiment(axes), {"s": Comparison(axes, [Group(8, [], [pair], None)], [])})
    assert not one.ratios
    assert one.others["b"][0].value == pytest.approx(3.0)


def test_the_same_methods_in_several_places_share_a_table_that_says_whom_to_take():
    places = [Advice("There", "s", {"a": "Alpha", "b": "beta"}), Advice("Yonder", "t", {"c": "Alpha", "ar": "beta"})]
    places += [Advice("Beyond", "u", {"x": "Alpha", "y": "beta"}), Advice("Nowhere", "v", {"x": "Alpha", "y": "beta"})]
    experiment = _experiment(WORDS)
    grids = dict.fromkeys("stuv", experiment.grids["s"])
    experiment = replace(experiment, advice=[places[0], Advice("Here", "s", NAMES), *places[1:]], grids=grids)
    steps = (8, 16, 32)
    here = [
        Group(n, [], [_pair("b", *ends)], None) for n, ends in zip(steps, [(0.8, 0.9), (0.95, 1.05)] * 2, strict=False)
    ]
    there = [Group(8, [], [_pair("ar", 1.1, 1.2, first="c")], None)]
    beyond = [Group(n, [], [_pair("y", 1.1, 1.2, first="x")], None) for n in steps]
    found = {name: Comparison(WORDS, groups, []) for name, groups in {"s": here, "t": there, "u": beyond}.items()}
    together, alone = advised(experiment, found)
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
    fixed = Curve("ar", 256, True, [], WORDS)
    groups = [Group(8, [fixed], [_pair("ar", 1.1, 1.2)], None)]
    two = [Advice(where, "s", {"a": "Alpha", "ar": "one by one"}) for where in ("Here", "There")]
    (told,) = advised(replace(_experiment(WORDS), advice=two), {"s": Comparison(WORDS, groups, [])})
    assert "| Here | -13.0% | Alpha at 8 steps; one by one where 256 steps are no matter |" in told


def test_places_of_different_qualities_share_no_table():
    axes = Axes("unique_molecules", "property")
    experiment = _experiment(axes)
    grids = {"s": experiment.grids["s"], "t": replace(experiment.grids["s"], property="rings")}
    two = [Advice("Here", sweep, {"a": "Alpha", "b": "beta"}) for sweep in grids]
    found = {sweep: Comparison(axes, [Group(8, [], [_pair("b", 0.8, 0.9)], None)], []) for sweep in grids}
    told = list(advised(replace(experiment, advice=two, grids=grids), found))
    assert ["| qed of Alpha" in one for one in told] == [True, False]
    assert "| rings of Alpha against | 8 steps |" in told[1]


def test_it_is_said_where_less_is_better():
    axes = Axes("word_entropy", "perplexity", per="character")
    (told,) = _advice(Group(8, [], [_pair("b", 0.8, 0.9)], None), axes=axes)
    assert "| perplexity per character (less is better) of Alpha against | 8 steps |" in told


def test_nothing_is_said_of_what_was_not_measured():
    assert _advice(Group(8, [], [], None)) == []


def test_the_rest_of_the_page_stays_as_it_is(tmp_path):
    page = tmp_path / "README.md"
    page.write_text(f"before\n\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        into(page, ["- one", "- two"])
        assert page.read_text() == f"before\n\n{BEGIN}\n\n- one\n\n- two\n\n{END}\nafter\n"
    page.write_text("no place")
    with pytest.raises(UserError, match="no place for advice"):
        into(page, ["- one"])
    assert page.read_text() == "no place"
