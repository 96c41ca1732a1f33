"""A kernel matrix times a few vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from sklearn.metrics.pairwise import rbf_kernel
from torch import Tensor

from benchmarks.data import gamma, median_bandwidth, points
from benchmarks.measure import Run
from benchmarks.report import Row
from benchmarks.suite import peers
from benchmarks.suite.race import PLAIN, race
from benchmarks.suite.sizes import Sizes
from bochner.kernels import Gaussian

VECTORS = 4


def rows(sizes: Sizes) -> Iterator[Row]:
    inputs = points(sizes.product_points, sizes.inputs)
    X, bandwidth = torch.from_numpy(inputs).to(sizes.device), median_bandwidth(inputs)
    V = torch.ones(len(X), VECTORS, device=sizes.device)
    kernel, vectors = Gaussian(bandwidth=bandwidth), V.cpu().numpy()
    theirs: dict[str, Run] = {
        PLAIN: lambda: torch.exp(torch.cdist(X, X).square() / (-2 * bandwidth**2)) @ V,
        "scikit-learn": lambda: rbf_kernel(inputs, gamma=gamma(bandwidth)) @ vectors,
    }
    if peers.has("GPyTorch"):
        theirs["GPyTorch"] = lambda: gpytorch_product(X, V, bandwidth)
    if peers.has("KeOps"):
        theirs["KeOps"] = lambda: keops_product(X, V, bandwidth)
    table = f"Kernel matrix of {len(X):,} x {sizes.inputs} points times {VECTORS} vectors"
    ours = {"Gaussian.matmul": lambda: kernel.matmul(X, X, V)}
    yield from race(
        table, ours, theirs, sizes, note="Ours and KeOps never hold the matrix.", repeats=sizes.slow_repeats
    )


def gpytorch_product(X: Tensor, V: Tensor, bandwidth: float) -> Any:
    from gpytorch.kernels import RBFKernel

    kernel = RBFKernel().to(X)
    kernel.lengthscale = bandwidth
    with torch.no_grad():
        return kernel(X) @ V


def keops_product(X: Tensor, V: Tensor, bandwidth: float) -> Any:
    from pykeops.torch import LazyTensor

    difference = LazyTensor(X[:, None, :].contiguous()) - LazyTensor(X[None, :, :].contiguous())
    return (-(difference**2).sum(-1) * gamma(bandwidth)).exp() @ V
