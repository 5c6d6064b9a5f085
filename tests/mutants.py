"""Mutants: one small change of a formula at a time, which some test must notice. `make mutants` runs it.

A change is shown to the tests that call the changed function, first those that noticed an earlier one, then the
quickest, until one fails. What none of them noticed is printed. All of it happens in a copy of the tree and in forks of
this process, which has imported everything. `runs/mutants` remembers: what was noticed is not tried again.
"""

import argparse
import ast
import copy
import hashlib
import importlib
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
MEMORY = ROOT / "runs" / "mutants"
CORE = """diffusion/methods/*.py diffusion/kernels/*.py diffusion/guidance/*.py diffusion/spaces.py diffusion/solvers.py
    diffusion/schedules.py diffusion/draws.py diffusion/steps.py diffusion/state.py diffusion/sampler.py
    diffusion/identifiability/uniform.py training/objective.py training/ema.py evaluation/likelihood.py""".split()
TESTS = """tests/diffusion tests/nets/test_ideal.py tests/data/test_batches.py tests/training/test_optim.py
    tests/training/test_hidden_answer.py tests/evaluation/test_likelihood.py""".split()

OTHER = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.Mod: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
EDGE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "argmax": "argmin", "mean": "sum", "floor": "ceil"}
DROPPED = "square sqrt rsqrt log exp exp_ clamp cumsum log_ndtr ndtri masked_fill detach softmax flip".split()


@dataclass(frozen=True)
class Mutant:
    path: str  # below src/candi
    function: str  # qualified name; empty where it is no function, or one whose answers are kept
    line: int
    old: str
    new: str
    source: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line}\n  - {self.old}\n  + {self.new}"


def changed(node: ast.AST, **values: Any) -> Any:
    twin = copy.copy(node)
    for name, value in values.items():
        setattr(twin, name, value)
    return twin


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """What could stand in the place of an expression."""
    match node:
        case ast.BinOp() | ast.BoolOp() if type(node.op) in OTHER:
            yield changed(node, op=OTHER[type(node.op)]())
        case ast.Compare(ops=[op]):
            tables = (OTHER,) if "uniform(" in ast.unparse(node) else (OTHER, EDGE)  # no such number is met exactly
            yield from (changed(node, ops=[table[type(op)]()]) for table in tables if type(op) in table)
        case ast.UnaryOp(operand=operand) if not isinstance(operand, ast.Constant):
            yield operand
        case ast.Constant(value=bool()):
            yield changed(node, value=not node.value)
        case ast.Constant(value=int() | float() as value):
            yield changed(node, value=value * 2 if isinstance(value, float) and value else value + 1)
        case ast.IfExp():
            yield changed(node, body=node.orelse, orelse=node.body)
        case ast.Call(func=ast.Attribute(value=owner, attr=name) as function, args=args):
            if name in DROPPED:  # torch.exp(x) or x.exp()
                yield args[0] if args and ast.unparse(owner) in ("torch", "torch.special", "F") else owner
            if name in NAMES:
                yield changed(node, func=changed(function, attr=NAMES[name]))
            if name == "where" and len(args) == 2:  # x.where(a, y)
                yield changed(node, func=changed(function, value=args[1]), args=[args[0], owner])
        case ast.Call(func=ast.Name(id=name) as function) if name in NAMES:
            yield changed(node, func=changed(function, id=NAMES[name]))
    if isinstance(node, ast.Call):
        args, free = node.args, getattr(node.func, "attr", "") in ("where", "lerp")
        for i in range(len(args) - 1):
            if free or type(args[i]) is type(args[i + 1]) is not ast.Constant:
                yield changed(node, args=[*args[:i], args[i + 1], args[i], *args[i + 2 :]])


