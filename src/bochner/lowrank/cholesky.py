"""Randomly pivoted Cholesky factors."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from bochner.features import NystromMap
from bochner.features.landmarks import pivoted_cholesky
from bochner.kernels import Kernel
from bochner.lowrank.factor import DenseFactor
from bochner.lowrank.inputs import check_below, check_definite, check_problem, kernel_matrix


def fit_pivoted_cholesky(kernel: Kernel, X: Tensor, *, rank: int, generator: Generator) -> DenseFactor:
    """U [n, r], the partial Cholesky factor of K = k(X, X) whose pivots are drawn in proportion to the residual
    diagonal: exact on the rows of the pivots P, and E tr(K - U U^T) near the best for the rank.

    A new point has z(x) = U_P^{-1} k(P, x), U_P [r, r] lower triangular: transform(points) is U. When K is exhausted
    before the rank (duplicated points, a huge bandwidth), the columns that are left are zero.
    Only r columns of K are evaluated, in float64: O(n r (d + r)) time, O(n r) memory. For 4 r pivots cut back to rank r
    use `fit_nystrom(landmarks="pivoted-cholesky")`. Source: Chen et al. 2025; Epperly et al. 2024.

    >>> from bochner.kernels import Gaussian
    >>> X = torch.randn(100, 2, generator=Generator().manual_seed(0), dtype=torch.float64)
    >>> factor = fit_pivoted_cholesky(Gaussian(), X, rank=30, generator=Generator().manual_seed(0))
    >>> bool((factor.diag() <= 1 + 1e-9).all()), bool(factor.diag().mean() > 0.99)
    (True, True)
    """
    check_problem(kernel, X, rank)
    pivots, root = pivoted_cholesky(kernel, X, rank, generator=generator)
    check_definite(kernel, torch.linalg.eigvalsh(kernel_matrix(kernel, X[pivots])))
    check_below(kernel, X, root)
    features = NystromMap(kernel, X[pivots], _inverse_transposed(root[pivots]).to(X.dtype).contiguous())
    return DenseFactor(root.to(X.dtype), features)


def _inverse_transposed(lower: Tensor) -> Tensor:
    """L^{-T} [r, r], with zeros where the pivots ran out."""
    used = int((lower.diagonal() > 0).sum())
    inverse = torch.zeros_like(lower)
    identity = torch.eye(used, dtype=lower.dtype, device=lower.device)
    inverse[:used, :used] = torch.linalg.solve_triangular(lower[:used, :used].T, identity, upper=True)
    return inverse
