"""Bounded memory, measured in a separate process."""

from __future__ import annotations

import subprocess
import sys

import pytest

PREAMBLE = r"""
import re, torch
from pathlib import Path
from torch import Generator
from bochner.features import FourierMap, NystromMap
from bochner.kernels import Gaussian, Laplacian, SparseGaussian

def peak():
    # not getrusage, whose maximum a process inherits from the one that started it
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

g = Generator().manual_seed(0)
X = torch.randn(100_000, 16, generator=g)
X @ torch.ones(16, 1)
"""

PIECES = {
    # z(X) would take 1.6 GB
    "streamed-map": """
z = FourierMap.draw(Gaussian(), num_inputs=16, num_features=4096, generator=g)
before = peak()
total = sum(block.sum() for _, block in z.stream(X, rows=1024))
""",
    # k(X, L) would take 800 MB
    "kernel-matmul": """
k, L, V = Laplacian(), X[:2000], torch.ones(2000, 1)
before = peak()
k.matmul(X, L, V)
""",
    # k(X, L) takes 160 MB, its recursion would take six times that untiled
    "sparse-gaussian-block": """
k, Y = SparseGaussian(), X[:400]
before = peak()
k(X, Y)
""",
    # the leverage scores of all points need k(X, L) only a tile at a time: 400 MB whole
    "leverage-landmarks": """
before = peak()
NystromMap.fit(Gaussian(bandwidth=5.0), X, num_landmarks=500, landmarks="leverage", generator=g)
""",
}
MEGABYTE = 2**20


@pytest.mark.parametrize("piece", PIECES)
def test_peak_memory(piece: str) -> None:
    code = PREAMBLE + PIECES[piece] + "\nprint(peak() - before)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 300 * MEGABYTE
