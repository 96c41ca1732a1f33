"""Exact kernel ridge regression, a low-rank factor its preconditioner."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from bochner import checks
from bochner.kernels import Kernel
from bochner.lowrank.factor import Factor
from bochner.ops.conjugate import conjugate_gradients
from bochner.ops.convergence import warn_stopped


class ExactSolution(NamedTuple):
    """Coefficients a, of y's shape and dtype, the iterations they took, and the part of the residual that is left."""

    coefficients: Tensor
    iterations: int
    left: float


def solve_exact(
    kernel: Kernel,
    X: Tensor,
    y: Tensor,
    *,
    ridge: float,
    factor: Factor | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 500,
) -> ExactSolution:
    """a with (k(X, X) + ridge I) a = y, for X [n, d] and y [n, t] or [n], by conjugate gradients; K is never held.

    Preconditioned by (U U^T + ridge I)^{-1} of `factor`, U U^T ~ K: the condition number falls from
    (||K|| + ridge) / ridge to about (||K - U U^T|| + ridge) / ridge, and a few iterations are left when the factor's
    error is near the ridge. Without a factor: none. In float64. It ends when the preconditioned residual has
    fallen by `tolerance`, or, with a ConvergenceWarning, after `max_iterations`.
    O(n^2 (d + t) + n r t) an iteration; memory O(n (r + t)). Source: Frangella, Tropp & Udell 2023.

    >>> import torch; from torch import Generator
    >>> from bochner.kernels import Gaussian; from bochner.lowrank import fit_nystrom
    >>> X = torch.randn(300, 2, generator=Generator().manual_seed(0), dtype=torch.float64)
    >>> factor = fit_nystrom(Gaussian(), X, rank=50, generator=Generator().manual_seed(0))
    >>> solved = solve_exact(Gaussian(), X, X[:, 0].sin(), ridge=1e-3, factor=factor)
    >>> plain = solve_exact(Gaussian(), X, X[:, 0].sin(), ridge=1e-3)
    >>> torch.allclose(solved.coefficients, plain.coefficients, atol=1e-3), 5 * solved.iterations < plain.iterations
    (True, True)
    """
    ridge = checks.positive_float("ridge", ridge)
    checks.positive_float("tolerance", tolerance)
    checks.positive_int("max_iterations", max_iterations)
    _check_sizes(X, y, factor)
    points, columns = X.double(), y.double().reshape(len(y), -1)
    iterations = 0

    def apply(V: Tensor) -> Tensor:
        return kernel.matmul(points, points, V) + ridge * V

    def precondition(V: Tensor) -> Tensor:
        return V if factor is None else factor.solve(ridge, V)

    def count(iteration: int, _: float) -> None:
        nonlocal iterations
        iterations = iteration

    solution, left = conjugate_gradients(
        apply, columns, precondition, tolerance=tolerance, max_iterations=max_iterations, report=count
    )
    if not left <= tolerance:
        warn_stopped(
            "conjugate gradients",
            limit=f"max_iterations={max_iterations}",
            reached=f"{left:.3g} of the residual left",
            tolerance=tolerance,
            remedy="give a factor of higher rank, or raise the ridge, which makes the problem easier",
        )
    return ExactSolution(solution.reshape(y.shape).to(y.dtype), iterations, left)


def _check_sizes(X: Tensor, y: Tensor, factor: Factor | None) -> None:
    checks.finite("X", checks.inputs("X", X))
    if not isinstance(y, Tensor) or y.ndim not in (1, 2) or len(y) != len(X) or not y.is_floating_point():
        shape = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise ValueError(f"y must be a float tensor with one row per point, {len(X)}, got {shape}.")
    checks.finite("y", y)
    if factor is not None and factor.num_points != len(X):
        raise ValueError(f"factor must be of the {len(X)} points of X, got one of {factor.num_points}.")
