"""The page to play with, served on this machine and opened in a real browser."""

import gc
import http.client
import re
import shutil
import signal
import subprocess
import sys
import weakref
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from html import unescape
from threading import Event, Thread

import pytest
from playwright.sync_api import expect

from candi.base.errors import UserError
from candi.cli import main
from candi.demo import html
from candi.demo.app import Page
from candi.demo.model_store import ModelStore
from candi.demo.molecules import _make
from candi.demo.molecules import _shown as shown_molecules
from candi.demo.text import _OPTIONS, _write
from candi.demo.theory import _shown as shown_theory
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.identifiability import corruption
from candi.diffusion.methods import CANDI, METHODS
from candi.model.trace import PositionKind
from candi.views.frames import Frame
from tests.browser import DESKTOP, PHONE, browser  # noqa: F401 - a fixture
from tests.training.runs import train_here

pytestmark = pytest.mark.usefixtures("cache")
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> ${alert(3)} {{x}}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory, cache):
    """A run whose characters can spell markup, and one of another method."""
    folder = tmp_path_factory.mktemp("demo")
    text = folder / "text.txt"
    text.write_text((HOSTILE + " the cat sat on the mat ") * 40)
    for name, method in (("spells", "candi"), ("masked", "mdlm")):
        train_here(folder / name, data=text, method=method, steps=2)
    (folder / "some.smi").write_text("\n".join(["CCO", "CCC", "CCN", "CO", "C1CC1", "C1CO1"] * 30) + "\n")
    train_here(folder / "mols", data=folder / "some.smi", tokenizer="smiles", length=12, steps=2)
    flags = ["--label", "rings>=1", "--steps", "2", "--model.width", "16", "--model.blocks", "1", "--device", "cpu"]
    named = ["--data", str(folder / "some.smi"), "--out", str(folder / "rings")]
    main(["train-classifier", str(folder / "mols"), *named, *flags])
    return folder


@pytest.fixture(scope="module")
def store(runs):
    return ModelStore([str(runs / name) for name in ("spells", "masked")], device="cpu")


