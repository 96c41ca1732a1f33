"""How far U U^T is from K; in float64, without holding K."""

from __future__ import annotations

import copy

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.lowrank.factor import Factor
from bochner.lowrank.norms import Estimate, largest, over_subsets, root_of_total, spectral_norm, subset
from bochner.ops import row_tiles

# Up to this many points the difference K - U U^T is held and decomposed.
EXACT_POINTS = 2048
TILE_ELEMENTS = 2**22


def spectral_error(
    factor: Factor,
    X: Tensor,
    *,
    generator: Generator,
    num_points: int | None = None,
    repeats: int = 5,
    tolerance: float = 0.01,
) -> Estimate:
    """||K - U U^T||, the largest |eigenvalue| of the difference, for the points X [n, d] of the factor.

    `num_points` None: of all points; exact up to 2,048, then by block Lanczos, until the residual of the Ritz pair is
    below `tolerance` times its value, or 40 sweeps of O(n^2 d). A number: mean and standard error over `repeats` random
    sets of that many points, each exact, O(repeats s^3). Bhardwaj 2015 takes 1,000.

    >>> from bochner.kernels import Gaussian; from bochner.lowrank import truncate
    >>> X = torch.linspace(0, 5, 60, dtype=torch.float64)[:, None]
    >>> factor = truncate(Gaussian(), X, rank=5, generator=Generator().manual_seed(0))
    >>> found = spectral_error(factor, X, generator=Generator().manual_seed(0))
    >>> sixth = torch.linalg.eigvalsh(Gaussian()(X))[-6]
    >>> abs(found.value - float(sixth)) < 1e-9, found.error
    (True, 0.0)
    """
    X, exact = _points(factor, X), _doubled(factor)
    if num_points is None and len(X) > EXACT_POINTS:
        return spectral_norm(
            lambda V: factor.kernel.matmul(X, X, V) - exact.matmul(V), X, generator=generator, tolerance=tolerance
        )

    def norm(index: Tensor) -> float:
        U = exact.rows(index)
        return largest(factor.kernel(X[index]) - U @ U.T)

    return over_subsets(norm, X, num_points, repeats, generator)


def frobenius_error(factor: Factor, X: Tensor, *, generator: Generator, num_rows: int | None = None) -> Estimate:
    """||K - U U^T||_F for the points X [n, d] of the factor: exact in one sweep, O(n^2 (d + r)), or from `num_rows`
    random rows of the difference, O(num_rows n (d + r)), with its standard error.

    >>> from bochner.kernels import Gaussian; from bochner.lowrank import fit_nystrom
    >>> X = torch.randn(300, 2, generator=Generator().manual_seed(0))
    >>> factor = fit_nystrom(Gaussian(), X, rank=10, generator=Generator().manual_seed(0))
    >>> exact = frobenius_error(factor, X, generator=Generator().manual_seed(1))
    >>> sampled = frobenius_error(factor, X, generator=Generator().manual_seed(1), num_rows=60)
    >>> abs(sampled.value - exact.value) < 4 * sampled.error
    True
    """
    X, exact = _points(factor, X), _doubled(factor)
    if num_rows == 1:
        raise ValueError("num_rows must be at least 2, since one row says nothing of the spread, got 1.")
    rows = subset(len(X), num_rows, "num_rows", generator).to(X.device)
    sums = []
    for tile in row_tiles(len(rows), row_elements=len(X), tile_elements=TILE_ELEMENTS):
        part = rows[tile]
        difference = factor.kernel(X[part], X) - exact.expand(exact.rows(part).T).T
        sums.append(difference.square().sum(dim=1))
    return root_of_total(torch.cat(sums), len(X))


def trace_error(factor: Factor, X: Tensor) -> Estimate:
    """tr(K - U U^T), exact in O(n (d + r)): nothing is sampled.

    Where U U^T never exceeds K (SVD, Nystrom, pivoted Cholesky) this is the trace norm of the difference. For other
    factors (Fourier, MEKA, ALS) errors of both signs cancel in it: look at the norms as well.

    >>> from bochner.kernels import Gaussian; from bochner.lowrank import truncate
    >>> X = torch.eye(3, dtype=torch.float64)
    >>> factor = truncate(Gaussian(bandwidth=0.01), X, rank=2, generator=Generator().manual_seed(0))
    >>> round(trace_error(factor, X).value, 6)
    1.0
    """
    X = _points(factor, X)
    return Estimate(float((factor.kernel.diagonal(X) - _doubled(factor).diag()).sum()), 0.0)


def _points(factor: Factor, X: Tensor) -> Tensor:
    checks.finite("X", checks.inputs("X", X, width=factor.features.num_inputs))
    if len(X) != factor.num_points:
        raise ValueError(f"X must be the {factor.num_points} points that the factor was fitted on, got {len(X)} rows.")
    return X.double()


def _doubled(factor: Factor) -> Factor:
    """The factor in float64: its error must not be that of the arithmetic that measures it."""
    return factor if factor.dtype == torch.float64 else copy.deepcopy(factor).double()
