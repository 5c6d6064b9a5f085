"""Moving pictures of a trajectory."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
from PIL import Image

from candi.cli import main
from candi.model.trace import PositionKind
from candi.views.animation import svg, write_animation
from candi.views.frames import Frame
from tests.browser import browser, opened  # noqa: F401 - a fixture

FRAMES = [
    Frame(
        0, 2, list("ab<&\x00\u202e"), [PositionKind.GIVEN, *[PositionKind.NOISY] * 5], [0.0, 0.1, 0.5, 0.9, 0.1, 0.1]
    ),
    Frame(1, 2, list("ab<& o"), [PositionKind.GIVEN, PositionKind.REVEALED, *[PositionKind.NOISY] * 4], [0.0] * 6),
    Frame(2, 2, list("ab<&\no"), [PositionKind.GIVEN, PositionKind.CLEAN, *[PositionKind.REVEALED] * 4], [0.0] * 6),
]


def test_an_svg_holds_every_frame_in_its_turn():
    tree = ElementTree.fromstring(svg(FRAMES, 10))
    groups = [child for child in tree if child.tag.endswith("}g")]
    assert len(groups) == 3
    texts = ["".join(node.text for node in group.iter() if node.tag.endswith("}text")) for group in groups]
    assert [re.match(r"step (\d)/2", text)[1] for text in texts] == ["0", "1", "2"]
    assert texts[0].endswith("ab<&\ufffd\u202e")
    delays = [float(re.search(r"animation-delay:([\d.]+)s", group.get("style"))[1]) for group in groups]
    assert delays == [0, 0.25, 0.5]


def test_a_browser_shows_one_frame_at_a_time(browser, tmp_path):  # noqa: F811
    write_animation(tmp_path / "a.svg", FRAMES, 10)
    with opened(browser, tmp_path / "a.svg") as page:
        shown = page.evaluate(
            "[100, 300, 600, 2900].map(time => { for (const a of document.getAnimations()) { a.pause();"
            " a.currentTime = time; } return [...document.querySelectorAll('g')].map("
            "g => getComputedStyle(g).visibility === 'visible').indexOf(true); })"
        )
        assert shown == [0, 1, 2, 2]  # the last frame stays for seconds


def test_a_gif_has_every_frame(tmp_path):
    write_animation(tmp_path / "a.gif", FRAMES, 10)
    with Image.open(tmp_path / "a.gif") as image:
        assert image.n_frames == 3
        assert image.info["duration"] == 250


@pytest.mark.parametrize("ending", ["svg", "gif"])
def test_the_command_saves_one(tmp_path, ending, capsys):
    path = tmp_path / f"a.{ending}"
    main(["sample", "text8", "--length", "24", "--steps", "3", "--frames", str(path), "--device", "cpu"])
    assert path.stat().st_size > 1000
    assert capsys.readouterr().out == ""
