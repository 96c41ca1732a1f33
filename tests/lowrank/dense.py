"""Sampled entries written out as whole matrices: what the fast code is compared with."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from bochner.lowrank.sampling import Samples


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def points(count: int, inputs: int = 3, seed: int = 0) -> Tensor:
    return torch.randn(count, inputs, generator=generator(seed), dtype=torch.float64)


def dense_weights(samples: Samples) -> Tensor:
    """The weight of every entry [n, n], 0 where it is not sampled."""
    n = samples.num_columns
    W = torch.zeros(n + 1, n + 1, dtype=torch.float64)
    for a, rows in enumerate(samples.blocks):
        mine = slice(int(samples.offsets[a]), int(samples.offsets[a + 1]))
        for i in rows.tolist():
            W[i, samples.columns[mine]] += samples.weights[mine]
    W = W[:n, :n]
    if len(samples.diagonal):
        W = W + torch.diag(samples.diagonal)
    assert (W[samples.centers] == 0).all()  # whole rows, and nothing of them twice
    assert (W[:, samples.centers] == 0).all()
    W[samples.centers], W[:, samples.centers] = 1.0, 1.0
    return W


def naive_rows(W: Tensor, K: Tensor, Q: Tensor, prior: Tensor, alpha: float) -> Tensor:
    """argmin sum_i W_ij (K_ij - q_i . y_j)^2 + alpha ||y_j - prior_j||^2, one row after the other."""
    eye = torch.eye(Q.shape[1], dtype=Q.dtype)
    solved = [
        torch.linalg.solve(Q.T @ (w[:, None] * Q) + alpha * eye, Q.T @ (w * k) + alpha * p)
        for w, k, p in zip(W, K, prior, strict=True)
    ]
    return torch.stack(solved)
