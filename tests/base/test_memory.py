"""Memory is that of the machine, or of the control group that a process is held in."""

import pytest
import torch

from candi.base import memory

CPU = torch.device("cpu")
GB = 10**9


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with 8 GiB free, whose control groups are folders of this test."""
    (tmp_path / "meminfo").write_text("MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: 8388608 kB\n")
    (tmp_path / "own").write_text("")
    for name, file in (("_MEMINFO", "meminfo"), ("_OWN_GROUPS", "own"), ("_GROUPS", "groups")):
        monkeypatch.setattr(memory, name, tmp_path / file)
    return tmp_path


def _limit(folder, most, used, cached, names):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in zip(names, (most, used, f"active_file 5\n{cached}\n"), strict=True):
        (folder / name).write_text(f"{text}\n")


def test_without_a_limit_it_is_the_machine(machine):
    assert memory.memory_left() == 8 * 2**30
    (machine / "meminfo").unlink()
    assert memory.memory_left() == memory.memory(CPU)


def test_a_control_group_limits_it(machine):
    """What it keeps of files only does not count; the limit of an outer group counts as well, "max" is none."""
    (machine / "own").write_text("0::/batch/job\n")
    names = ("memory.max", "memory.current", "memory.stat")
    _limit(machine / "groups/batch/job", "max", 3 * GB, f"inactive_file {GB}", names)
    assert memory.memory_left() == 8 * 2**30
    _limit(machine / "groups/batch", 4 * GB, 3 * GB, f"inactive_file {GB}", names)
    assert (memory.memory(CPU), memory.memory_left()) == (4 * GB, 2 * GB)
    _limit(machine / "groups/batch", 2 * GB, 3 * GB, f"inactive_file {GB // 2}", names)
    assert memory.memory_left() == 0


def test_inside_a_container_its_own_group_is_the_outermost(machine):
    """Version 1, whose folder is not where /proc says."""
    (machine / "own").write_text("5:cpu:/x\n4:memory:/docker/0123\n")
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat")
    _limit(machine / "groups/memory", 3 * GB, GB, "total_inactive_file 0", names)
    assert (memory.memory(CPU), memory.memory_left()) == (3 * GB, 2 * GB)
