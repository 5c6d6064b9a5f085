"""The page of a trace in a real browser."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from candi.cli import main
from candi.data.corpus import Piece
from candi.data.tokenizer import Tokenizer
from candi.model.trace import PositionKind, TopTokens, TraceStep
from candi.views.trace import Panel, write_page
from tests.browser import DESKTOP, PHONE, browser, opened  # noqa: F401 - a fixture

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202egnp \u0000 & {{x}}"


@pytest.fixture(scope="module")
def text8(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "trace.html"
    main(
        ["trace", "text8", "--out", str(path), "--steps", "8", "--length", "64", "--prompt", "the ", "--device", "cpu"]
    )
    return path


def _steps(length: int, steps: int, size: int) -> list[TraceStep]:
    random = torch.Generator().manual_seed(0)
    found = []
    for step in range(steps + 1):
        kinds = torch.full((length,), int(PositionKind.NOISY))
        kinds[: length * step // steps] = PositionKind.CLEAN
        tokens = torch.randint(size, (length,), generator=random)
        top = torch.randint(size, (length, 5), generator=random)
        share = torch.tensor([0.5, 0.3, 0.1, 0.05, 0.05]).repeat(length, 1)
        predicted = None if step == steps else TopTokens(top, share, torch.ones(length), torch.arange(length) % size)
        found.append(TraceStep(step, steps, 1 - step / steps, 1.0, tokens, kinds, predicted))
    return found


def test_the_slider_moves_the_tokens(browser, text8):  # noqa: F811
    with opened(browser, text8) as page:
        text = page.locator(".text")
        first = text.inner_text()
        assert first.startswith("the ")
        assert page.locator(".text .k0").count() == 4
        noisy = page.locator(".text [class^=n]").count()
        assert noisy == 60
        slider = page.get_by_role("slider")
        slider.focus()
        for _ in range(8):
            page.keyboard.press("ArrowRight")
        assert page.locator("#progress").inner_text() == "step 8 of 8"
        assert page.locator(".text [class^=n]").count() == 0
        assert text.inner_text() != first
        page.keyboard.press("Home")
        assert text.inner_text() == first
        assert "noisy positions: 94%" in page.locator("figcaption").first.inner_text().lower()


def test_it_plays_and_pauses(browser, text8):  # noqa: F811
    with opened(browser, text8) as page:
        page.keyboard.press("Space")
        assert page.get_by_role("button").inner_text() == "Pause"
        page.get_by_role("button", name="Play").wait_for()
        assert page.get_by_role("slider").input_value() == "8"
        page.get_by_role("button").click()
        page.get_by_role("button").click()
        assert page.get_by_role("button").inner_text() == "Play"
        assert int(page.get_by_role("slider").input_value()) < 8


def test_a_position_tells_what_the_network_thinks(browser, text8):  # noqa: F811
    with opened(browser, text8) as page:
        page.locator(".text span").nth(10).click()
        detail = page.locator(".detail")
        assert "Position 11 of 64 is noisy" in detail.inner_text()
        assert "Noise level" in detail.inner_text()
        assert "of 26 other tokens look likelier" in detail.inner_text()
        assert page.locator(".bar").count() == 5
        page.locator(".text").focus()
        page.keyboard.press("ArrowRight")
        assert "Position 12 of 64" in detail.inner_text()
        page.keyboard.press("Home")
        assert "Position 1 of 64 is given" in detail.inner_text()
        assert page.locator(".text").get_attribute("aria-label")


def test_two_trajectories_side_by_side_and_hostile_tokens(browser, tmp_path):  # noqa: F811
    tokenizer = Tokenizer.characters([Piece(HOSTILE, True)])
    steps = _steps(40, 6, tokenizer.vocab_size)
    path = tmp_path / "two.html"
    write_page(path, [Panel("</script><b>one", HOSTILE, steps, tokenizer), Panel("two", "", steps[::2], tokenizer)])
    with opened(browser, path) as page:
        assert page.locator(".text").count() == 2
        assert page.locator("h2").first.inner_text() == "</script><b>one"
        assert page.locator("img").count() == 0
        page.get_by_role("slider").focus()
        page.keyboard.press("End")
        assert page.locator(".text [class^=n]").count() == 0, "the shorter one ends with the longer one"


def test_of_thousands_of_positions_only_those_that_change_are_touched(browser, tmp_path):  # noqa: F811
    """4,096 positions of which one changes in a step: one is drawn anew, and none when the step is shown again."""
    tokenizer = Tokenizer.characters([Piece("abcdefghij ", True)])
    first, *_ = _steps(4096, 1, tokenizer.vocab_size)
    tokens = first.tokens.clone()
    tokens[7] = (tokens[7] + 1) % tokenizer.vocab_size
    path = tmp_path / "long.html"
    write_page(path, [Panel("long", "", [first, replace(first, step=1, tokens=tokens)], tokenizer)])
    with opened(browser, path) as page:
        touched = page.evaluate(
            "() => { const seen = new MutationObserver(() => {}), counts = [];"
            " seen.observe(panels[0].text, {subtree: true, childList: true, attributes: true});"
            " for (const at of [1, 1, 0]) { slider.value = at; show();"
            " counts.push(new Set(seen.takeRecords().map((r) => r.target)).size); } return counts; }"
        )
        assert touched == [1, 0, 1]


def test_the_page_is_small(tmp_path):
    tokenizer = Tokenizer.characters([Piece("abcdefghij ", True)])
    path = tmp_path / "page.html"
    write_page(path, [Panel("a", "", _steps(256, 64, tokenizer.vocab_size), tokenizer)] * 2)
    assert path.stat().st_size < 2_000_000  # two trajectories of 256 tokens and 64 steps


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_nothing_is_wider_than_the_window(browser, text8, viewport):  # noqa: F811
    with opened(browser, text8, viewport) as page:
        for step in np.linspace(0, 8, 3).astype(int):
            page.evaluate(f"slider.value = {step}; show()")
            assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("trace text8 text8 text8", "Two trajectories fit side by side"),
        ("trace text8 --path early", "No run here has the sampling option 'path'"),
        ("trace text8 --alternatives 0", "--alternatives must be at least 1"),
        ("trace text8 --length 8 --out /dev/null/x.html", "cannot be written"),
        ("sample text8 --length 8 --frames /dev/null/x.svg", "cannot be written"),
        ("sample text8 --frames x.png", "as .svg or .gif"),
        ("sample text8 --frames x.svg --n 2", "leave out --n"),
    ],
)
def test_mistakes_are_told_in_a_sentence(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as exit:
        main([*arguments.split(), "--device", "cpu"])
    assert exit.value.code == 2
    assert complaint in capsys.readouterr().err
