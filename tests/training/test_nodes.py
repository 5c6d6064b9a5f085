"""Two nodes, each with a network and a cache of its own, train what one process trains, and end together."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from candi.base.errors import UserError
from tests.training.nodes import Nodes, ended, namespaces, why_no_namespaces
from tests.training.runs import losses, tensors, train_here
from tests.training.test_parallel import _close

pytestmark = pytest.mark.usefixtures("cache")
STEPS = 16
SHORT = {"steps": STEPS, "validate_every": 8, "checkpoint_every": 4}
_NONE = why_no_namespaces()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory) -> Iterator[Nodes]:
    """Two network namespaces; where there can be none, this machine is both nodes."""
    caches = tuple(tmp_path_factory.mktemp(name) for name in ("first-cache", "second-cache"))
    with namespaces() if _NONE is None else nullcontext(("", "")) as both:
        made = Nodes("10.99.0.1", both, ("cable", "cable"), caches) if _NONE is None else Nodes(caches=caches)
        yield made
        for process in made.started:
            process.kill()


@pytest.mark.skipif(_NONE is not None, reason=f"Two nodes are two names of this machine here: {_NONE}.")
def test_the_nodes_see_nothing_but_each_other(nodes):
    for namespace in nodes.namespaces:
        shown = subprocess.run(["ip", "-n", namespace, "-br", "addr"], check=True, capture_output=True, text=True)
        assert [line.split("@")[0].split()[0] for line in shown.stdout.splitlines()] == ["lo", "cable"]


@pytest.fixture(scope="module")
def together(nodes, tmp_path_factory) -> tuple[Path, list[str]]:
    """A run that nothing happened to, and what its processes said. The caches were empty."""
    out = tmp_path_factory.mktemp("together") / "run"
    processes = nodes.start(out, on_each=2, **SHORT)
    return out, ended(processes)


@pytest.fixture(scope="module")
def alone(tmp_path_factory, cache):
    out = tmp_path_factory.mktemp("alone") / "run"
    train_here(out, **SHORT)
    return losses(out)


def test_copies_on_two_nodes_give_the_losses_of_one_process(together, alone):
    _close(losses(together[0]), alone)


def test_one_process_of_each_node_makes_tokens(together):
    """Each node has a cache of its own."""
    counts = [said.count("into tokens") for said in together[1]]
    assert counts == [1, 0, 1, 0], together[1]


def test_pieces_on_two_nodes_give_the_losses_of_one_process(nodes, tmp_path, alone):
    said = ended(nodes.start(tmp_path / "run", strategy="fsdp", **SHORT))
    assert (tmp_path / "run" / "metrics.csv").exists(), said
    _close(losses(tmp_path / "run"), alone)


_IMPATIENT = """
from candi.training import team
team._QUIET = 1.0
from datetime import timedelta
from functools import partial
from candi.training import devices
devices.DDPStrategy = partial(devices.DDPStrategy, timeout=timedelta(seconds=3))
"""
_SLOW = """
import time
from candi.training import fit
prepare = fit.prepare
fit.prepare = lambda *arguments: (time.sleep(6), prepare(*arguments))[1]
"""


def test_a_node_that_prepares_for_long_is_waited_for_in_no_collective(nodes, tmp_path):
    """Collectives end after half an hour with an error: here after three seconds, and one node needs twice as many."""
    out = tmp_path / "run"
    processes = nodes.start(out, before=(_IMPATIENT, _IMPATIENT + _SLOW), **SHORT | {"steps": 2})
    first, second = ended(processes)
    assert [process.returncode for process in processes] == [0, 0], first + second
    assert "waiting for others of the 2 processes, which start or prepare the data" in first
    assert "waiting for" not in second


def test_a_folder_that_is_not_shared_is_refused(nodes, tmp_path):
    hurry = "from candi.training import team\nteam._SEEN = 1.0"
    processes = nodes.start(tmp_path / "one", tmp_path / "two", before=(hurry, hurry), **SHORT)
    first, second = ended(processes)
    assert [process.returncode for process in processes] == [2, 2]
    assert f"candi: --out must lie on a disk that all nodes share, and {tmp_path / 'two'} does not" in second
    assert "Rank 1 of 2, on " in first
    assert "has ended: --out must lie on a disk that all nodes share" in first
    assert "Traceback" not in first + second
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_mistake_of_all_is_told_once_on_each_node(nodes, tmp_path):
    huge = {"learning_rate": 1e30, "warmup": 0, "checkpoint_every": 1, "clip": 1e30}
    processes = nodes.start(tmp_path / "run", on_each=2, **SHORT | huge)
    said = ended(processes)
    assert [process.returncode for process in processes] == [2] * 4
    assert ["stopped being finite at step" in text for text in said] == [True, False, True, False], said
    assert [text.count("candi: ") for text in said] == [1, 0, 1, 0], said


def test_nobody_at_the_address_is_a_sentence(nodes, tmp_path):
    """The first node never begins; whoever waits says where."""
    hurry = "from candi.training import team\nteam._ANSWER = 1.0"
    first, second = nodes.start(tmp_path / "run", before=("import os; os._exit(3)", hurry), **SHORT)
    _, said = ended([first, second])
    assert (first.returncode, second.returncode) == (3, 2)
    assert re.fullmatch(
        rf"Waiting for the first process at {nodes.address}, port \d+\.\n"
        rf"candi: No process answers at {nodes.address}, port \d+, where the first one should be; check MASTER_ADDR "
        r"and MASTER_PORT, and that the command runs on the first node\.\n",
        said,
    ), said


@pytest.fixture(scope="module")
def two(nodes, tmp_path_factory) -> Path:
    """What two processes learn when nothing happens to them."""
    out = tmp_path_factory.mktemp("two") / "run"
    ended(nodes.start(out, **SHORT))
    return out


@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_dies_ends_the_others_with_a_sentence_and_the_same_command_goes_on(nodes, tmp_path, two, victim):
    out = tmp_path / "run"
    _kill_at(8, out, nodes.start(out, before=(_PAUSE, _PAUSE), **SHORT), victim)
    said = ended(nodes.start(out, **SHORT))
    assert "from step 8" in said[0], said
    last = f"step-{STEPS:08d}"
    assert tensors(out / "checkpoints" / last) == tensors(two / "checkpoints" / last)
    assert losses(out) == losses(two)


_PAUSE = """
from candi.training.step import TrainStep
update = TrainStep.update
TrainStep.update = lambda self, step, parts: (__import__("time").sleep(60 * (step == 9)), update(self, step, parts))[1]
"""  # at a step, so that the moment is the same on every machine


def _kill_at(step: int, out: Path, processes, victim: int) -> None:
    """Kill a process after a checkpoint, and look at how the others end."""
    folder = out / "checkpoints" / f"step-{step:08d}"
    while not folder.exists():
        assert all(process.poll() is None for process in processes), ended(processes)
        time.sleep(0.01)
    processes[victim].send_signal(signal.SIGKILL)
    begun = time.monotonic()
    said = ended(processes)
    assert time.monotonic() - begun < 10
    for rank, process in enumerate(processes):
        if rank != victim:
            assert process.returncode == 2
            (sentence,) = [line for line in said[rank].splitlines() if line.startswith("candi:")]
            assert f"candi: Rank {victim} of {len(processes)}, on " in sentence
            assert f"has ended, and the others with it; the last good checkpoint is {folder}; the same" in sentence
            rest = said[rank][said[rank].index(sentence) + len(sentence) :]
            assert rest == "\n", "nothing comes after it"
            assert "Traceback" not in said[rank]
            assert "Exception" not in said[rank]


@pytest.mark.parametrize(
    ("launcher", "variables"),
    [
        ("torchrun", {"TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": "4", "RANK": "0", "LOCAL_RANK": "0"}),
        ("srun", {"SLURM_NTASKS": "4", "SLURM_NTASKS_PER_NODE": "2", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}),
    ],
)
def test_a_launcher_that_starts_other_processes_than_the_flags_say_is_refused(
    tmp_path, monkeypatch, launcher, variables
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=f"{launcher} has started 4 processes, .* --devices 1 on each make 2"):
        train_here(tmp_path / "run", nodes=2, devices=1)
