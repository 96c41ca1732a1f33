"""Bounded memory, measured in a separate process."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor

from bochner.features import FourierMap, NystromMap
from bochner.kernels import Gaussian, Laplacian, SparseGaussian
from tests.processes import run_apart

MEGABYTE = 2**20


def peak() -> int:
    # not getrusage, whose maximum a process inherits from the one that started it
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) * 1024


def streamed_map(X: Tensor, generator: Generator) -> Callable[[], object]:
    """z(X) would take 1.6 GB."""
    z = FourierMap.draw(Gaussian(), num_inputs=16, num_features=4096, generator=generator)
    return lambda: sum(block.sum() for _, block in z.stream(X, rows=1024))


def kernel_matmul(X: Tensor, generator: Generator) -> Callable[[], object]:
    """k(X, L) would take 800 MB."""
    return lambda: Laplacian().matmul(X, X[:2000], torch.ones(2000, 1))


def sparse_gaussian_block(X: Tensor, generator: Generator) -> Callable[[], object]:
    """k(X, L) takes 160 MB, its recursion would take six times that untiled."""
    return lambda: SparseGaussian()(X, X[:400])


def leverage_landmarks(X: Tensor, generator: Generator) -> Callable[[], object]:
    """The leverage scores of all points need k(X, L) only a tile at a time: 400 MB whole."""
    options = {"num_landmarks": 500, "landmarks": "leverage", "generator": generator}
    return lambda: NystromMap.fit(Gaussian(bandwidth=5.0), X, **options)


def whole_map(X: Tensor, generator: Generator) -> Callable[[], object]:
    """400 MB of features at once."""
    z = FourierMap.draw(Gaussian(), num_inputs=16, num_features=1024, generator=generator)
    return lambda: z(X)


def measure(prepare: Callable[[Tensor, Generator], Callable[[], object]]) -> int:
    generator = Generator().manual_seed(0)
    X = torch.randn(100_000, 16, generator=generator)
    X @ torch.ones(16, 1)
    work = prepare(X, generator)
    before = peak()
    work()
    return peak() - before


@pytest.mark.parametrize("prepare", [streamed_map, kernel_matmul, sparse_gaussian_block, leverage_landmarks])
def test_peak_memory(prepare: Callable[[Tensor, Generator], Callable[[], object]]) -> None:
    assert run_apart(measure, prepare) < 300 * MEGABYTE


def test_more_is_measured() -> None:
    assert run_apart(measure, whole_map) > 380 * MEGABYTE
