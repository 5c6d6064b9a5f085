"""What the time of a call on a GPU is made of."""

import time
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

# the first kind whose word occurs in a kernel's name
_KINDS = {
    "attention": ("sdpa", "flash", "fmha", "attention"),
    "head kernels": ("sums", "pick", "slope"),
    "matrix products": ("nvjet", "gemm", "cutlass", "cublas", "splitk"),
    "optimizer and averaging": ("multi_tensor", "adam", "foreach"),
    "copies": ("memcpy", "memset"),
    "everything between (norms, gates, GELU, rotary, dropout)": ("",),
}
_LONGEST = 25


def shares(call: Callable[[], object], calls: int = 6) -> dict[str, float]:
    """The share of the wall time that each kind of kernel took, and that in which the GPU had nothing to do."""
    return profiled(call, calls)[0]


def profiled(call: Callable[[], object], calls: int = 6) -> tuple[dict[str, float], dict[str, float]]:
    """The same, and the longest kernels: milliseconds that each takes in a call."""
    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    wall = time.perf_counter() - start
    busy, longest = dict.fromkeys(_KINDS, 0.0), {}
    for event in seen.key_averages():
        if event.self_device_time_total > 0:
            name = event.key.lower()
            kind = next(kind for kind, words in _KINDS.items() if any(word in name for word in words))
            busy[kind] += event.self_device_time_total / 1e6
            longest[event.key[:100]] = round(event.self_device_time_total / 1e3 / calls, 3)
    found = {kind: round(seconds / wall, 4) for kind, seconds in busy.items()}
    most = dict(sorted(longest.items(), key=lambda one: -one[1])[:_LONGEST])
    return found | {"nothing": round(max(0.0, 1 - sum(found.values())), 4)}, most
