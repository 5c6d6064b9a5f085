"""Runs of tests in forks of this process, which has imported everything: no time is lost on imports."""

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from inspect import isgeneratorfunction
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from beartype._cache.cacheclear import clear_caches

from tests.mutants.changes import Mutant


class Watch:
    """A plugin: which functions of the library each test calls, how long it takes, and which test failed first."""

    def __init__(self, calls: bool) -> None:
        self.calls, self.prefix = calls, f"{Path.cwd()}/src/candi/"
        self.seen: dict[str, tuple[float, list[str]]] = {}
        self.failed: str | None = None

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        found: set[Any] = set()
        began = time.perf_counter()
        if self.calls:
            sys.setprofile(lambda frame, event, _: found.add(frame.f_code))
        yield
        sys.setprofile(None)
        ours = (code for code in found if code.co_filename.startswith(self.prefix))
        names = {f"{c.co_filename.removeprefix(self.prefix)}:{c.co_qualname.split('.<locals>.<')[0]}" for c in ours}
        self.seen[item.nodeid] = time.perf_counter() - began, sorted(names)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid


def outcome(tests: list[str], *flags: str, calls: bool = False) -> dict[str, Any]:
    watch = Watch(calls)
    if "candi" in sys.modules:  # with its run-time checks of types, which pytest would set up
        flags = (*flags, "-o", "addopts=")
    code = pytest.main([*tests, "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *flags], [watch])
    return {"code": int(code), "failed": watch.failed, "seen": watch.seen}


def forked(work: Callable[[], dict[str, Any]], limit: float) -> dict[str, Any] | None:
    """What `work` returns, in a fork; None if it does not end in time or dies, and `log.txt` says why."""
    answer = Path("answer.json")
    answer.unlink(missing_ok=True)
    if not (child := os.fork()):
        with open("log.txt", "w") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        try:
            answer.write_text(json.dumps(work()))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    end = time.monotonic() + limit
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return None
        time.sleep(0.02)
    return json.loads(answer.read_text()) if answer.exists() else None


def forget() -> None:
    """The next import of library and tests reads the files again, and no check of types knows the old classes."""
    clear_caches()
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "candi")]:
        del sys.modules[name]


def _functions(thing: Any, module: str) -> Iterator[tuple[str, Any]]:
    """Of a module or a class, by qualified name and without what wraps them."""
    for value in list(vars(thing).values()):
        if isinstance(value, type) and value.__module__ == module:
            yield from _functions(value, module)
        value = getattr(value, "__func__", getattr(value, "fget", value))
        while hasattr(value, "__wrapped__"):
            value = value.__wrapped__
        if isinstance(value, FunctionType) and value.__module__ == module:
            yield value.__qualname__, value


def put_in_place(mutant: Mutant) -> None:
    """Of a changed function only the code takes the place of the old one; else the module is imported by all anew.

    Of a generator, the checks of types call a copy that cannot be reached.
    """
    name = "candi." + mutant.path.removesuffix(".py").replace("/", ".")
    warm = sys.modules[name]
    old = dict(_functions(warm, name))
    function = old.get(mutant.function.split(".<locals>")[0])
    if function is None or isgeneratorfunction(function):
        forget()
        return
    del sys.modules[name]
    for key, changed in _functions(importlib.import_module(name), name):
        old[key].__code__ = changed.__code__
    sys.modules[name] = warm
