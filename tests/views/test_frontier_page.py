"""The report of a sweep in a real browser."""

import numpy as np
import pytest

from candi.evaluation.compare import compare
from candi.evaluation.samples import Samples
from candi.views.frontier import write_page
from tests.browser import DESKTOP, PHONE, browser, opened  # noqa: F401 - a fixture
from tests.evaluation.test_compare import AXES, simulated

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)></script> \u202egnp.exe \u0000 & &amp; {{x}} " + "w" * 10_000
)


def _name(point):
    return f"{point.cell.run} {point.cell.steps} {point.cell.temperature:g}"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    random = np.random.default_rng(0)
    points = simulated("good", lambda x: x - 0.2, random) + simulated("<b>bad</b>", lambda x: x, random)
    points += simulated("good", lambda x: x - 0.3, random, steps=16)
    samples = {
        point.key: Samples(point.provenance, [f"sample of {_name(point)}", HOSTILE, ""], [0.0], 1.0) for point in points
    }
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, compare(points, AXES, draws=50), samples)
    assert path.stat().st_size < 2_000_000
    return path


def test_a_click_shows_samples_provenance_and_neighbours(browser, page_file):  # noqa: F811
    with opened(browser, page_file) as page:
        points = page.locator("circle.point")
        assert points.count() == 10
        points.nth(0).click()
        detail = page.locator("#detail")
        assert "good, temperature 0.6" in detail.inner_text()
        assert "sample of good 8 0.6" in detail.inner_text()
        assert page.locator("#lower").is_disabled()
        page.locator("#higher").click()
        assert "temperature 0.7" in detail.locator("h2").inner_text()
        assert "sample of good 8 0.7" in detail.inner_text()
        assert page.evaluate("document.activeElement.id") == "higher", "the keyboard stays where it was"
        page.locator("summary").click()
        assert "checkpoint" in detail.inner_text()


def test_steps_runs_and_keyboard(browser, page_file):  # noqa: F811
    with opened(browser, page_file) as page:
        assert "good is ahead of <b>bad</b>" in page.locator("#verdicts").inner_text()
        page.get_by_role("button", name="<b>bad</b>", exact=True).click()
        assert page.locator("circle.point").count() == 5
        page.locator("label.pill", has_text="16").click()
        assert page.locator("circle.point").count() == 5
        assert "16 steps" in page.locator("#matched-title").inner_text()
        page.locator("circle.point").nth(4).focus()
        page.keyboard.press("Enter")
        assert "temperature 1" in page.locator("#detail h2").inner_text()


def test_hostile_text_is_shown_as_text(browser, page_file):  # noqa: F811
    with opened(browser, page_file) as page:
        page.locator("circle.point").nth(2).click()
        shown = page.locator(".sample").nth(1).inner_text()
        assert shown.startswith("<script>alert(1)</script><img src=x onerror=alert(2)></script>")
        assert page.locator("img").count() == 0
        assert page.locator(".sample").nth(2).inner_text() == "(empty)"


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_nothing_is_wider_than_the_window(browser, page_file, viewport):  # noqa: F811
    with opened(browser, page_file, viewport) as page:
        for index in range(5):
            page.locator("circle.point").nth(index).click()
            assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
