"""Errors of a factor, and measures of how well a kernel matrix can be approximated."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.features.landmarks import uniform_sample
from bochner.kernels import Kernel
from bochner.lowrank.factor import Factor
from bochner.ops import TILE_ELEMENTS, row_tiles

# Up to this many points an [n, n] matrix is decomposed in memory: 32 MiB, and a second or two.
EXACT_POINTS = 2048
# Columns of a block of Lanczos vectors: kernel values dominate the cost of a sweep over K, not these few products.
LANCZOS_COLUMNS = 4
LANCZOS_SWEEPS = 40


class Estimate(NamedTuple):
    """A number and its uncertainty.

    `error` is a standard error if points were sampled, the residual ||E v - value v|| of an iterated norm (an
    eigenvalue of E is at most that far away), and 0 for an exact value.
    """

    value: float
    error: float


def spectral_norm(
    multiply: Callable[[Tensor], Tensor], X: Tensor, *, generator: Generator, tolerance: float = 0.01
) -> Estimate:
    """The largest |eigenvalue| of a symmetric [n, n] operator, V [n, c] -> multiply(V), by block Lanczos.

    It ends when the residual ||E v - value v|| of the Ritz pair is below `tolerance` times the value, or after 40
    sweeps. The value is a lower bound, and `error`, the residual, bounds its distance to an eigenvalue.
    n, dtype and device are those of X [n, d].

    >>> d = torch.linspace(-3, 2, 100, dtype=torch.float64)
    >>> norm = spectral_norm(lambda V: d[:, None] * V, d[:, None], generator=Generator().manual_seed(0))
    >>> 2.9 < norm.value <= 3, norm.error < 0.03
    (True, True)
    """
    checks.positive_float("tolerance", tolerance)
    columns = min(LANCZOS_COLUMNS, len(X))
    normals = torch.randn(len(X), columns, generator=generator, device=generator.device, dtype=torch.float64)
    basis = torch.linalg.qr(normals.to(X)).Q
    images = latest = multiply(basis)
    last = min(LANCZOS_SWEEPS, len(X) // columns) - 1
    for sweep in range(last + 1):
        value, residual = _ritz_pair(basis, images)
        if residual <= tolerance * abs(value) or sweep == last:
            break
        new = orthogonal(latest, basis)
        latest = multiply(new)
        basis, images = torch.cat([basis, new], dim=1), torch.cat([images, latest], dim=1)
    return Estimate(abs(value), residual)


def orthogonal(new: Tensor, Q: Tensor) -> Tensor:
    """Orthonormal columns, as many as `new` has, that extend Q to the span of both.

    One factorization of both: if `new` lies in the span of Q, subtracting projections would leave rounding errors.
    """
    return torch.linalg.qr(torch.cat([Q, new], dim=1)).Q[:, Q.shape[1] :]


def _ritz_pair(basis: Tensor, images: Tensor) -> tuple[float, float]:
    """The Ritz value of largest magnitude, and its residual."""
    core = basis.T @ images
    values, vectors = torch.linalg.eigh((core + core.T) / 2)
    top = int(values.abs().argmax())
    v = vectors[:, top]
    return float(values[top]), float((images @ v - values[top] * (basis @ v)).norm())


def largest(symmetric: Tensor) -> float:
    """The spectral norm of a small symmetric matrix."""
    return float(torch.linalg.eigvalsh(symmetric).abs().max())


def subset(population: int, count: int | None, name: str, generator: Generator) -> Tensor:
    """`count` random indices below `population`; all of them if `count` is None or larger."""
    if count is None or checks.positive_int(name, count) >= population:
        return torch.arange(population)
    return uniform_sample(population, count, generator=generator)


def over_subsets(
    measure: Callable[[Tensor], float], X: Tensor, num_points: int | None, repeats: int, generator: Generator
) -> Estimate:
    """Mean and standard error of `measure` over random sets of `num_points` points; its exact value on all points if
    `num_points` is None or at least n."""
    if num_points is None or checks.positive_int("num_points", num_points) >= len(X):
        return Estimate(measure(torch.arange(len(X), device=X.device)), 0.0)
    if checks.positive_int("repeats", repeats) < 2:
        raise ValueError(f"repeats must be at least 2 for a standard error, got {repeats}.")
    draws = (subset(len(X), num_points, "num_points", generator).to(X.device) for _ in range(repeats))
    values = torch.tensor([measure(index) for index in draws], dtype=torch.float64)
    return Estimate(float(values.mean()), float(values.std()) / math.sqrt(repeats))


def root_of_total(sums: Tensor, population: int) -> Estimate:
    """The root of the total of `population` non-negative numbers, from a sample `sums` without replacement."""
    total = population * float(sums.mean())
    if len(sums) == population or total == 0:
        return Estimate(math.sqrt(total), 0.0)
    share = 1 - len(sums) / population
    error = population * float(sums.std()) * math.sqrt(share / len(sums))
    return Estimate(math.sqrt(total), error / (2 * math.sqrt(total)))


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

    `num_points` None: on all points, exact up to 2,048, otherwise by block Lanczos until the residual of the Ritz pair
    is below `tolerance` times its value, or 40 sweeps of O(n^2 d). Otherwise mean and standard error over `repeats`
    random sets of s = `num_points` points, each exact, O(repeats s^3); Bhardwaj 2015 uses 1,000.

    >>> from bochner.kernels import Gaussian; from bochner.lowrank import truncate
    >>> X = torch.linspace(0, 5, 60, dtype=torch.float64)[:, None]
    >>> factor = truncate(Gaussian(), X, rank=5, generator=Generator().manual_seed(0))
    >>> error = spectral_error(factor, X, generator=Generator().manual_seed(0))
    >>> sixth = torch.linalg.eigvalsh(Gaussian()(X))[-6]
    >>> abs(error.value - float(sixth)) < 1e-9, error.error
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
        raise ValueError("num_rows must be at least 2 for a standard error, got 1.")
    rows = subset(len(X), num_rows, "num_rows", generator).to(X.device)
    sums = []
    for tile in row_tiles(len(rows), row_elements=len(X), tile_elements=TILE_ELEMENTS):
        part = rows[tile]
        difference = factor.kernel(X[part], X) - exact.expand(exact.rows(part).T).T
        sums.append(difference.square().sum(dim=1))
    return root_of_total(torch.cat(sums), len(X))


def trace_error(factor: Factor, X: Tensor) -> Estimate:
    """tr(K - U U^T), exact in O(n (d + r)).

    If U U^T never exceeds K (SVD, Nystrom, pivoted Cholesky) this is the trace norm of the difference. For other
    factors (Fourier, MEKA, ALS) errors of opposite signs cancel in it; use the norms instead.

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
    """The factor in float64, so that the measurement itself adds no rounding error."""
    return factor if factor.dtype == torch.float64 else copy.deepcopy(factor).double()


