"""Tests for a machine with a GPU: `make test-gpu`, or python -m tests.gpu, which needs no package but the library's.

Plain functions without fixtures. Without a GPU pytest runs them on the CPU, so that they cannot rot; those about the
GPU alone then return at once.
"""

import os

import torch

DEVICE = os.environ.get("CANDI_TEST_DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
GPU = DEVICE == "cuda"