def _serve(*arguments):
    """The real command in a process of its own; it says where it is."""
    command = [sys.executable, "-m", "candi", "demo", *arguments, "--device", "cpu"]
    # whoever runs the tests in the background makes them ignore Ctrl-C, and their children too
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    address = next(found[0] for line in process.stderr if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
    return process, address


def _interrupt(process):
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0
    assert "Traceback" not in process.stderr.read()


@dataclass
class Server:
    """The command with runs of its own, started when it is needed and not running."""

    arguments: list[str]
    process: subprocess.Popen | None = None
    address: str = ""

    def start(self) -> str:
        if self.process is None:
            self.process, self.address = _serve(*self.arguments)
        return self.address

    def interrupt(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            _interrupt(process)


@pytest.fixture(scope="module")
def server(runs):
    found = Server([*(str(runs / name) for name in ("spells", "masked", "mols")), "--classifiers", str(runs / "rings")])
    yield found
    found.interrupt()


@pytest.fixture
def served(server):
    return server.start()


@contextmanager
def visited(browser, address, viewport=DESKTOP):  # noqa: F811
    """A visitor's page that may neither complain nor ask for anything outside of this machine."""
    context = browser.new_context(viewport=viewport)
    page = context.new_page()
    complaints = []
    page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
    own = re.compile(re.escape(address) + "|data:|blob:")
    page.on("request", lambda request: None if own.match(request.url) else complaints.append(request.url))
    page.goto(address)
    page.locator("#prompt textarea").wait_for()
    yield page
    assert not complaints
    context.close()


def _choose(page, name):
    page.get_by_label("Model").first.click()
    page.get_by_role("option", name=name).click()
    page.get_by_text("trained at length 16").wait_for()  # the other controls have followed


def _fill(control, value):
    control.fill(str(value))
    control.press("Enter")


def _written(page) -> str:
    """What was written, once all of it is."""
    page.locator("#trajectory").get_by_text("100% clean").wait_for()
    expect(page.locator("#result textarea")).not_to_have_value("")
    page.wait_for_timeout(300)  # a click before the last word is in counts for nothing
    return page.locator("#result textarea").input_value()


def test_a_sentence_comes_out_of_the_noise_and_a_template_is_filled(browser, served):  # noqa: F811
    with visited(browser, served) as page:
        page.locator("#prompt textarea").fill("the history of ")
        page.get_by_role("button", name="Write").click()
        text = _written(page)
        assert re.fullmatch(r"the history of [a-z ]{241}", text)
        assert page.locator("#trajectory .k0").inner_text() == "the history of "
        page.locator("#prompt textarea").fill("")
        page.locator("#template textarea").fill("the ____ of the ____")
        page.get_by_role("button", name="Write").click()
        expect(page.locator("#result textarea")).to_have_value(re.compile(r"^the .{4} of the .{4}$"))
        _written(page)


def test_hostile_text_is_shown_as_text(browser, served):  # noqa: F811
    with visited(browser, served) as page:
        _choose(page, "spells")
        page.locator("#prompt textarea").fill(HOSTILE[:14])  # the run's sequences have 16 tokens
        page.get_by_role("button", name="Write").click()
        assert _written(page).startswith(HOSTILE[:14])
        assert page.locator("#trajectory .k0").inner_text() == HOSTILE[:14]
        for text, complaint in (
            (HOSTILE, "tokens but the sequence only"),
            ("\u202ecat", "has no '\\u202e'"),
            ("a" * 10_000, "The prompt has 10000 tokens but the sequence only"),
        ):
            page.locator("#prompt textarea").fill(text)
            page.get_by_role("button", name="Write").click()
            page.locator("#trajectory").get_by_text(complaint).wait_for()
            page.wait_for_timeout(300)
        assert page.locator("#trajectory img, #trajectory script").count() == 0


def test_another_method_has_other_options(browser, served):  # noqa: F811
    with visited(browser, served) as page:
        assert page.get_by_label("Solver").is_visible()
        _choose(page, "masked")
        page.get_by_label("Order").wait_for()
        page.get_by_role("button", name="Write").click()
        page.locator("#trajectory").get_by_text("100% clean").wait_for()


def test_stopping_keeps_what_there_is_and_the_next_request_runs(browser, served):  # noqa: F811
    with visited(browser, served) as page:
        _fill(page.get_by_label("number input for Steps").first, 256)
        page.get_by_role("button", name="Write").click()
        page.locator("#trajectory").get_by_text(re.compile(r"step \d+ of 256")).wait_for()
        page.get_by_role("button", name="Stop").click()
        _fill(page.get_by_label("number input for Steps").first, 2)
        for _ in range(60):  # a click counts for nothing until the request before it is surely gone
            page.get_by_role("button", name="Write").click()
            page.wait_for_timeout(350)
            if page.locator("#trajectory").get_by_text("step 2 of 2").count():
                break
        else:
            pytest.fail("nothing is written after a stop")


def test_visitors_wait_for_each_other_and_a_phone_is_wide_enough(browser, served):  # noqa: F811
    with visited(browser, served) as one, visited(browser, served, PHONE) as two:
        for page in (one, two):
            _fill(page.get_by_label("number input for Steps").first, 4)
        for page in (one, two):
            page.get_by_role("button", name="Write").click()
        for page in (one, two):
            page.locator("#trajectory").get_by_text("100% clean").wait_for()
        assert two.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_the_theory_moves(browser, served):  # noqa: F811
    with visited(browser, served) as page:
        page.get_by_role("tab", name="Theory").click()
        shown = page.locator("#theory")
        shown.get_by_text("V = 32").wait_for()
        _fill(page.get_by_label("number input for Vocabulary size, as a power of two"), 16)
        shown.get_by_text("V = 65,536").wait_for()
        assert f"ρ = {float(corruption(0.5, 65_536)):.3f}" in shown.inner_text()


def test_molecules_are_made_drawn_and_sifted(browser, served):  # noqa: F811
    with visited(browser, served) as page:
        page.get_by_role("tab", name="Molecules").click()
        page.get_by_label("Property", exact=True).click()
        page.get_by_role("option", name="rings").click()
        for control in ("Steps", "Samples"):
            _fill(page.get_by_label(f"number input for {control}").last, 16)
        page.get_by_role("button", name="Make molecules").click()
        shown = page.locator("#molecules")
        shown.locator("figure").first.wait_for()
        made = shown.locator("figure").count()
        assert made > 1
        assert shown.locator("figure img").count() == made
        assert "of 16 samples are molecules" in shown.inner_text()
        _fill(page.get_by_label("number input for Show from this much"), 1)
        expect(shown.locator("figcaption", has_text="rings 0.000")).to_have_count(0)
        assert 0 < shown.locator("figure").count() < made


def test_a_store_is_closed_after_the_step_that_is_under_way():
    store = ModelStore(device="cpu")
    begun, go_on, closed, made = Event(), Event(), Event(), []

    def states():
        yield 1
        begun.set()
        go_on.wait(timeout=30)
        yield 2

    def sample():
        with suppress(UserError):  # the third is refused
            for state in store.one_by_one(states()):
                made.append(state)

    sampling, closing = Thread(target=sample), Thread(target=lambda: (store.close(), closed.set()))
    sampling.start()
    assert begun.wait(timeout=30)
    closing.start()
    closing.join(timeout=0.2)
    assert not closed.is_set()  # it waits for the second step
    go_on.set()
    closing.join(timeout=30)
    sampling.join(timeout=30)
    assert made == [1, 2]
    with pytest.raises(UserError, match="closed"):
        next(store.one_by_one(iter([1])))


def test_ctrl_c_ends_it_in_the_middle_of_a_trajectory_with_the_page_open(browser, server):  # noqa: F811
    """The last that needs the server: whatever comes after it would start another one."""
    page = browser.new_page()
    page.goto(server.start())
    page.get_by_role("tab", name="Molecules").click()
    _fill(page.get_by_label("number input for Steps").last, 256)
    page.get_by_role("button", name="Make molecules").click()
    page.locator("#molecules").get_by_text(re.compile(r"step \d+ of 256")).wait_for()
    server.interrupt()
    page.close()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"name": "../../etc/passwd"}, "no such model"),
        ({"name": None}, "no such model"),
        ({"steps": 10**6}, "between 1 and 256"),
        ({"steps": "16; rm -rf"}, "between 1 and 256"),
        ({"steps": 2.5}, "whole number"),
        ({"temperature": float("nan")}, "temperature must be between"),
        ({"length": 10**9}, "between 1 and 1024"),
        ({"seed": -1}, "seed must be between"),
        ({"template": "_" * 5000}, "more than 1024 tokens"),
        ({"template": "_" * 10**6}, "At most 20,000 characters"),
        ({"prompt": "a" * 10**6}, "At most 20,000 characters"),
        ({"prompt": "a", "template": "c_"}, "not both"),
    ],
)
def test_whatever_a_visitor_sends_is_checked_here(store, change, complaint):
    """Not in the browser alone: anybody can send anything."""
    values = {"name": "spells", "prompt": "", "template": "", "steps": 2, "temperature": 1.0, "length": 16, "seed": 0}
    *_, (shown, text) = _write(store, *(values | change).values())
    assert 'role="alert"' in shown
    assert complaint in shown
    assert text == ""


