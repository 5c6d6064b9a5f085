"""Tokenizers whose regular expressions nobody here knows work in a process of their own, which is stopped in time.

An expression can be written so that a line of text keeps it busy for years; nothing in this process could stop it.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from threading import Lock, Timer
from typing import Any

from tokenizers import Tokenizer

from candi.base.errors import UserError
from candi.data.vocabularies import SMILES

SECONDS, CHARACTERS = 20.0, 50_000  # what a call may take, and how many characters more it reads in a second

# those of GPT-2, GPT-4 and Llama 3, Qwen, and ours: they read any text in one pass
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_KNOWN = frozenset({
    r"[\s\S]", SMILES, r"\s+", " {2,}",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|{_WORDS}|\p{{N}}{{1,3}}|{_REST}",
    rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|{_WORDS}|\p{{N}}|{_REST}",
})  # fmt: skip

_WORKER = """
import json, sys
from tokenizers import Tokenizer
made = Tokenizer.from_str(json.loads(sys.stdin.readline()))
calls = {
    "encode": lambda texts: [one.ids for one in made.encode_batch_fast(texts, add_special_tokens=False)],
    "split": lambda text: [part for part, _ in made.pre_tokenizer.pre_tokenize_str(text)],
    "decode": lambda ids: made.decode(ids, skip_special_tokens=True),
}
for line in sys.stdin:
    name, given = json.loads(line)
    print(json.dumps(calls[name](given)), flush=True)
"""


def guard_for(backend: Tokenizer) -> "Guard | None":
    """None for a tokenizer whose expressions are known to end."""
    parts = (backend.normalizer, backend.pre_tokenizer, backend.decoder)
    found = {text for part in parts if part is not None for text in _expressions(json.loads(part.__getstate__()))}
    return Guard(backend.to_str()) if found - _KNOWN else None


def _expressions(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["Regex"]] if isinstance(value.get("Regex"), str) else []
        return own + [text for inner in value.values() for text in _expressions(inner)]
    return [text for inner in value for text in _expressions(inner)] if isinstance(value, list) else []


class Guard:
    """The work of a tokenizer, in a process that is started when it is needed and ended when it takes too long."""

    def __init__(self, made: str) -> None:
        self._made, self._lock = made, Lock()
        self._process: subprocess.Popen[str] | None = None

    def __reduce__(self) -> tuple[type["Guard"], tuple[str]]:  # another process starts one of its own
        return Guard, (self._made,)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return list(self._ask("encode", list(texts), sum(map(len, texts))))

    def split(self, text: str) -> list[str]:
        return list(self._ask("split", text, len(text)))

    def decode(self, ids: Sequence[Any]) -> str:
        return str(self._ask("decode", [int(i) for i in ids], len(ids)))

    def _ask(self, name: str, given: object, size: int) -> Any:
        with self._lock:
            process = self._process or self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            timer = Timer(SECONDS + size / CHARACTERS, process.kill)
            timer.start()
            try:
                print(json.dumps([name, given]), file=process.stdin, flush=True)
                answer = process.stdout.readline()
            except OSError:  # it has ended
                answer = ""
            finally:
                timer.cancel()
            if not answer:
                process.kill()
                process.wait()
                self._process = None
                raise UserError(
                    "The tokenizer cannot read a text: a regular expression in its file takes too long or fails; use "
                    "another tokenizer."
                )
            return json.loads(answer)

    def _started(self) -> subprocess.Popen[str]:
        # -P: a file called tokenizers.py in this folder is not what is wanted
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, encoding="utf-8",
        )  # fmt: skip
        assert self._process.stdin is not None
        print(json.dumps(self._made), file=self._process.stdin, flush=True)
        return self._process
