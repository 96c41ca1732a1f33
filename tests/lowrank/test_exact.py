"""Exact kernel ridge regression by conjugate gradients, with and without a factor as preconditioner."""

from __future__ import annotations

import warnings

import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Generator, Tensor

from bochner.kernels import Gaussian, Kernel, Matern
from bochner.lowrank import fit_nystrom, fit_pivoted_cholesky, solve_exact
from bochner.ops import CenteredRows, squared_distances


def points(count: int = 250) -> Tensor:
    return torch.randn(count, 3, generator=Generator().manual_seed(0), dtype=torch.float64)


def targets(X: Tensor) -> Tensor:
    return torch.stack([X[:, 0].sin(), X.prod(dim=1)], dim=1)


def dense(kernel: Kernel, X: Tensor, y: Tensor, alpha: float) -> Tensor:
    return torch.linalg.solve(kernel(X) + alpha * torch.eye(len(X), dtype=X.dtype), y)


@pytest.mark.parametrize("kernel", [Gaussian(bandwidth=1.5), Matern(smoothness=1.5, bandwidth=2.0)], ids=repr)
@pytest.mark.parametrize("alpha", [1e-4, 1e-2, 1.0])
def test_equals_the_dense_solution(kernel: Kernel, alpha: float) -> None:
    X = points()
    y = targets(X)
    factor = fit_nystrom(kernel, X, rank=60, generator=Generator().manual_seed(0))
    solved = solve_exact(kernel, X, y, alpha=alpha, factor=factor, tolerance=1e-12)
    expected = dense(kernel, X, y, alpha)
    assert float((solved.coefficients - expected).norm() / expected.norm()) < 1e-8
    assert solved.left <= 1e-12


def test_a_factor_saves_most_iterations() -> None:
    X, kernel, alpha = points(), Gaussian(bandwidth=1.5), 1e-3
    y = targets(X)
    plain = solve_exact(kernel, X, y, alpha=alpha)
    counts = []
    for rank in (30, 80, 200):
        factor = fit_pivoted_cholesky(kernel, X, rank=rank, generator=Generator().manual_seed(0))
        counts.append(solve_exact(kernel, X, y, alpha=alpha, factor=factor).iterations)
    assert counts == sorted(counts, reverse=True)
    assert counts[1] < plain.iterations / 5
    assert counts[2] <= 5


def test_a_factor_of_all_of_k_needs_one_iteration() -> None:
    X, kernel = points(50), Gaussian(bandwidth=1.5)
    factor = fit_pivoted_cholesky(kernel, X, rank=50, generator=Generator().manual_seed(0))
    assert solve_exact(kernel, X, targets(X), alpha=1e-3, factor=factor).iterations == 1


def test_shape_and_dtype_are_those_of_y() -> None:
    X = points(50)
    both = solve_exact(Gaussian(), X, targets(X), alpha=0.1).coefficients
    one = solve_exact(Gaussian(), X.float(), targets(X)[:, 0].float(), alpha=0.1).coefficients
    assert (one.shape, one.dtype) == ((50,), torch.float32)
    torch.testing.assert_close(one.double(), both[:, 0], atol=1e-4, rtol=1e-4)


def test_k_is_never_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bochner.kernels.kernel.TILE_ELEMENTS", 250 * 10)
    largest = 0

    def watched(X: Tensor, Y: Tensor | CenteredRows, *, error: float) -> Tensor:
        nonlocal largest
        squares = squared_distances(X, Y, error=error)
        largest = max(largest, squares.numel())
        return squares

    monkeypatch.setattr("bochner.kernels.kernel.squared_distances", watched)
    monkeypatch.setattr(Gaussian, "_evaluate", None)
    X = points()
    solve_exact(Gaussian(bandwidth=1.5), X, targets(X), alpha=1.0)
    assert 0 < largest <= 250 * 10


def test_zero_targets_have_zero_coefficients() -> None:
    X = points(20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solved = solve_exact(Gaussian(), X, torch.zeros(20, dtype=torch.float64), alpha=0.1)
    assert (solved.coefficients == 0).all()


def test_stopping_early_warns() -> None:
    X = points()
    with pytest.warns(ConvergenceWarning, match="max_iterations=2 .*tolerance 1e-06.* rank"):
        solved = solve_exact(Gaussian(bandwidth=1.5), X, targets(X), alpha=1e-4, max_iterations=2)
    assert solved.iterations == 2
    assert solved.left > 1e-6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": 0.0}, "alpha must be a positive finite number, got 0.0"),
        ({"tolerance": 0.0}, "tolerance must be a positive finite number"),
        ({"max_iterations": 0}, "max_iterations must be an integer of at least 1"),
        ({"y": torch.ones(7)}, r"y must be a float tensor with one row per point, 20, got \(7,\)"),
        ({"y": torch.ones(20, dtype=torch.long)}, "y must be a float tensor"),
        ({"y": torch.full((20,), torch.nan)}, "y must be finite"),
        ({"X": torch.full((20, 3), torch.inf)}, "X must be finite"),
        (
            {"factor": fit_nystrom(Gaussian(), points(9), rank=2, generator=Generator().manual_seed(0))},
            "factor must be of the 20 points of X, got one of 9",
        ),
    ],
)
def test_bad_arguments(changes, message: str) -> None:
    arguments = {"X": points(20), "y": torch.ones(20), "alpha": 0.1, **changes}
    X, y = arguments.pop("X"), arguments.pop("y")
    with pytest.raises(ValueError, match=message):
        solve_exact(Gaussian(), X, y, **arguments)
