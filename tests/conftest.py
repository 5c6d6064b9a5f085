"""Shared pieces of the tests."""

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # every test is a CPU test

import pytest
import torch


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def double():
    """Exact-posterior tests in float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory):
    """A cache of tokens that is shared by all tests and touches nobody's home."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["CANDI_CACHE"] = str(folder)
    return folder
