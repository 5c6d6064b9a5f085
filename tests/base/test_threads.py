"""Threads that wait give way to others, before PyTorch is loaded and unless they are told otherwise."""

import os
import subprocess
import sys

import pytest

PROGRAM = "import os, sys, candi; print('torch' in sys.modules, os.environ.get('GOMP_SPINCOUNT'))"


@pytest.mark.parametrize(
    ("given", "found"),
    [({}, "False 3000"), ({"GOMP_SPINCOUNT": "7"}, "False 7"), ({"OMP_WAIT_POLICY": "active"}, "False None")],
)
def test_waiting_threads_give_way(given, found):
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    environment = {name: value for name, value in os.environ.items() if name not in names} | given
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == found, done.stderr