def is_axis(node: ast.AST, child: ast.AST) -> bool:
    """Another axis or index is another shape, which the checks of types see."""
    if isinstance(child, ast.keyword):
        return child.arg in ("dim", "keepdim", "dtype", "device")
    minus_one = isinstance(child, ast.UnaryOp) and ast.unparse(child) == "-1"
    return (minus_one and isinstance(node, ast.Call)) or (isinstance(node, ast.Subscript) and child is node.slice)


def mutants(path: str) -> Iterator[Mutant]:
    source = (ROOT / "src/candi" / path).read_bytes()
    lines = source.splitlines(keepends=True)

    def mutant(node: Any, other: ast.AST, names: tuple[str, ...]) -> Mutant:
        before, after = lines[node.lineno - 1][: node.col_offset], lines[node.end_lineno - 1][node.end_col_offset :]
        old, new = (
            b"".join(lines[node.lineno - 1 : node.end_lineno]),
            before + f"({ast.unparse(other)})".encode() + after,
        )
        made = b"".join([*lines[: node.lineno - 1], new, *lines[node.end_lineno :]]).decode()
        shown = (" ".join(text.decode().split()) for text in (old, new))
        return Mutant(path, ".".join(names), node.lineno, *shown, made)

    def visit(node: ast.AST, names: tuple[str, ...], inside: bool) -> Iterator[Mutant]:
        match node:
            case ast.FunctionDef(name=name, body=body):
                kept = any("cache" in ast.unparse(one) for one in node.decorator_list)
                outer = (*names, "<locals>") if inside else names
                for child in body:
                    yield from visit(child, () if kept else (*outer, name), not kept)
            case ast.ClassDef(name=name, body=body):
                for child in body:
                    yield from visit(child, (*names, name), False)
            case ast.AnnAssign(value=value, annotation=kind):
                if value is not None and (inside or not names or "ClassVar" in ast.unparse(kind)):  # no defaults
                    yield from visit(value, names, inside)
            case ast.Raise() | ast.Assert() | ast.If(body=[ast.Raise()]) | ast.Expr(value=ast.Constant()):
                pass  # messages and what leads to them
            case _:
                if isinstance(node, ast.If):
                    yield mutant(node.test, ast.UnaryOp(ast.Not(), node.test), names if inside else ())
                for other in changes(node):
                    yield mutant(node, other, names if inside else ())
                for child in ast.iter_child_nodes(node):
                    if not is_axis(node, child):
                        yield from visit(child, names, inside)

    yield from visit(ast.parse(source), (), False)


class Watch:
    """A plugin: which functions of the library each test calls, how long it takes, and which test failed."""

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


