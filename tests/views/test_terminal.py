import io

import pytest
from rich.console import Console

import candi
from candi.model.trace import PositionKind
from candi.views.frames import Frame, frames
from candi.views.terminal import styled, watch
from tests.training.runs import train_here

pytestmark = pytest.mark.usefixtures("cache")
OPTIONS = {"steps": 4, "prompt": "ab", "length": 12, "seed": 0}


@pytest.fixture(scope="module")
def model(tmp_path_factory, cache) -> candi.Model:
    out = tmp_path_factory.mktemp("watch") / "run"
    train_here(out, steps=10)
    return candi.load(out)


def test_positions_are_told_apart(model):
    seen = list(frames(model, OPTIONS, 0))
    assert len(seen) == 5
    assert all(frame.kinds[:2] == [PositionKind.GIVEN, PositionKind.GIVEN] for frame in seen)
    assert seen[0].kinds[2:] == [PositionKind.NOISY] * 10
    assert PositionKind.NOISY not in seen[-1].kinds
    for earlier, later in zip(seen[:-1], seen[1:], strict=True):
        for before, now in zip(earlier.kinds, later.kinds, strict=True):
            allowed = {
                PositionKind.GIVEN: {PositionKind.GIVEN},
                PositionKind.CLEAN: {PositionKind.CLEAN},
                PositionKind.REVEALED: {PositionKind.CLEAN},
                PositionKind.NOISY: {PositionKind.NOISY, PositionKind.REVEALED},
            }
            assert now in allowed[PositionKind(before)]
    assert "".join(seen[-1].pieces) == model.generate(**OPTIONS)[0]


@pytest.mark.parametrize("width", [30, 200])
def test_a_terminal_of_any_width_shows_colours(model, width, monkeypatch):
    monkeypatch.setattr("candi.views.terminal._PAUSE", 0.0)  # nobody looks
    screen = io.StringIO()
    watch(model, 1, OPTIONS, Console(file=screen, force_terminal=True, width=width, color_system="standard"))
    shown = screen.getvalue()
    assert "step   4/4" in shown
    assert "\x1b[1;30;42m" in shown  # just revealed: black on green
    assert "\x1b[35m" in shown  # noisy: magenta


def test_long_text_breaks_at_the_edge():
    """Characters, not words: positions stay where they are while the noise around them clears."""
    frame = Frame(0, 4, list("abc defgh ij\nkl日本mn"), [PositionKind.CLEAN] * 19, [0.0] * 19)
    screen = io.StringIO()
    Console(file=screen, width=6).print(styled(frame, 6))
    assert [line.rstrip() for line in screen.getvalue().splitlines()[-5:-1]] == ["abc de", "fgh ij", "kl日本", "mn"]


def test_a_pipe_gets_plain_text(model, capsys):
    watch(model, 1, OPTIONS)
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert shown.startswith("step 0/4, 17% clean\nab")
    assert "step 4/4, 100% clean" in shown


def test_masked_positions_are_dots_and_a_token_at_a_time_is_counted(tmp_path):
    for method, steps in (("mdlm", 3), ("ar", 8)):
        train_here(tmp_path / method, steps=2, method=method)
        model = candi.load(tmp_path / method)
        seen = list(frames(model, {"steps": 3, "length": 8, "seed": 0}, 0))
        assert seen[0].pieces == ["·"] * 8
        assert (seen[-1].step, seen[-1].steps) == (steps, steps)
