"""What makes a kernel matrix easy or hard to approximate, and where the range of a factor lies."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.kernels import Kernel
from bochner.lowrank.factor import Factor
from bochner.lowrank.norms import Estimate, largest, over_subsets, spectral_norm

# Up to this many points K is held and decomposed.
EXACT_POINTS = 2048


def stable_rank(
    kernel: Kernel,
    X: Tensor,
    *,
    generator: Generator,
    num_points: int | None = None,
    repeats: int = 5,
    tolerance: float = 0.01,
) -> Estimate:
    """||K||_F^2 / ||K||^2, between 1 (all ones) and n (the identity): how many eigenvalues count beside the first.

    Of all points (O(n^2 d) a sweep) or as the mean over `repeats` sets of `num_points`. Source: Bhardwaj 2015, 5.1.1.

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
    matter alike) and sqrt(n / r) (some point has a direction of its own). Source: Bhardwaj 2015, Definition 1.

    >>> from bochner.kernels import Gaussian; from bochner.lowrank import truncate
    >>> factor = truncate(Gaussian(bandwidth=1e3), torch.randn(50, 2), rank=1, generator=Generator().manual_seed(0))
    >>> round(coherence(factor), 3)
    1.0
    """
    Q = _range(factor)
    return math.sqrt(len(Q) / max(1, Q.shape[1])) * float(Q.square().sum(dim=1).max().sqrt())


def principal_angles(first: Factor, second: Factor) -> Tensor:
    """The angles [r] between the ranges of two roots, ascending, in radians; to the optimal subspace when the second
    factor is that of `truncate`.

    Small ones from their sines, the others from their cosines: each is accurate where the other is not. O(n r^2).
    Source: Bjorck & Golub 1973.

    >>> from bochner.kernels import Gaussian; from bochner.lowrank import fit_nystrom, truncate
    >>> X = torch.randn(80, 1, generator=Generator().manual_seed(0), dtype=torch.float64)
    >>> best = truncate(Gaussian(), X, rank=3, generator=Generator().manual_seed(0))
    >>> found = fit_nystrom(Gaussian(), X, rank=3, generator=Generator().manual_seed(0))
    >>> bool(principal_angles(found, best).max() < 0.01)
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
    """An orthonormal basis of the range of U, without directions that are rounding."""
    values, vectors = factor.eigenpairs()
    floor = (torch.finfo(factor.dtype).eps * len(values)) ** 2 * values[0]
    return vectors[:, values > floor]