def stable_rank(
    kernel: Kernel,
    X: Tensor,
    *,
    generator: Generator,
    num_points: int | None = None,
    repeats: int = 5,
    tolerance: float = 0.01,
) -> Estimate:
    """||K||_F^2 / ||K||^2, between 1 (all ones) and n (the identity): the effective number of eigenvalues.

    On all points (O(n^2 d) per sweep) or as the mean over `repeats` sets of `num_points`. Source: Bhardwaj 2015, 5.1.1.

    >>> from bochner.kernels import Gaussian
    >>> stable_rank(Gaussian(bandwidth=1e-3), torch.arange(9.0)[:, None], generator=Generator().manual_seed(0))
    Estimate(value=9.0, error=0.0)
    """
    X = checks.finite("X", checks.inputs("X", X)).double()
    if num_points is None and len(X) > EXACT_POINTS:
        squares = sum(float(block.square().sum()) for _, block in kernel.blocks(X, X))
        norm = spectral_norm(lambda V: kernel.matmul(X, X, V), X, generator=generator, tolerance=tolerance)
        value = squares / norm.value**2
        return Estimate(value, 2 * value * norm.error / norm.value)

    def ratio(index: Tensor) -> float:
        K = kernel(X[index])
        return float(K.square().sum()) / largest(K) ** 2

    return over_subsets(ratio, X, num_points, repeats, generator)


def coherence(factor: Factor) -> float:
    """mu = sqrt(n / r) max_i ||q_i||, q_i the rows of an orthonormal basis of the range of U: between 1 (all points
    contribute equally) and sqrt(n / r) (one point alone spans a direction). Source: Bhardwaj 2015, Definition 1.

    >>> from bochner.kernels import Gaussian; from bochner.lowrank import truncate
    >>> factor = truncate(Gaussian(bandwidth=1e3), torch.randn(50, 2), rank=1, generator=Generator().manual_seed(0))
    >>> round(coherence(factor), 3)
    1.0
    """
    Q = _range(factor)
    return math.sqrt(len(Q) / max(1, Q.shape[1])) * float(Q.square().sum(dim=1).max().sqrt())


def principal_angles(first: Factor, second: Factor) -> Tensor:
    """The angles [r] between the ranges of two factors, ascending, in radians; with the factor of `truncate` as
    `second`, the angles to the optimal subspace.

    Small angles come from sines and the others from cosines, each where it is accurate. O(n r^2).
    Source: Bjorck & Golub 1973.

    >>> from bochner.kernels import Gaussian; from bochner.lowrank import fit_nystrom, truncate
    >>> X = torch.randn(80, 1, generator=Generator().manual_seed(0), dtype=torch.float64)
    >>> best = truncate(Gaussian(), X, rank=3, generator=Generator().manual_seed(0))
    >>> factor = fit_nystrom(Gaussian(), X, rank=3, generator=Generator().manual_seed(0))
    >>> bool(principal_angles(factor, best).max() < 0.01)
    True
    """
    if first.num_points != second.num_points:
        raise ValueError(f"factors must have the same points, got {first.num_points} and {second.num_points} of them.")
    A, B = sorted((_range(first), _range(second)), key=lambda Q: Q.shape[1])
    cross = B.T @ A
    cosines = torch.linalg.svdvals(cross).clamp(0, 1)
    sines = torch.linalg.svdvals(A - B @ cross).clamp(0, 1).flip(0)
    return torch.where(cosines.square() < 0.5, cosines.acos(), sines.asin())


def _range(factor: Factor) -> Tensor:
    """An orthonormal basis of the range of U, without directions at the level of rounding."""
    values, vectors = factor.eigenpairs()
    floor = (torch.finfo(factor.dtype).eps * len(values)) ** 2 * values[0]
    return vectors[:, values > floor]
