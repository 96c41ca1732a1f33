"""Exact kernel ridge regression, a low-rank factor its preconditioner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from bochner import checks
from bochner.kernels import Kernel
from bochner.lowrank.factor import Factor
from bochner.ops import row_tiles
from bochner.ops.linalg import conjugate_gradients, warn_stopped

TILE_ELEMENTS = 2**22
GRAM_COLUMNS = 256
# Ridges that are tried, as parts of the largest eigenvalue: from where rounding would choose to where f is flat.
SMALLEST_RIDGE, NUM_RIDGES = 1e-12, 49


class RidgeProblem(NamedTuple):
    """Centred rows U - mean(U) and targets Y - mean(Y), turned so that their Gram matrix is diagonal; in float64."""

    rows: Tensor  # [n, r], (U - mean(U)) V
    values: Tensor  # [r], the eigenvalues of the Gram matrix, ascending
    basis: Tensor  # [r, r], their eigenvectors V
    targets: Tensor  # [n, t]
    root_mean: Tensor  # [r]
    target_mean: Tensor  # [t]
    cross: Tensor  # [r, t], rows^T targets


def ridge_problem(root: Tensor, y: Tensor) -> RidgeProblem:
    """The problem min ||U w + b - Y||^2 + ridge ||w||^2 for U = `root` [n, r] and Y = `y` [n, t], for every ridge.

    With all of K in U this is kernel ridge regression, (K + ridge I) a = Y - b, with a bias b that is not penalised.
    O(n r^2 + r^3) time; memory of one more [n, r], and of another while it is made.

    >>> U, y = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([[1.0], [2.0], [3.0]])
    >>> weights, bias = solve_ridge(ridge_problem(U, y), ridge=2.0)  # the slope's data weighs 2, as much as the ridge
    >>> weights.item(), bias.item()
    (0.5, 1.5)
    """
    checks.finite("y", checks.inputs("y", y))
    if len(y) != len(checks.inputs("root", root)):
        raise ValueError(f"y must have one row per point, {len(root)}, got {len(y)}.")
    U, root_mean = centred(root.double())
    Y, target_mean = centred(y.double().to(root.device))
    values, V = torch.linalg.eigh(gram(U))
    rows = U @ V
    return RidgeProblem(rows, values.clamp_min(0), V, Y, root_mean, target_mean, rows.T @ Y)


def centred(A: Tensor) -> tuple[Tensor, Tensor]:
    """A - mean(A) over rows, and the mean."""
    mean = A.mean(dim=0)
    return A - mean, mean


def gram(A: Tensor) -> Tensor:
    """A^T A [r, r] by its lower half, in half the products."""
    product = A.new_zeros(A.shape[1], A.shape[1])
    for part in row_tiles(A.shape[1], row_elements=1, tile_elements=GRAM_COLUMNS):
        product[part, : part.stop] = A[:, part].T @ A[:, : part.stop]
    return product.tril() + product.tril(-1).T


def solve_ridge(problem: RidgeProblem, *, ridge: float) -> tuple[Tensor, Tensor]:
    """w [r, t] = (U^T U + ridge I)^{-1} U^T Y for centred U and Y, and b [t] = mean(Y) - mean(U) w. O(r^2 t)."""
    ridge = checks.positive_float("ridge", ridge)
    weights = problem.basis @ (problem.cross / (problem.values + ridge)[:, None])
    return weights, problem.target_mean - problem.root_mean @ weights


def loo_errors(problem: RidgeProblem, ridges: Sequence[float]) -> Tensor:
    """For each ridge [R] the mean of (y_i - f_i(x_i))^2 over points and outputs, f_i fitted on all points but i.

    No f_i is fitted: y_i - f_i(x_i) = (y_i - f(x_i)) / (1 - h_i), h_i = 1/n + sum_j rows_ij^2 / (values_j + ridge) the
    diagonal of the matrix that takes Y to f(X). U stays as it is: that other points would have chosen other landmarks
    is not seen. O(n r t) a ridge, as a product of matrices. Source: Allen 1974.

    >>> X = torch.linspace(-2, 2, 50, dtype=torch.float64)[:, None]
    >>> problem = ridge_problem(torch.cat([X, X**2, X**3], dim=1), X.sin())
    >>> errors = loo_errors(problem, [1e-3, 1e3])
    >>> bool(errors[0] < 0.01 < errors[1])
    True
    """
    inverses = 1 / (problem.values[:, None] + _checked(ridges).to(problem.values))  # [r, R]
    solutions = (problem.cross[:, :, None] * inverses[:, None]).flatten(1)  # [r, t R]
    n, t = problem.targets.shape
    total = inverses.new_zeros(len(ridges))
    for tile in row_tiles(n, row_elements=len(inverses) + t * len(ridges), tile_elements=TILE_ELEMENTS):
        rows = problem.rows[tile]
        residuals = problem.targets[tile, :, None] - (rows @ solutions).reshape(-1, t, len(ridges))
        free = 1 - 1 / n - rows.square() @ inverses
        total += (residuals / _positive(free)[:, None]).square().sum(dim=(0, 1))
    return total / problem.targets.numel()


def candidate_ridges(problem: RidgeProblem) -> list[float]:
    """From 10^-12 to 1 times the largest eigenvalue, four a decade; from 10^-12 to 1 where all of U is one point."""
    largest = float(problem.values[-1]) or 1.0
    return (torch.logspace(0, 1, NUM_RIDGES, base=SMALLEST_RIDGE, dtype=torch.float64).flip(0) * largest).tolist()


def choose_ridge(problem: RidgeProblem, ridges: Sequence[float]) -> tuple[float, float]:
    """The ridge whose leave-one-out error is least, the largest of them where several are, and that mean squared error.

    >>> X = torch.linspace(-2, 2, 50, dtype=torch.float64)[:, None]
    >>> choose_ridge(ridge_problem(X, X), [1e-3, 1.0])[0], choose_ridge(ridge_problem(X, 0 * X), [1e-3, 1.0])[0]
    (0.001, 1.0)
    """
    errors = loo_errors(problem, ridges).tolist()
    least = min(errors)
    return max(float(ridge) for ridge, error in zip(ridges, errors, strict=True) if error == least), least


def _checked(ridges: Sequence[float]) -> Tensor:
    if len(ridges) == 0:
        raise ValueError("ridges must hold at least one number, got none.")
    return torch.tensor([checks.positive_float("ridges", ridge) for ridge in ridges], dtype=torch.float64)


def _positive(free: Tensor) -> Tensor:
    """1 - h_i, in which rounding can leave 0 where a point decides on its own value."""
    return free.clamp_min(torch.finfo(free.dtype).eps)


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
