"""Kernel ridge regression on a low-rank factor, and exact kernel ridge regression with the factor as preconditioner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from bochner import checks
from bochner.kernels import Kernel
from bochner.lowrank.factor import Factor
from bochner.ops import TILE_ELEMENTS, row_tiles
from bochner.ops.linalg import conjugate_gradients, warn_stopped

GRAM_COLUMNS = 256  # columns per block of `gram`; within a block both triangles are computed
# Candidate penalties, relative to the largest eigenvalue, 4 per decade: below 1e-12 rounding dominates, at 1 f is flat.
MIN_ALPHA, NUM_ALPHAS = 1e-12, 49


class RidgeProblem(NamedTuple):
    """Centred U and targets Y, rotated so that the Gram matrix of U is diagonal; in float64."""

    rows: Tensor  # [n, r], (U - mean(U)) V
    values: Tensor  # [r], the eigenvalues of the Gram matrix, ascending
    basis: Tensor  # [r, r], their eigenvectors V
    targets: Tensor  # [n, t]
    root_mean: Tensor  # [r]
    target_mean: Tensor  # [t]
    cross: Tensor  # [r, t], rows^T targets


def ridge_problem(root: Tensor, y: Tensor) -> RidgeProblem:
    """Decompose min ||U w + b - Y||^2 + alpha ||w||^2 for U = `root` [n, r] and Y = `y` [n, t], for all alpha.

    With U U^T = K this is kernel ridge regression, (K + alpha I) a = Y - b, with a bias b that is not penalized.
    O(n r^2 + r^3) time; memory for another [n, r] array, and for a second one during the call.

    >>> U, y = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([[1.0], [2.0], [3.0]])
    >>> weights, bias = solve_ridge(ridge_problem(U, y), alpha=2.0)  # sum (U - mean)^2 is 2 too: half the slope
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
    """A^T A [r, r]; only its lower half is computed."""
    product = A.new_zeros(A.shape[1], A.shape[1])
    for part in row_tiles(A.shape[1], row_elements=1, tile_elements=GRAM_COLUMNS):
        product[part, : part.stop] = A[:, part].T @ A[:, : part.stop]
    return product.tril() + product.tril(-1).T


def solve_ridge(problem: RidgeProblem, *, alpha: float) -> tuple[Tensor, Tensor]:
    """w [r, t] = (U^T U + alpha I)^{-1} U^T Y for centred U and Y, and b [t] = mean(Y) - mean(U) w. O(r^2 t)."""
    alpha = checks.positive_float("alpha", alpha)
    weights = problem.basis @ (problem.cross / (problem.values + alpha)[:, None])
    return weights, problem.target_mean - problem.root_mean @ weights


def loo_errors(problem: RidgeProblem, alphas: Sequence[float]) -> Tensor:
    """For each alpha [R] the mean of (y_i - f_i(x_i))^2 over points and outputs, f_i fitted on all points but i.

    No f_i is fitted: y_i - f_i(x_i) = (y_i - f(x_i)) / (1 - h_i), h_i = 1/n + sum_j rows_ij^2 / (values_j + alpha) the
    diagonal of the matrix that maps Y to f(X). U is fixed: a point that is left out remains a landmark.
    O(n r t) per alpha, as a matrix product. Source: Allen 1974.

    >>> X = torch.linspace(-2, 2, 50, dtype=torch.float64)[:, None]
    >>> problem = ridge_problem(torch.cat([X, X**2, X**3], dim=1), X.sin())
    >>> errors = loo_errors(problem, [1e-3, 1e3])
    >>> bool(errors[0] < 0.01 < errors[1])
    True
    """
    inverses = 1 / (problem.values[:, None] + _checked(alphas).to(problem.values))  # [r, R]
    solutions = (problem.cross[:, :, None] * inverses[:, None]).flatten(1)  # [r, t R]
    n, t = problem.targets.shape
    total = inverses.new_zeros(len(alphas))
    for tile in row_tiles(n, row_elements=len(inverses) + t * len(alphas), tile_elements=TILE_ELEMENTS):
        rows = problem.rows[tile]
        residuals = problem.targets[tile, :, None] - (rows @ solutions).reshape(-1, t, len(alphas))
        # 1 - h_i, which rounding can make 0 at a point that determines its own prediction
        free = (1 - 1 / n - rows.square() @ inverses).clamp_min(torch.finfo(rows.dtype).eps)
        total += (residuals / free[:, None]).square().sum(dim=(0, 1))
    return total / problem.targets.numel()


