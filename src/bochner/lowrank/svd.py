"""The best approximation of a given rank, from the largest eigenpairs of K."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.features.landmarks import pivoted_cholesky, uniform_sample
from bochner.kernels import Kernel
from bochner.lowrank.errors import EXACT_POINTS, orthogonal
from bochner.lowrank.factor import DenseFactor, check_definite, check_problem, extend, kernel_matrix
from bochner.ops.linalg import warn_stopped

# Eigenvalues below this many units of rounding of the largest are set to zero.
ROUNDING = 10
# Ritz vectors kept from one sweep to the next, as a multiple of the rank.
KEPT = 2


def truncate(
    kernel: Kernel,
    X: Tensor,
    *,
    rank: int,
    generator: Generator,
    tolerance: float = 0.01,
    max_sweeps: int = 12,
    num_anchors: int | None = None,
) -> DenseFactor:
    """U = Q_r L_r^{1/2} with the r largest eigenpairs of K = k(X, X): the best U U^T of this rank in the spectral norm
    (error l_{r+1}), in the Frobenius norm and in the trace.

    Exact in float64 up to 2,048 points and for n <= 3 r, O(n^3). Otherwise Ritz pairs in X's dtype from a subspace that
    starts as the range of 2 r randomly pivoted columns of K; each sweep over K adds the residuals K q - l q:
    O(n^2 (d + r)) per sweep, 3 to 5 of them for most kernels, memory O(n r). Iteration ends when
    (||K Q - Q L|| / l_{r+1})^2 <= `tolerance`, about the relative excess of the spectral error over the optimum, or,
    with a warning, after `max_sweeps`. Eigenvalues at the level of rounding give zero columns of U. New points are
    mapped by `extend`, with `num_anchors`.
    Sources: Eckart & Young 1936; Zhou & Saad 2008 for the iteration.

    >>> from bochner.kernels import Gaussian
    >>> X = torch.linspace(0, 1, 50, dtype=torch.float64)[:, None]
    >>> factor = truncate(Gaussian(), X, rank=4, generator=Generator().manual_seed(0))
    >>> bool((factor.root @ factor.root.T - Gaussian()(X)).abs().max() < 1e-4)
    True
    """
    check_problem(kernel, X, rank)
    checks.positive_float("tolerance", tolerance)
    checks.positive_int("max_sweeps", max_sweeps)
    if len(X) <= max(EXACT_POINTS, (KEPT + 1) * rank):
        values, vectors = _exact(kernel, X, rank)
    else:
        values, vectors, excess = _iterate(kernel, X, rank, generator, tolerance, max_sweeps)
        if excess > tolerance:
            warn_stopped(
                "truncate",
                limit=f"max_sweeps={max_sweeps}",
                reached=f"an excess error of about {excess:.1%}",
                tolerance=tolerance,
                remedy="raise max_sweeps, or use points in float64",
            )
    floor = ROUNDING * torch.finfo(vectors.dtype).eps * values[0]
    roots = torch.where(values > floor, values, 0).sqrt()
    root = (vectors * roots.to(vectors)).to(X.dtype).contiguous()
    return DenseFactor(root, extend(kernel, X, root, generator=generator, num_anchors=num_anchors))


def _exact(kernel: Kernel, X: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    values, vectors = torch.linalg.eigh(kernel_matrix(kernel, X))
    check_definite(kernel, values)
    return values.flip(0)[:rank], vectors.flip(1)[:, :rank]


def _iterate(
    kernel: Kernel, X: Tensor, rank: int, generator: Generator, tolerance: float, max_sweeps: int
) -> tuple[Tensor, Tensor, float]:
    """Ritz values [r] and vectors [n, r], and the relative excess of their spectral error."""
    width = KEPT * rank
    # Pivots include isolated points, whose eigenvectors a uniform sample misses; if K has too few pivots, arbitrary
    # rows complete the start.
    pivots = pivoted_cholesky(kernel, X, width, generator=generator).pivots
    others = uniform_sample(len(X), width, generator=generator)
    start = X[torch.cat([pivots.cpu(), others.cpu()])[:width].to(X.device)]
    Q = torch.linalg.qr(checks.finite("k(X, X)", kernel(X, start))).Q
    KQ = kernel.matmul(X, X, Q)
    for sweep in range(1, max_sweeps + 1):
        values, Q, KQ = _ritz(kernel, Q, KQ, width)
        residuals = KQ[:, :rank] - Q[:, :rank] * values[:rank].to(Q)
        excess = _excess(residuals, values, rank)
        if excess <= tolerance or sweep == max_sweeps:
            break
        new = orthogonal(residuals, Q)
        Q, KQ = torch.cat([Q, new], dim=1), torch.cat([KQ, kernel.matmul(X, X, new)], dim=1)
    return values[:rank], Q[:, :rank], excess


def _ritz(kernel: Kernel, Q: Tensor, KQ: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` largest Ritz values, descending and in float64, their vectors in the span of Q, and K times those."""
    core = (Q.T @ KQ).double()
    values, small = torch.linalg.eigh((core + core.T) / 2)
    check_definite(kernel, values, dtype=Q.dtype)
    top = small.flip(1)[:, :count].to(Q)
    return values.flip(0)[:count], Q @ top, KQ @ top


def _excess(residuals: Tensor, values: Tensor, rank: int) -> float:
    """(||R|| / l_{r+1})^2: in the basis [Q, Q'] K - Q L Q^T is [[0, R^T], [R, C]] with ||C|| ~ l_{r+1}, and its norm
    exceeds ||C|| by about ||R||^2 / ||C||. l_{r+1} is replaced by the rounding error if that is larger."""
    norm = float(torch.linalg.eigvalsh((residuals.T @ residuals).double())[-1].clamp_min(0).sqrt())
    rounding = ROUNDING * torch.finfo(residuals.dtype).eps * len(residuals) ** 0.5 * float(values[0])
    return (norm / max(float(values[rank]), rounding)) ** 2