def test_pieces_of_a_state_are_escaped():
    frame = Frame(0, 1, ["<b>", "$", "{", "\n", "&"], [PositionKind.NOISY] * 5, [0.9] * 5)
    shown = html.trajectory(frame)
    assert "<b>" not in shown
    assert "&lt;b&gt;&#36;&#123;↵&amp;" in shown


def test_the_page_answers_to_its_own_names_alone(served):
    """A page from elsewhere whose name leads here asks by that name."""
    port = int(served.rpartition(":")[2])
    for host, known in (
        (f"127.0.0.1:{port}", True), (f"localhost:{port}", True), ("LOCALHOST", True), (f"[::1]:{port}", True),
        ("evil.example", False), (f"evil.example:{port}", False), ("127.0.0.1.evil.example", False), ("", False),
        ("[", False), ("localhost@evil.example", False),
    ):  # fmt: skip
        for path in ("/", "/config", "/gradio_api/info", "/theme.css"):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", path, headers={"Host": host})
            answer = connection.getresponse()
            body = answer.read()
            assert (answer.status == 421) == (not known), (host, path)
            assert known or body.startswith(b"This page answers to localhost")
            connection.close()


def test_closing_the_page_frees_the_models(tmp_path):
    store = ModelStore(device="cpu")
    held = weakref.ref(store.model("text8"))
    page = Page(store)
    page.close()
    del page
    gc.collect()
    assert held() is None


