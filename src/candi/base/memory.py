"""The memory of a machine: how much there is, how much is left, and how much this process has held."""

import os
import resource
import sys
from pathlib import Path

import torch

_MEMINFO, _OWN_GROUPS, _GROUPS = Path("/proc/meminfo"), Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")  # Linux
# a control group's limit, what counts towards it, and its files in the cache, which are dropped when memory is short
_NAMES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),  # of version 1
)


def memory(device: torch.device) -> int:
    """Bytes that there are."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([there, *(limit for limit, _ in _limits())])


def memory_left() -> int:
    """Bytes of the machine's memory that this process can still get."""
    if not _MEMINFO.exists():
        return memory(torch.device("cpu"))
    left = next(int(line.split()[1]) for line in _MEMINFO.read_text().splitlines() if line.startswith("MemAvailable"))
    return max(0, min([1024 * left, *(limit - used for limit, used in _limits())]))


def memory_used(device: torch.device) -> int:
    """Bytes that this process held at its peak."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kibibytes
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _limits() -> list[tuple[int, int]]:
    """Limit and use of each control group that this process is in, as containers and batch systems set them."""
    return [found for folder in _groups() for names in _NAMES if (found := _limit(folder, *names)) is not None]


def _groups() -> list[Path]:
    """Their folders, from the innermost outwards. Inside a container its own is the outermost."""
    if not _OWN_GROUPS.exists():
        return []
    found = []
    for line in _OWN_GROUPS.read_text().splitlines():
        _, kinds, place = line.split(":", 2)
        if kinds in ("", "memory"):
            top = _GROUPS / kinds
            inner = top / place.lstrip("/")
            found += [inner, *(folder for folder in inner.parents if folder.is_relative_to(top))]
    return found


def _limit(folder: Path, limit: str, used: str, cached: str) -> tuple[int, int] | None:
    try:
        most = int((folder / limit).read_text())
        lines = (folder / "memory.stat").read_text().splitlines()
        cache = next((int(line.split()[1]) for line in lines if line.split()[0] == cached), 0)
        return most, int((folder / used).read_text()) - cache
    except (OSError, ValueError):  # no such file, or "max": no limit
        return None
