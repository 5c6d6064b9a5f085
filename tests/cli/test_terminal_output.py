"""What is written to a terminal: text that it can hold, and no commands; and standard input, which - stands for."""

import json
import os
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from types import SimpleNamespace

import pytest
from rich.console import Console

from candi.base.terminal import visible, visible_json
from candi.cli import main
from candi.data.corpus import _standard_input
from candi.views.frames import Frame
from candi.views.terminal import styled
from tests.training.runs import train_here

pytestmark = pytest.mark.usefixtures("cache")
COMMANDS = "\x1b[2J\x07\r\x9b31m\x7f"


@pytest.fixture(scope="module")
def run(tmp_path_factory, cache):
    """A run whose text is of control characters for the better part."""
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "text.txt").write_text((COMMANDS + "é日\n\t") * 60, encoding="utf-8", newline="")
    train_here(folder / "run", data=folder / "text.txt", method="mdlm", steps=2)
    return folder / "run"


def _harmless(text: str) -> bool:
    return not any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 for c in text)


def test_control_characters_are_signs():
    assert visible("a\x1b[2J\nb\tc\x7f\x9b\r") == "a␛[2J\nb\tc␡\\x9b␍"
    assert visible("é日 ~") == "é日 ~"
    hidden = json.dumps({"text": COMMANDS}, ensure_ascii=False)
    assert _harmless(visible_json(hidden))
    assert json.loads(visible_json(hidden)) == {"text": COMMANDS}


def test_samples_send_no_commands(run, capsys):
    options = [str(run), "--n", "4", "--steps", "2", "--device", "cpu"]
    main(["sample", *options])
    shown = capsys.readouterr().out
    assert _harmless(shown)
    assert "␛" in shown
    main(["sample", *options, "--watch"])
    assert _harmless(capsys.readouterr().out)
    main(["sample", *options, "--json"])
    lines = capsys.readouterr().out
    assert _harmless(lines)
    assert any("\x1b" in json.loads(line)["text"] for line in lines.splitlines()), "JSON is exact"


def test_nor_does_the_live_view():
    console = Console(width=40, force_terminal=True, color_system=None, file=TextIOWrapper(BytesIO(), "utf-8"))
    with console.capture() as taken:
        console.print(styled(Frame(1, 1, list("a\x1b]0;b\x9bc"), [1] * 8, [0.0] * 8), 40))
    assert "a␛]0;b\\x9bc" in taken.get()


def test_a_mistake_sends_none_either(capsys, tmp_path):
    (tmp_path / "no\x1b[2Jrun").mkdir()
    with pytest.raises(SystemExit):
        main(["sample", str(tmp_path / "no\x1b[2Jrun")])
    shown = capsys.readouterr().err
    assert _harmless(shown)
    assert "no␛[2Jrun is neither" in shown


def test_an_encoding_that_cannot_hold_the_text_is_no_error(run):
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    sample = ["sample", str(run), "--n", "3", "--steps", "2", "--device", "cpu"]
    calls = [f"main({[*sample, *more]!r}); print('next')" for more in ([], ["--json"], ["--watch"])]
    code = "; ".join(["from candi.cli import main", *calls])
    done = subprocess.run([sys.executable, "-c", code], env=ascii_only, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert [b"\\u" in part for part in done.stdout.split(b"next")] == [True, True, True, False]


class _Piped(SimpleNamespace):
    """Standard input that has this to say."""

    def __init__(self, text: str, terminal: bool = False) -> None:
        super().__init__(buffer=BytesIO(text.encode()), isatty=lambda: terminal)


@pytest.fixture
def piped(monkeypatch):
    def pipe(text: str, terminal: bool = False) -> None:
        _standard_input.cache_clear()
        monkeypatch.setattr(sys, "stdin", _Piped(text, terminal))

    yield pipe
    _standard_input.cache_clear()


def test_a_dash_is_standard_input(run, tmp_path, piped, capsys):
    piped("é日\n日日\n")
    main(["sample", str(run), "--data", "-", "--steps", "2", "--json", "--device", "cpu"])
    assert [json.loads(line)["prompt"] for line in capsys.readouterr().out.splitlines()] == ["é日", "日日"]
    piped("é日" * 100)
    main(["evaluate", str(run), "--data", "-", "--times", "1", "--device", "cpu"])
    assert "bits per token" in capsys.readouterr().out
    piped("é日 " * 200)
    train_here(tmp_path / "run", data="-", steps=2)
    assert (tmp_path / "run" / "checkpoints").is_dir()


def test_a_terminal_that_is_waited_for_gets_a_word(run, piped, monkeypatch, capsys):
    piped("é日\n", terminal=True)
    main(["sample", str(run), "--data", "-", "--steps", "2", "--device", "cpu"])
    assert "Ctrl-D" in capsys.readouterr().err
    _standard_input.cache_clear()
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit):
        main(["sample", str(run), "--data", "-", "--steps", "2", "--device", "cpu"])
    assert "no standard input" in capsys.readouterr().err
