"""Times and peaks of memory, on whatever device there is."""

import ctypes
import gc
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import candi


@dataclass(frozen=True)
class Measured:
    """Median seconds of a call, their spread (largest - smallest) / median, and the peak of memory in bytes.

    Memory is all that the program held on a GPU; on a CPU, what the calls needed above what was there before them.
    """

    seconds: float
    spread: float
    memory: int


def measure(call: Callable[[], object], device: torch.device, repeats: int = 5, warm_up: int = 2) -> Measured:
    for _ in range(warm_up):
        call()
    gc.collect()
    times = []
    with _peak(device) as memory:
        for _ in range(repeats):
            wait(device)
            start = time.perf_counter()
            call()
            wait(device)
            times.append(time.perf_counter() - start)
    median = statistics.median(times)
    return Measured(median, (max(times) - min(times)) / median, memory())


def rate(call: Callable[[], object], device: torch.device, calls: int) -> float:
    """Seconds a call of many in a row that nobody waits for: how training runs."""
    call()
    wait(device)
    start = time.perf_counter()
    for _ in range(calls):
        call()
    wait(device)
    return (time.perf_counter() - start) / calls


@contextmanager
def fresh() -> Iterator[None]:
    """Nothing of this row in the way of the next."""
    yield
    gc.collect()
    torch._dynamo.reset()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


@contextmanager
def _peak(device: torch.device) -> Iterator[Callable[[], int]]:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        yield torch.cuda.max_memory_allocated
        return
    refs, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    if not refs.exists():
        yield lambda: 0
        return
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # what earlier calls have freed goes back to the system first
    refs.write_text("5")  # the peak starts anew
    before = _kilobytes(status, "VmRSS")
    yield lambda: max(0, _kilobytes(status, "VmHWM") - before) * 1024


def _kilobytes(status: Path, name: str) -> int:
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(name))


def matmul_rate(device: torch.device, dtype: torch.dtype) -> float:
    """FLOP/s of a large matrix product: what the device can do, as far as a program ever sees it."""
    size = 8192 if device.type == "cuda" else 1536
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 / measure(lambda: a @ b, device, repeats=10, warm_up=3).seconds


def machine(device: torch.device) -> dict[str, Any]:
    """What a time was measured on."""
    name = torch.cuda.get_device_name() if device.type == "cuda" else _processor()
    return {
        "device": name,
        "kind": device.type,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "candi": candi.__version__,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in _lines(info) if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
