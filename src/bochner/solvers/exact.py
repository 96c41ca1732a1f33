"""Kernel least squares on all rows: one factorisation, or one for each part of a partition; leave-one-out residuals."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from bochner import checks
from bochner.kernels import Kernel
from bochner.models.landmarks import LandmarkModel
from bochner.models.partition import PartitionedModel
from bochner.ops import row_tiles

# Up to this many rows a factorisation in float64 takes less than a second on two cores.
DOUBLE_ROWS = 3000
# Leave-one-out residuals are computed for this many rows: their quantiles are then known to a per cent.
LEAVE_OUT_ROWS = 2000
FACTOR_ATTEMPTS = 6  # the penalty grows tenfold each time a factorisation fails


class ExactFit(NamedTuple):
    """A model, and the rows [r] whose leave-one-out predictions [r, t] are known."""

    model: nn.Module
    rows: Tensor
    left_out: Tensor


def fit_exact(kernel: Kernel, X: Tensor, Y: Tensor, *, alpha: float, weight: Tensor | None = None) -> ExactFit:
    """f = K a + b with b the weighted mean of Y [n, t] and (K + alpha W^{-1}) a = Y - b, W = diag(weight).

    alpha is the variance of the noise where k(x, x) = 1 is that of the function: it does not depend on n. With
    K + alpha W^{-1} = L L^T, the prediction for row i by the model without it is y_i - a_i / (L^{-T} L^{-1})_ii. For
    the last m rows only the trailing m x m block of L is needed, so that their residuals cost O(m^3 / 3); X must be in
    random order for them to be a sample. One matrix [n, n], factorised in place, in float64 up to 3,000 rows and in
    float32 beyond; O(n^3 / 3 + n^2 d).

    >>> from bochner.kernels import PowerExponential
    >>> X = torch.linspace(-2, 2, 50)[:, None]
    >>> fit = fit_exact(PowerExponential(exponent=2.0), X, X.sin(), alpha=1e-4)
    >>> bool((fit.left_out - X[fit.rows].sin()).abs().max() < 1e-2)
    True
    """
    checks.positive_float("alpha", alpha)
    n = len(X)
    w = torch.ones(n, dtype=torch.float64, device=X.device) if weight is None else weight.double()
    bias = (Y.double() * w[:, None]).sum(dim=0) / w.sum()
    dtype = torch.float64 if n <= DOUBLE_ROWS else torch.float32
    points, residual = X.to(dtype), (Y.double() - bias).to(dtype)
    for attempt in range(FACTOR_ATTEMPTS):
        shift = alpha * 10.0**attempt
        factor = _factorise(kernel, points, (shift / w).to(dtype))
        if factor is not None:
            break
    else:
        raise ValueError(f"kernel must be positive semi-definite, but {kernel!r} is not on the rows.")
    half = torch.linalg.solve_triangular(factor, residual, upper=False)
    coefficients = torch.linalg.solve_triangular(factor.mT, half, upper=True)
    m = min(n, LEAVE_OUT_ROWS)
    identity = torch.eye(m, dtype=dtype, device=X.device)
    inverse = torch.linalg.solve_triangular(factor[n - m :, n - m :], identity, upper=False).square_().sum(dim=0)
    left_out = Y[n - m :].double() - coefficients[n - m :].double() / inverse.double()[:, None]
    model = LandmarkModel(kernel, X, coefficients.to(X), bias.to(X))
    return ExactFit(model, torch.arange(n - m, n, device=X.device), left_out)


def _factorise(kernel: Kernel, X: Tensor, shift: Tensor) -> Tensor | None:
    """L with L L^T = K + diag(shift), or None; in the memory of K."""
    K = X.new_empty(len(X), len(X))
    for tile in row_tiles(len(X), row_elements=len(X), tile_elements=2**24):
        K[tile] = kernel(X[tile], X)
    K.diagonal().copy_(kernel.diagonal(X) + shift)
    transposed = K.mT  # in LAPACK's order, which is factorised in place
    failed = torch.empty((), dtype=torch.int32, device=X.device)
    torch.linalg.cholesky_ex(transposed, out=(transposed, failed))
    return None if int(failed) else transposed


def fit_partition(
    kernel: Kernel, X: Tensor, Y: Tensor, *, alpha: float, max_rows: int, weight: Tensor | None = None
) -> ExactFit:
    """`fit_exact` on each part of a partition of the rows into parts of at most `max_rows`.

    A part is split at the median of its rows along their first principal component, as the kernel sees them (scaled, or
    under its metric), until it is small enough. O(n max_rows^2 / 3) for the factorisations and one matrix
    [max_rows, max_rows]. Rows near a boundary lose the neighbours beyond it: the price for n rows at once.
    Source: Beaglehole et al. 2025 (xRFM) split likewise.
    """
    if len(X) <= max_rows:
        return fit_exact(kernel, X, Y, alpha=alpha, weight=weight)
    directions: list[Tensor] = []
    thresholds: list[float] = []
    branches: list[list[int]] = []
    leaves: list[Tensor] = []

    def split(rows: Tensor) -> int:
        if len(rows) <= max_rows:
            leaves.append(rows)
            return -len(leaves)
        node = len(branches)
        branches.append([0, 0])
        prepared = kernel.prepare(X[rows])
        centred = (prepared - prepared.mean(dim=0)).double()
        component = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -1:]
        direction = kernel.fold(component.to(X))[:, 0]
        places = X[rows] @ direction
        order = places.argsort()
        half = len(rows) // 2
        directions.append(direction)
        thresholds.append(float(places[order[half - 1]] + places[order[half]]) / 2)
        right = places > thresholds[-1]
        if bool(right.all()) or not bool(right.any()):  # all rows in one place: any halves will do
            right = torch.zeros(len(rows), dtype=torch.bool, device=X.device)
            right[order[half:]] = True
        branches[node][0] = split(rows[~right])
        branches[node][1] = split(rows[right])
        return node

    split(torch.arange(len(X), device=X.device))
    fits = [
        fit_exact(kernel, X[rows], Y[rows], alpha=alpha, weight=None if weight is None else weight[rows])
        for rows in leaves
    ]
    share = -(-LEAVE_OUT_ROWS // len(fits))
    model = PartitionedModel(
        torch.stack(directions),
        torch.tensor(thresholds, dtype=X.dtype, device=X.device),
        torch.tensor(branches, device=X.device),
        [fit.model for fit in fits],
    )
    return ExactFit(
        model,
        torch.cat([rows[fit.rows[-share:]] for rows, fit in zip(leaves, fits, strict=True)]),
        torch.cat([fit.left_out[-share:] for fit in fits]),
    )
