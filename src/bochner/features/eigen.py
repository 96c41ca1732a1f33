"""The largest eigenpairs of a small symmetric matrix."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

OVERSAMPLING = 10
POWER_ROUNDS = 4


def top_eigenpairs(K: Tensor, count: int, *, generator: Generator) -> tuple[Tensor, Tensor]:
    """The `count` largest eigenvalues [D], descending, and eigenvectors [m, D] of a positive semi-definite K [m, m].

    All of them are wanted: the exact decomposition, O(m^3). Few of them: a randomised one, O(m^2 D), which looks at the
    range of K^5 times a Gaussian matrix. Source: Halko, Martinsson & Tropp 2011; for Nystrom, Li et al. 2010.
    """
    if count > len(K) // 3:
        values, vectors = torch.linalg.eigh(K)
        return values.flip(0)[:count], vectors.flip(1)[:, :count]
    shape = (len(K), count + OVERSAMPLING)
    normals = torch.randn(shape, generator=generator, device=generator.device, dtype=K.dtype)
    Q = torch.linalg.qr(K @ normals.to(K.device)).Q
    for _ in range(POWER_ROUNDS):
        Q = torch.linalg.qr(K @ Q).Q
    values, small = torch.linalg.eigh(Q.T @ K @ Q)
    return values.flip(0)[:count], (Q @ small).flip(1)[:, :count]
