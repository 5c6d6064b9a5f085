"""The Triton kernels, run by Triton's interpreter: the same programs as on a GPU, on any machine with Triton.

All in one process of their own, because the interpreter is chosen when Triton is imported. On a GPU: tests/gpu.
"""

import ast
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton, which is for Linux")
_FILE = Path(__file__).with_name("kernel_programs.py")
_PROGRAMS = [
    one.name for one in ast.parse(_FILE.read_text()).body
    if isinstance(one, ast.FunctionDef) and not one.name.startswith("_") and one.name != "failures"
]  # fmt: skip


@pytest.fixture(scope="module")
def failures() -> dict[str, str]:
    command = [sys.executable, "-m", "tests.nets.kernel_programs", "cpu"]
    done = subprocess.run(command, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("program", _PROGRAMS)
def test_kernels(failures, program):
    assert not failures.get(program), failures[program]