def tested(tests: list[str], *flags: str, calls: bool = False) -> dict[str, Any]:
    watch = Watch(calls)
    if "candi" in sys.modules:  # with its run-time checks of types, which pytest would set up
        flags = (*flags, "-o", "addopts=")
    code = pytest.main([*tests, "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *flags], [watch])
    return {"code": int(code), "failed": watch.failed, "seen": watch.seen}


def forked(work: Callable[[], dict[str, Any]], limit: float) -> dict[str, Any] | None:
    """What `work` returns, in a fork; None if it does not end in time or dies."""
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


def functions(thing: Any, module: str) -> Iterator[tuple[str, Any]]:
    """Of a module or a class, by qualified name and without what wraps them."""
    for value in list(vars(thing).values()):
        if isinstance(value, type) and value.__module__ == module:
            yield from functions(value, module)
        value = getattr(value, "__func__", getattr(value, "fget", value))
        while hasattr(value, "__wrapped__"):
            value = value.__wrapped__
        if isinstance(value, FunctionType) and value.__module__ == module:
            yield value.__qualname__, value


def forget() -> None:
    """The next import of the library and of the tests reads the files again."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "candi")]:
        del sys.modules[name]


def shown(one: Mutant, tests: list[str]) -> dict[str, Any]:
    """Where a function has changed, only its code is put in the place of the old one: nothing else is imported anew."""
    if not one.function:
        forget()
    else:
        name = "candi." + one.path.removesuffix(".py").replace("/", ".")
        warm = sys.modules.pop(name)
        old, new = dict(functions(warm, name)), dict(functions(importlib.import_module(name), name))
        if one.function.split(".<locals>")[0] not in old:
            raise LookupError(one.function)
        for key, function in new.items():
            old[key].__code__ = function.__code__
        sys.modules[name] = warm
    return tested(tests)


def callers() -> dict[str, tuple[float, list[str]]]:
    """Every test, its time and the functions that it calls; only files that have changed are run."""
    memory = json.loads(kept.read_text()) if (kept := MEMORY / "tests.json").exists() else {}
    source = b"".join(path.read_bytes() for path in sorted(Path("src/candi").rglob("*.py")))
    found: dict[str, Any] = {}
    for file in (
        file
        for name in TESTS
        for file in ([Path(name)] if name[-3:] == ".py" else sorted(Path(name).glob("test_*.py")))
    ):
        key = hashlib.sha256(source + file.read_bytes()).hexdigest()
        if memory.get(str(file), {}).get("key") != key:
            answer = forked(lambda file=file: tested([str(file)], calls=True), 900)
            if answer is None or answer["code"]:
                sys.exit(f"{file} fails without any change.\n{answer}\n" + Path("log.txt").read_text())
            memory[str(file)] = {"key": key, "seen": answer["seen"]}
            kept.write_text(json.dumps(memory))
        found |= memory[str(file)]["seen"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", default=CORE, help="below src/candi, * allowed; without any, the core")
    parser.add_argument("--seconds", type=float, default=30, help="of tests, by their usual time, for each change")
    options = parser.parse_args()
    MEMORY.mkdir(parents=True, exist_ok=True)
    results = json.loads(kept.read_text()) if (kept := MEMORY / "results.json").exists() else {}
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for part in ("src", "tests", "docs"):
            shutil.copytree(ROOT / part, Path(folder, part), ignore=shutil.ignore_patterns("*.pyc"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        os.chdir(folder)
        sys.path[:0] = [f"{folder}/src", folder]
        forget()
        tested(TESTS, "--collect-only", "-qq")
        seen = callers()
        found = (file for name in options.files for file in sorted(Path("src/candi").glob(name)))
        paths = list(dict.fromkeys(str(file.relative_to("src/candi")) for file in found))
        for path in paths:
            kills: Counter[str] = Counter()
            for one in mutants(path):
                if results.get(one.name, "survived") != "survived":
                    continue
                mine = [
                    t
                    for t, (_, calls) in seen.items()
                    if any(
                        c == f"{path}:{one.function}" or not one.function and c.startswith(f"{path}:") for c in calls
                    )
                ]
                tests, total = [], 0.0
                for test in sorted(mine, key=lambda t: (-kills[t], seen[t][0])):
                    total += seen[test][0]
                    if not tests or total < options.seconds:
                        tests.append(test)
                target = Path("src/candi", path)
                original = target.read_text()
                target.write_text(one.source)
                for stale in target.parent.glob(f"__pycache__/{target.stem}.*"):
                    stale.unlink()
                answer = (
                    forked(lambda: shown(one, tests), 20 + 4 * options.seconds)
                    if tests
                    else {"code": 0, "failed": None}
                )
                target.write_text(original)
                for stale in target.parent.glob(f"__pycache__/{target.stem}.*"):
                    stale.unlink()
                if answer is None:
                    results[one.name] = "no end: " + Path("log.txt").read_text()[-300:]
                elif answer["code"]:
                    results[one.name] = f"noticed by {answer['failed']}"
                    kills[answer["failed"]] += 1
                else:
                    results[one.name] = "survived"
                    print(f"{one.name}\n  ({len(tests)} tests of {len(mine)}, {one.function})", flush=True)
                kept.write_text(json.dumps(results, indent=1))
        everything = Counter(results.get(one.name, "-").split()[0] for path in paths for one in mutants(path))
        print(dict(everything))


if __name__ == "__main__":
    main()
