"""One toy experiment, trained once and used by many tests."""

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from candi_lab.cli import main


def reproduce(name: str, folder: Path, data: object, *more: str) -> list[str]:
    """The command at toy scale, with everything under one folder."""
    return ["reproduce", name, "--scale", "toy", "--data", str(data), "--out", str(folder / "work"), "--results",
            str(folder / "results"), "--device", "cpu", *more]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _quick_collections() -> Iterator[None]:
    """Benchmarks collect garbage before every measurement: not that of the whole test session."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def text(tmp_path_factory) -> Path:
    """Twenty thousand characters: words of a small vocabulary in any order."""
    random = np.random.default_rng(0)
    words = ["".join(random.choice(list("abcde"), size)) for size in random.integers(1, 4, 40)]
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(" ".join(random.choice(words, 8000)))
    return path


@pytest.fixture(scope="session")
def toy(tmp_path_factory, cache, text) -> Path:
    """The experiment text8 at toy scale, done. Tests read it and change copies."""
    folder = tmp_path_factory.mktemp("toy")
    main(reproduce("text8", folder, text))
    return folder
