"""How threads of the CPU wait for each other."""

import os


def wait_briefly() -> None:
    """Let threads that wait spin for some microseconds and then sleep, unless the environment says otherwise.

    PyTorch's threads (OpenMP) meet after every operation, and by default spin for milliseconds: where another process
    wants the same cores, the one that is waited for cannot run, and seconds become minutes. It is read when PyTorch is
    loaded, so this comes before.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")
