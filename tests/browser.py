"""A real browser for the tests of pages: Debian's Chromium."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    with sync_playwright() as playwright:
        # no sandbox: tests may run as root, and the pages are our own
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def opened(browser: Browser, path: Path, viewport: dict[str, int] = DESKTOP) -> Iterator[Page]:
    """A page from disk that may neither complain nor ask for anything outside of itself."""
    context = browser.new_context(viewport=viewport)
    page = context.new_page()
    complaints: list[str] = []
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: None if _own(request.url, path) else complaints.append(request.url))
    page.goto(path.as_uri())
    yield page
    assert not complaints
    context.close()


def _own(url: str, path: Path) -> bool:
    return url == path.as_uri() or url.startswith("data:")
