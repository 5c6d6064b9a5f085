"""Run every test of this folder: python -m tests.gpu [PART OF A NAME]. Exit code 1 if one fails."""

import os
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path

import torch

from tests.gpu import GPU


def main(wanted: str = "") -> int:
    if not GPU and "CANDI_TEST_DEVICE" not in os.environ:
        print("There is no GPU on this machine; CANDI_TEST_DEVICE=cpu runs what a CPU can.", file=sys.stderr)
        return 2
    failed = []
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for name, test in list(vars(import_module(f"tests.gpu.{path.stem}")).items()):
            if not name.startswith("test_") or wanted not in name:
                continue
            torch.manual_seed(0)
            begun = time.monotonic()
            try:
                test()
                outcome = "ok"
            except Exception:
                failed.append(name)
                outcome = f"FAILED\n{traceback.format_exc()}"
            print(f"{time.monotonic() - begun:6.1f} s  {path.stem}.{name}  {outcome}", flush=True)
    print(f"{len(failed)} failed: {', '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


sys.exit(main(*sys.argv[1:]))
