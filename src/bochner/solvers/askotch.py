"""Kernel least squares on all rows by accelerated block coordinate descent (ASkotch), for matrices beyond memory."""

from __future__ import annotations

import logging
import math
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.data.blocks import Source
from bochner.features.landmarks import pivoted_cholesky
from bochner.kernels import Kernel
from bochner.models.landmarks import LandmarkModel
from bochner.ops.linalg import Report, warn_stopped
from bochner.solvers.exact import gather_rows

logger = logging.getLogger(__name__)

# Blocks of a fiftieth of the rows: large enough for products at full speed, few enough entries of their own matrix.
BLOCK_SHARE, MIN_BLOCK_ROWS, MAX_BLOCK_ROWS = 1 / 50, 512, 8192
POWER_STEPS = 10  # for the largest eigenvalue of a preconditioned block
SAFETY = 1.1  # the power method approaches that eigenvalue from below


def fit_askotch(
    kernel: Kernel,
    source: Source,
    *,
    alpha: float | None = None,
    num_classes: int | None = None,
    tolerance: float = 1e-3,
    max_epochs: int = 100,
    block_rows: int | None = None,
    rank: int | None = None,
    generator: Generator | None = None,
    report: Report | None = None,
    group: Any = None,
) -> LandmarkModel:
    """What `fit_exact_ridge` solves, (K + s I) a = Y - b with s = n alpha, without ever holding K.

    A step draws a block B of rows and moves their coefficients by

        a_B <- a_B - P^{-1} (K_B: a + s a_B - (Y - b)_B) / L.

    P is K_BB + s I itself, factorised, and L = 1: the product with K_B: costs more than the factorisation as long as
    |B|^2 is below some 300 n. With a `rank`, as in the paper, P = F F^T + (s + f) I with the randomly pivoted Cholesky
    factor F [|B|, rank] of K_BB, f the least eigenvalue of F^T F, and L the largest eigenvalue of P^{-1} (K_BB + s I),
    by the power method: O(|B|^2 rank) instead of |B|^3 / 3, and more epochs. Nesterov's acceleration mixes two
    sequences, with mu = s / k(x, x) and nu = n / |B|. A row of weight w counts as w equal rows.

    Stops when the residuals of an epoch's blocks, each seen before its step, are together `tolerance` of the targets;
    `report` gets the epoch and that number, and a ConvergenceWarning is issued after `max_epochs`. An epoch is
    n / block_rows steps, a block a fiftieth of the rows by default, between 512 and 8,192. Iterates and factors are in
    float64, products with K in the dtype of X. With a `group` of R processes each reads its own shards and multiplies
    with an R-th of the columns of K_B:; the model is that of one process.
    O(n |B| (d + t) + |B|^3 / 3) per step, O(n^2 (d + t)) per epoch; memory O(n (d + t) + |B|^2).
    Source: Rathore, Frangella, Yang, Derezinski & Udell 2025 (ASkotch); Epperly et al. 2024 (pivots).

    >>> from bochner.kernels import Laplacian; from bochner.data import ArraySource
    >>> X = torch.linspace(-2, 2, 700)[:, None]
    >>> model = fit_askotch(Laplacian(), ArraySource(X, X[:, 0].sin()), alpha=1e-6, block_rows=100)
    >>> bool((model.decision(X) - X.sin()).abs().max() < 1e-2)
    True
    """
    checks.positive_float("tolerance", tolerance)
    checks.positive_int("max_epochs", max_epochs)
    if rank is not None:
        checks.positive_int("rank", rank)
    generator = generator or Generator().manual_seed(0)
    X, Y, weight, shift = gather_rows(kernel, source, alpha=alpha, num_classes=num_classes, group=group)
    n, roots = len(X), weight.double().sqrt()[:, None]  # W^1/2 K W^1/2 + s I has one shift for all rows
    size = min(n, max(MIN_BLOCK_ROWS, min(MAX_BLOCK_ROWS, math.ceil(BLOCK_SHARE * n))))
    size = size if block_rows is None else min(n, checks.positive_int("block_rows", block_rows))
    bias = (Y.double() * weight.double()[:, None]).sum(dim=0) / weight.double().sum()
    targets = roots * (Y.double() - bias)
    scale = float((targets / roots).square().sum())
    momentum = _Momentum.of(shift / float((roots.square()[:, 0] * kernel.diagonal(X).double()).mean()), n / size)
    # `solution` is the sequence that converges; products are taken at `ahead`, a mix of it and `carried`
    solution, carried, ahead = (torch.zeros_like(targets) for _ in range(3))
    own = slice(0, n)
    if group is not None:
        own = slice(*(n * share // group.num_shares for share in (group.share_number, group.share_number + 1)))
    left = 1.0
    for epoch in range(1, max_epochs + 1):
        seen = squares = 0.0
        for rows in torch.randperm(n, generator=generator).to(X.device).split(size):
            product = kernel.matmul(X[rows], X[own], (roots[own] * ahead[own]).to(X)).double()
            if group is not None:
                product = group.sum(product)
            residual = roots[rows] * product + shift * ahead[rows] - targets[rows]
            seen, squares = seen + len(rows), squares + float((residual / roots[rows]).square().sum())
            move = _block_step(kernel, X[rows], roots[rows], residual, shift, rank=rank, generator=generator)
            solution.copy_(ahead)
            solution[rows] -= move
            carried.lerp_(ahead, 1 - momentum.beta)
            carried[rows] -= momentum.gamma * move
            torch.lerp(solution, carried, momentum.alpha, out=ahead)
        left = math.sqrt(squares / scale) if scale > 0 else 0.0
        logger.debug("epoch %d: %.3g of the residual left", epoch, left)
        if report is not None:
            report(epoch, left)
        if left <= tolerance:
            break
    if not left <= tolerance:
        limit, reached = f"max_epochs={max_epochs}", f"{left:.3g} of the residual left"
        remedy = "raise max_epochs, or raise alpha, which makes the problem easier"
        warn_stopped("ASkotch", limit=limit, reached=reached, tolerance=tolerance, remedy=remedy)
    return LandmarkModel(kernel, X, (roots * solution).to(X), bias.to(X))


class _Momentum(NamedTuple):
    """The numbers of Nesterov's acceleration for 0 < mu <= 1 / nu."""

    alpha: float
    beta: float
    gamma: float

    @classmethod
    def of(cls, mu: float, nu: float) -> _Momentum:
        # a projection onto one of nu blocks has no larger least eigenvalue on average; a single block is solved at once
        mu = min(mu, 1 / nu) if nu > 1 else 1.0
        gamma = 1 / math.sqrt(mu * nu)
        return cls(1 / (1 + gamma * nu), 1 - math.sqrt(mu / nu), gamma)


def _block_step(
    kernel: Kernel,
    X: Tensor,
    roots: Tensor,
    residual: Tensor,
    shift: float,
    *,
    rank: int | None,
    generator: Generator,
) -> Tensor:
    """P^{-1} r / L for the rows of one block."""
    K = roots * kernel(X).double() * roots.T
    if rank is None or rank >= len(X):
        jitter = torch.finfo(torch.float32).eps * float(K.diagonal().mean()) if X.dtype == torch.float32 else 0.0
        K.diagonal().add_(shift + jitter)  # float32 values are that far from those of a positive definite matrix
        return torch.cholesky_solve(residual, torch.linalg.cholesky(K))
    factor = roots * pivoted_cholesky(kernel, X, rank, generator=generator).factor
    values, vectors = torch.linalg.eigh(factor.T @ factor)
    damped = shift + float(values[0].clamp_min(0))
    kept = values > torch.finfo(values.dtype).eps * len(X) * float(values[-1])
    values = values[kept]
    U = factor @ (vectors[:, kept] / values.sqrt())

    def solve(R: Tensor) -> Tensor:
        inside = U.T @ R
        return (R - U @ inside) / damped + U @ (inside / (values + damped)[:, None])

    v = torch.randn(len(X), 1, generator=generator, dtype=torch.float64).to(residual)
    largest = 1.0
    for _ in range(POWER_STEPS):
        v = v / v.norm()
        image = solve(K @ v + shift * v)
        largest, v = max(1.0, float(image.norm())), image
    return solve(residual) / (SAFETY * largest)
