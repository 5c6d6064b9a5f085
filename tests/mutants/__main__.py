"""Shows each change to the tests that call the changed function, until one fails, and prints those that none noticed.

First come the tests that noticed an earlier change, then the quickest. All of it happens in a copy of the tree.
`runs/mutants` remembers what was noticed, which is not tried again; `judged.txt` holds what was found to be harmless.
"""

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tests.mutants.changes import Mutant, mutants
from tests.mutants.forks import forget, forked, outcome, put_in_place

ROOT = Path(__file__).resolve().parents[2]
MEMORY = ROOT / "runs" / "mutants"
SOURCES = Path("src/candi")
CORE = [
    *(f"diffusion/{name}/*.py" for name in ("methods", "kernels", "guidance")),
    *(f"diffusion/{name}.py" for name in ("spaces", "solvers", "schedules", "draws", "steps", "state", "sampler")),
    "diffusion/embeddings.py",
    "diffusion/identifiability/uniform.py", "training/objective.py", "training/ema.py", "evaluation/likelihood.py",
]  # fmt: skip
TESTS = [
    "diffusion/test_*.py", "nets/test_ideal.py", "data/test_batches.py", "training/test_optim.py",
    "training/test_objective.py", "training/test_hidden_answer.py", "evaluation/test_likelihood.py",
]  # fmt: skip
Seen = dict[str, tuple[float, list[str]]]


def remembered(name: str) -> dict[str, Any]:
    return json.loads((MEMORY / name).read_text()) if (MEMORY / name).exists() else {}


def remember(name: str, what: dict[str, Any]) -> None:
    MEMORY.mkdir(parents=True, exist_ok=True)
    (MEMORY / name).write_text(json.dumps(what, indent=1))


def judged() -> dict[str, str]:
    """Survivors that change nothing that is sampled, learned or seen, and why."""
    lines = (Path(__file__).parent / "judged.txt").read_text().splitlines()
    return dict(line.rsplit(" | ", 1) for line in lines if line and line[0] != "#")


def survey(files: list[Path]) -> Seen:
    """The time of every test and the functions that it calls; only files that have changed are run."""
    memory, found = remembered("tests.json"), {}
    source = b"".join(path.read_bytes() for path in sorted(SOURCES.rglob("*.py")))
    for file in map(str, files):
        key = hashlib.sha256(source + Path(file).read_bytes()).hexdigest()
        if memory.get(file, {}).get("key") != key:
            answer = forked(partial(outcome, [file], calls=True), 900)
            if answer is None or answer["code"]:
                sys.exit(f"{file} fails without any change.\n" + Path("log.txt").read_text())
            memory[file] = {"key": key, "seen": answer["seen"]}
            remember("tests.json", memory)
        found |= memory[file]["seen"]
    return found


def chosen(mutant: Mutant, seen: Seen, noticed: Counter[str], seconds: float) -> list[str]:
    """The tests that are worth asking, as many as end in so many seconds."""
    place = f"{mutant.path}:{mutant.function}"
    called = (lambda name: name == place) if mutant.function else (lambda name: name.startswith(place))
    mine, total = [test for test, (_, names) in seen.items() if any(map(called, names))], 0.0
    tests = []
    for test in sorted(mine, key=lambda test: (-noticed[test], seen[test][0])):
        total += seen[test][0]
        if not tests or total < seconds:
            tests.append(test)
    return tests


def verdict(mutant: Mutant, tests: list[str], seconds: float) -> str:
    target = SOURCES / mutant.path
    original = target.read_text()
    try:
        for text in (mutant.source, original):  # compiled files know a change by the second alone
            target.write_text(text)
            for stale in target.parent.glob(f"__pycache__/{target.stem}.*"):
                stale.unlink()
            if text is not original and tests:
                answer = forked(lambda: put_in_place(mutant) or outcome(tests), 20 + 4 * seconds)
    finally:
        target.write_text(original)
    if not tests:
        return "survived: no test calls it"
    if answer is None:
        return "noticed: no end, or no import"
    return f"noticed: {answer['failed'] or 'no import'}" if answer["code"] else f"survived: {len(tests)} tests"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", default=CORE, help="below src/candi, * allowed; without any, the core")
    parser.add_argument("--seconds", type=float, default=30, help="of tests, by their usual time, for each change")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results, harmless, count = remembered("results.json"), judged(), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for part in ("src", "tests", "docs"):
            shutil.copytree(ROOT / part, Path(folder, part), ignore=shutil.ignore_patterns("*.pyc"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        os.chdir(folder)
        sys.path[:0] = [f"{folder}/src", folder]
        files = [file for name in TESTS for file in sorted(Path("tests").glob(name))]
        forget()
        outcome([str(file) for file in files], "--collect-only", "-qq")
        seen = survey(files)
        paths = [str(file.relative_to(SOURCES)) for name in options.files for file in sorted(SOURCES.glob(name))]
        for path in dict.fromkeys(paths):
            noticed: Counter[str] = Counter()
            for mutant in mutants(SOURCES, path):
                if mutant.key in harmless:
                    count["judged harmless"] += 1
                    continue
                if not results.get(mutant.key, "").startswith("noticed"):
                    tests = chosen(mutant, seen, noticed, options.seconds)
                    results[mutant.key] = verdict(mutant, tests, options.seconds)
                    remember("results.json", results)
                what, why = results[mutant.key].split(": ", 1)
                count[what] += 1
                noticed[why] += 1
                if what == "survived":
                    print(f"{mutant}\n  {why}", flush=True)
    print(", ".join(f"{number} {what}" for what, number in count.items()))


if __name__ == "__main__":
    main()
