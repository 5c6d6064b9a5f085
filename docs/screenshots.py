"""Take the pictures of pages that the documents show: python docs/screenshots.py (needs Chromium, candi[dev])."""

import re
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Page as Tab
from playwright.sync_api import sync_playwright

from candi.cli import main
from candi.demo.app import Page
from candi.demo.model_store import ModelStore

FOLDER = Path(__file__).parent / "screenshots"
SAMPLE = ["text8", "--prompt", "the history of ", "--seed", "5", "--device", "cpu"]


def trace(tab: Tab, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "trace.html"
        main(["trace", *SAMPLE, "--steps", "64", "--out", str(page)])
        tab.goto(page.as_uri())
        tab.get_by_role("slider").fill("35")
        tab.locator(".text span").nth(16).click()
        tab.screenshot(path=FOLDER / name)


def molecules(tab: Tab) -> None:
    with tempfile.TemporaryDirectory() as folder:
        main(["guide", "qm9", "--classifier", "qed", "--weight", "5", "--device", "cpu", "--out", folder])
        tab.goto((Path(folder) / "molecules.html").as_uri())
        tab.screenshot(path=FOLDER / "molecules.png")


def demo(tab: Tab) -> None:
    page = Page(ModelStore(device="cpu"))
    tab.goto(page.address)
    tab.locator("#prompt textarea").fill("the history of ")
    tab.get_by_label("number input for Steps").first.fill("64")
    tab.keyboard.press("Enter")
    tab.get_by_role("button", name="Write").click()
    tab.locator("#trajectory").get_by_text(re.compile(r"step [345]\d of 64")).wait_for()  # somewhere in the middle
    tab.screenshot(path=FOLDER / "demo-text.png")
    tab.locator("#trajectory").get_by_text("100% clean").wait_for()
    tab.get_by_role("tab", name="Theory").click()
    tab.locator("#theory img").wait_for()
    tab.screenshot(path=FOLDER / "demo-theory.png")
    page.close()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    main(["sample", *SAMPLE, "--frames", str(FOLDER.parent / "walk.svg")])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        size = {"width": 1120, "height": 720}
        trace(browser.new_page(viewport=size), "trace.png")
        molecules(browser.new_page(viewport=size))
        demo(browser.new_page(viewport=size))
        browser.close()
