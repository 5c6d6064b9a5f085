"""The machine a program runs on: what it is, and leaving nothing of one job on it for the next."""

import gc
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from candi.base.errors import UserError
from candi.base.version import __version__


def machine(device: torch.device) -> dict[str, Any]:
    """What something was measured or made on."""
    return {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else _processor(),
        "kind": device.type,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "candi": __version__,
    }


def device_named(device: torch.device | str) -> torch.device:
    """A device by name; auto is the GPU if there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):  # torch asserts that it was built for the device
        raise UserError(f"There is no device {str(device)!r} on this machine; use auto, cpu or cuda.") from None
    return torch.device(device)


@contextmanager
def fresh() -> Iterator[None]:
    """Nothing of this job in the way of the next: no memory, and no compiled graph, of which torch keeps but a few."""
    yield
    gc.collect()
    torch._dynamo.reset()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
