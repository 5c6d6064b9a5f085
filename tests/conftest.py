"""Shared pieces of the tests."""

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # every test is a CPU test
os.environ["OMP_NUM_THREADS"] = "1"  # two tests run at once on two cores, and so do the processes they start

import pytest
import torch

torch.set_num_threads(1)

# few tests that take minutes: were they begun last, one worker would be left alone with them
LONG = (
    "tests/training/test_parallel",
    "tests/training/test_resume",
    "tests/training/test_nodes",
    "tests/training/test_pieces",
    "tests/lab/",
    "tests/hub/test_shipped",
)


# what make quick runs beside the tests that are marked: identities and contracts that take seconds
QUICK = (
    "tests/base/",
    "tests/diffusion/test_exact",
    "tests/diffusion/test_guidance",
    "tests/diffusion/test_masked_kernel",
    "tests/diffusion/test_open_positions",
    "tests/diffusion/test_prediction",
    "tests/diffusion/test_sampler",
    "tests/diffusion/test_schedules",
    "tests/diffusion/test_solvers",
    "tests/diffusion/test_spaces",
    "tests/nets/test_dit",
    "tests/nets/test_ideal",
    "tests/nets/test_kv_cache",
    "tests/data/test_batches",
    "tests/training/test_optim",
    "tests/evaluation/test_diversity",
    "tests/evaluation/test_measures",
    "tests/docs/test_add_a_network",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
    for item in items:
        if item.nodeid.startswith(QUICK):
            item.add_marker(pytest.mark.quick)


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