def test_theory_and_molecules_refuse_nonsense(store):
    assert 'role="alert"' in shown_theory("x", 0.5)
    assert 'role="alert"' in shown_theory(99, 0.5)
    assert shown_molecules([], 0) == ""
    assert "None of the 8 samples" in shown_molecules([8, 0.0, [], "qed"], 0)
    *_, (told, _) = _make(store, "nothing", "nobody", "more", 1, "qed", 4, 1.0, 4, 0, 0)
    assert "no such model" in told


def test_classifiers_of_one_rule_are_told_apart(runs, tmp_path):
    again = shutil.copytree(runs / "rings", tmp_path / "again")
    store = ModelStore([str(runs / "mols")], [str(runs / "rings"), str(again)], device="cpu")
    assert [one.label for one in store.classifiers_of("mols")] == ["rings>=1 (rings)", "rings>=1 (again)"]
    alone = ModelStore([str(runs / "mols")], [str(again)], device="cpu")
    assert [one.label for one in alone.classifiers_of("mols")] == ["rings>=1"]


def test_the_text_of_a_page_is_what_the_model_wrote(runs, tmp_path):
    """Byte-level tokens are parts of characters: put together one by one they would be none."""
    (tmp_path / "text.txt").write_text("é — ü " * 200)
    train_here(tmp_path / "bytes", data=tmp_path / "text.txt", tokenizer="bpe:257", steps=2)
    store = ModelStore([str(tmp_path / "bytes")], device="cpu")
    *_, (_, text) = _write(store, "bytes", "é", "", 2, 1.0, 16, 0)
    assert text == store.model("bytes").generate(prompt="é", steps=2, temperature=1.0, length=16, seed=0)[0]
    assert text.startswith("é")


def test_a_text_in_blocks_grows_from_left_to_right(tmp_path):
    """Longer than in training; nothing of a later block is shown before the earlier ones are done."""
    train_here(tmp_path / "blocks", method="mdlm", block=4, steps=2, validate_every=0)
    store = ModelStore([str(tmp_path / "blocks")], device="cpu")
    *states, (_, text) = _write(store, "blocks", "", "", 2, 1.0, 40, 0)
    assert len(states) == 10 * 2 + 1
    assert text == store.model("blocks").generate(1, steps=2, length=40, seed=0)[0]
    for number, (shown, _) in enumerate(states[:-1]):
        letters = unescape(re.sub(r"<[^>]*>", "", shown.partition("</p>")[2]))
        open_until = 4 * (number // 2 + 1)
        assert set(letters[open_until:]) <= {"·"}
        assert "·" not in letters[: open_until - 4]


def test_molecules_are_drawn_from_a_share_of_the_range_on():
    pytest.importorskip("rdkit")
    made = [4, 0.75, [["CCO", 0.4], ["c1ccccc1", 0.44], ["CC", 0.3]], "qed"]
    whole, best = shown_molecules(made, 0), shown_molecules(made, 0.9)
    assert whole.count("<figure>") == 3
    assert best.count("<figure>") == 1
    assert "c1ccccc1" in best
    assert "75% of 4 samples are molecules, 3 different ones" in best


def test_a_run_that_is_none_is_refused_before_the_page_opens(capsys, tmp_path):
    with pytest.raises(SystemExit) as exit:
        main(["demo", str(tmp_path / "nothing")])
    assert exit.value.code == 2
    assert "There is no run or checkpoint" in capsys.readouterr().err
    with pytest.raises(UserError):
        ModelStore(device="cpu").model("nothing")


def test_every_option_of_every_method_has_its_drop_down():
    assert max(len(settings().build(TokenEmbedding(4, 2)).options) for settings in METHODS.values()) <= _OPTIONS
    assert len(CANDI.options) <= _OPTIONS  # of a model whose masking and noise are independent