def candidate_alphas(problem: RidgeProblem) -> list[float]:
    """From 1e-12 to 1 times the largest eigenvalue, four per decade; from 1e-12 to 1 if all rows of U are equal."""
    largest = float(problem.values[-1]) or 1.0
    return (torch.logspace(0, 1, NUM_ALPHAS, base=MIN_ALPHA, dtype=torch.float64).flip(0) * largest).tolist()


def choose_alpha(problem: RidgeProblem, alphas: Sequence[float]) -> tuple[float, float]:
    """The alpha with the least leave-one-out error, the largest one among ties, and that mean squared error.

    >>> X = torch.linspace(-2, 2, 50, dtype=torch.float64)[:, None]
    >>> choose_alpha(ridge_problem(X, X), [1e-3, 1.0])[0], choose_alpha(ridge_problem(X, 0 * X), [1e-3, 1.0])[0]
    (0.001, 1.0)
    """
    errors = loo_errors(problem, alphas).tolist()
    least = min(errors)
    return max(float(alpha) for alpha, error in zip(alphas, errors, strict=True) if error == least), least


def _checked(alphas: Sequence[float]) -> Tensor:
    if len(alphas) == 0:
        raise ValueError("alphas must hold at least one number, got none.")
    return torch.tensor([checks.positive_float("alphas", alpha) for alpha in alphas], dtype=torch.float64)


class ExactSolution(NamedTuple):
    """Coefficients a, in y's shape and dtype, the number of iterations, and the relative residual."""

    coefficients: Tensor
    iterations: int
    left: float


def solve_exact(
    kernel: Kernel,
    X: Tensor,
    y: Tensor,
    *,
    alpha: float,
    factor: Factor | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 500,
) -> ExactSolution:
    """a with (k(X, X) + alpha I) a = y, for X [n, d] and y [n, t] or [n], by conjugate gradients; K is not stored.

    The preconditioner (U U^T + alpha I)^{-1} of `factor`, U U^T ~ K, reduces the condition number from
    (||K|| + alpha) / alpha to about (||K - U U^T|| + alpha) / alpha: a few iterations if the factor's error is near
    alpha. Without a factor there is no preconditioner. In float64. Iteration ends when the preconditioned residual has
    fallen by `tolerance`, or, with a ConvergenceWarning, after `max_iterations`.
    O(n^2 (d + t) + n r t) per iteration; memory O(n (r + t)). Source: Frangella, Tropp & Udell 2023.

    >>> import torch; from torch import Generator
    >>> from bochner.kernels import Gaussian; from bochner.lowrank import fit_nystrom
    >>> X = torch.randn(300, 2, generator=Generator().manual_seed(0), dtype=torch.float64)
    >>> factor = fit_nystrom(Gaussian(), X, rank=50, generator=Generator().manual_seed(0))
    >>> solved = solve_exact(Gaussian(), X, X[:, 0].sin(), alpha=1e-3, factor=factor)
    >>> plain = solve_exact(Gaussian(), X, X[:, 0].sin(), alpha=1e-3)
    >>> torch.allclose(solved.coefficients, plain.coefficients, atol=1e-3), 5 * solved.iterations < plain.iterations
    (True, True)
    """
    alpha = checks.positive_float("alpha", alpha)
    checks.positive_float("tolerance", tolerance)
    checks.positive_int("max_iterations", max_iterations)
    _check_sizes(X, y, factor)
    points, columns = X.double(), y.double().reshape(len(y), -1)
    iterations = 0

    def apply(V: Tensor) -> Tensor:
        return kernel.matmul(points, points, V) + alpha * V

    def precondition(V: Tensor) -> Tensor:
        return V if factor is None else factor.solve(alpha, V)

    def count(iteration: int, _: float) -> None:
        nonlocal iterations
        iterations = iteration

    solution, left = conjugate_gradients(
        apply, columns, precondition, tolerance=tolerance, max_iterations=max_iterations, report=count
    )
    if not left <= tolerance:
        limit, reached = f"max_iterations={max_iterations}", f"{left:.3g} of the residual left"
        remedy = "use a factor of higher rank or a larger alpha"
        warn_stopped("conjugate gradients", limit=limit, reached=reached, tolerance=tolerance, remedy=remedy)
    return ExactSolution(solution.reshape(y.shape).to(y.dtype), iterations, left)


def _check_sizes(X: Tensor, y: Tensor, factor: Factor | None) -> None:
    checks.finite("X", checks.inputs("X", X))
    if not isinstance(y, Tensor) or y.ndim not in (1, 2) or len(y) != len(X) or not y.is_floating_point():
        shape = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise ValueError(f"y must be a float tensor with one row per point, {len(X)}, got {shape}.")
    checks.finite("y", y)
    if factor is not None and factor.num_points != len(X):
        raise ValueError(f"factor must be of the {len(X)} points of X, got one of {factor.num_points}.")
