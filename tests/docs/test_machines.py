"""The scripts of docs/machines.md work as they are printed, at toy size."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.runs import flags, losses, train_here
from tests.training.test_parallel import _close

PAGE = (Path(__file__).parents[2] / "docs" / "machines.md").read_text(encoding="utf-8")
STEPS = 8
SMALL = {"steps": STEPS, "validate_every": 4}
pytestmark = pytest.mark.usefixtures("cache")
_SRUN = """#!/bin/bash
# a stand-in: all tasks of all nodes on this machine, with the variables that Slurm gives them
while [[ $1 == --* ]]; do shift; done
for ((rank = 0; rank < SLURM_NTASKS; rank++)); do
  SLURM_PROCID=$rank SLURM_LOCALID=$((rank % SLURM_NTASKS_PER_NODE)) SLURM_NODEID=$((rank / SLURM_NTASKS_PER_NODE)) \
    "$@" & started+=($!)
done
for task in "${started[@]}"; do wait "$task" || exit 1; done
"""


def _script(name: str) -> str:
    (found,) = re.findall(rf"```sh\n((?:#!/bin/bash\n)?# {name}\n.*?)```", PAGE, re.S)
    return found


@pytest.fixture(scope="module")
def alone(tmp_path_factory, cache):
    out = tmp_path_factory.mktemp("alone") / "run"
    train_here(out, **SMALL)
    return losses(out)


def _run(script: str, folder: Path, *arguments: str, **variables: str) -> None:
    """Where `python` and `torchrun` are those of this environment."""
    (folder / "script").write_text(script)
    path = os.pathsep.join((str(folder), str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "script", *arguments], cwd=folder, capture_output=True, text=True, timeout=120,
        env=os.environ | {"PATH": path, "DATA": "pydoc", "OUT": "run"} | variables,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "on 2 x cpu" in done.stderr


def _more() -> list[str]:
    """Toy size: what the scripts do not say themselves."""
    return [flag for flag in flags(Path("run"), **SMALL) if not flag.startswith(("--out", "--data"))]


def test_torchrun(tmp_path, alone):
    with socket.socket() as taken:
        taken.bind(("", 0))
        port = taken.getsockname()[1]
    _run(_script("train.sh"), tmp_path, *_more(), DEVICES="2", PORT=str(port))
    _close(losses(tmp_path / "run"), alone)


def test_slurm(tmp_path, alone):
    srun = tmp_path / "srun"
    srun.write_text(_SRUN)
    srun.chmod(0o755)
    script = _script("train.sbatch")
    asked = dict(re.findall(r"^#SBATCH --([\w-]+)=(.*)$", script, re.M))
    assert asked["ntasks-per-node"] == asked["gres"].removeprefix("gpu:"), "a task for each device"
    slurm = {
        "SLURM_NNODES": "2", "SLURM_NTASKS_PER_NODE": "1", "SLURM_NTASKS": "2", "SLURM_JOB_NAME": asked["job-name"],
        "SLURM_JOB_ID": str(os.getpid()), "SLURM_NODELIST": "127.0.0.1",
    }  # fmt: skip
    _run(script, tmp_path, FLAGS=" ".join(_more()), **slurm)
    _close(losses(tmp_path / "run"), alone)
