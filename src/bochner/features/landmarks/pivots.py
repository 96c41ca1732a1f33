"""Randomly pivoted Cholesky."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.kernels import Kernel


class PivotedCholesky(NamedTuple):
    """K ~ F F^T from the columns of K at the pivots."""

    pivots: Tensor  # [m] indices into X
    factor: Tensor  # [n, m]


def pivoted_cholesky(
    kernel: Kernel, X: Tensor, rank: int, *, generator: Generator, block_size: int = 64
) -> PivotedCholesky:
    """Partial Cholesky factorisation of k(X, X), X [n, d], with pivots drawn in proportion to the residual diagonal.

    The accelerated form: `block_size` pivots are proposed at once from the residual diagonal and each is kept with
    the probability that makes the result one of pivoting one by one. Only m columns of K are ever evaluated.
    Kept in float64. O(n m^2 + nmd) time, O(nm) memory. Source: Chen et al. 2025; Epperly et al. 2024.
    """
    points = X.double()
    residual = kernel.diagonal(points).clone()
    start = float(residual.sum())
    factor = residual.new_zeros(len(X), rank)
    pivots: list[int] = []
    while len(pivots) < rank:
        if float(residual.sum()) <= 1e-14 * start:  # K is exhausted: any further points will do
            return _filled(pivots, factor, rank)
        proposals = _proposals(residual, min(block_size, 2 * (rank - len(pivots))), generator)
        known = factor[:, : len(pivots)]
        core = checks.finite("k(X, X)", kernel(points[proposals])) - known[proposals] @ known[proposals].T
        accepted = _accept(core, residual[proposals], proposals, generator)[: rank - len(pivots)]
        if not accepted:
            continue
        new = proposals[accepted]
        columns = checks.finite("k(X, X)", kernel(points, points[new])) - known @ known[new].T
        L = torch.linalg.cholesky(core[accepted][:, accepted])
        columns = torch.linalg.solve_triangular(L, columns.T, upper=False).T
        factor[:, len(pivots) : len(pivots) + len(accepted)] = columns
        residual = (residual - columns.square().sum(dim=1)).clamp_min(0)
        residual[new] = 0
        pivots += new.tolist()
    return PivotedCholesky(torch.tensor(pivots, device=X.device), factor)


def _proposals(residual: Tensor, count: int, generator: Generator) -> Tensor:
    """Indices drawn with replacement in proportion to the residual, by inverting its cumulative sum."""
    heights = residual.cumsum(0)
    uniforms = torch.rand(count, generator=generator, device=generator.device, dtype=torch.float64)
    found = torch.searchsorted(heights, uniforms.to(residual.device) * heights[-1])
    return found.clamp_max(len(residual) - 1)


def _accept(core: Tensor, bounds: Tensor, proposals: Tensor, generator: Generator) -> list[int]:
    """Which proposals survive: each with the share of its residual that the accepted before it leave."""
    coins = torch.rand(len(core), generator=generator, device=generator.device, dtype=torch.float64)
    H, coins, bounds = core.cpu().clone(), coins.cpu(), bounds.cpu()
    accepted: list[int] = []
    for i in range(len(H)):
        left = float(H[i, i])
        # the floor keeps the small Cholesky factorisation of the accepted positive definite
        if left > 1e-10 * float(bounds[i]) and float(coins[i]) * float(bounds[i]) < left:
            accepted.append(i)
            column = H[:, i] / left**0.5
            H -= column[:, None] * column
    return accepted


def _filled(pivots: list[int], factor: Tensor, rank: int) -> PivotedCholesky:
    unused = torch.ones(len(factor), dtype=torch.bool)
    unused[pivots] = False
    others = unused.nonzero().squeeze(1)[: rank - len(pivots)].tolist()
    return PivotedCholesky(torch.tensor(pivots + others, device=factor.device), factor)
