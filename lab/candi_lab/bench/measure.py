"""Times and peaks of memory, on whatever device there is."""

import ctypes
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch


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
