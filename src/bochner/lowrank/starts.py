"""Where alternating least squares begins."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.kernels import Kernel
from bochner.lowrank.entries import Entries
from bochner.lowrank.nystrom import fit_nystrom
from bochner.lowrank.ridges import multiply

STARTS = ["random", "nystrom", "kmeans-nystrom", "pivoted-nystrom", "sparse-svd"]
LANDMARKS = {"nystrom": "uniform", "kmeans-nystrom": "kmeans", "pivoted-nystrom": "pivoted-cholesky"}
# Rounds of subspace iteration for "sparse-svd": a start needs no more.
POWER_ROUNDS = 10
OVERSAMPLING = 10


def first_root(start: str, kernel: Kernel, X: Tensor, entries: Entries, *, rank: int, generator: Generator) -> Tensor:
    """U [n, r] to begin with, for X [n, d]:

    "random"          Normal(0, k(x, x) / r) entries: U U^T has K's diagonal on average
    "nystrom"         `fit_nystrom` from uniform points, cut back to its best rank r
    "kmeans-nystrom"  the same from k-means centres
    "pivoted-nystrom" the same from random pivots, which find points far from all others
    "sparse-svd"      the r largest eigenpairs of the sampled entries over their probabilities, 0 elsewhere
    """
    checks.one_of("start", start, STARTS)
    match start:
        case "random":
            sizes = (kernel.diagonal(X) / rank).sqrt()
            return sizes[:, None] * _normals(len(X), rank, generator).to(X)
        case "nystrom" | "kmeans-nystrom" | "pivoted-nystrom":
            return fit_nystrom(kernel, X, rank=rank, landmarks=LANDMARKS[start], generator=generator).root
        case _:
            return _sparse_svd(entries, rank, _normals(len(X), min(len(X), rank + OVERSAMPLING), generator).to(X))


def _sparse_svd(entries: Entries, rank: int, Q: Tensor) -> Tensor:
    Q = torch.linalg.qr(Q).Q
    for _ in range(POWER_ROUNDS):
        Q = torch.linalg.qr(multiply(entries, Q)).Q
    small = Q.T @ multiply(entries, Q)
    values, vectors = torch.linalg.eigh((small + small.T) / 2)
    return Q @ (vectors[:, -rank:] * values[-rank:].clamp_min(0).sqrt())


def _normals(rows: int, columns: int, generator: Generator) -> Tensor:
    return torch.randn(rows, columns, generator=generator, device=generator.device, dtype=torch.float64)
