"""One factorisation against the dense solution, and against landmarks that are all rows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bochner.kernels import Gaussian, Laplacian
from bochner.solvers import fit_exact_ridge, fit_landmark_ridge
from tests.solvers.problems import classes, dense_landmark_ridge, numbers, points, weights
from tests.solvers.rows import Rows


@pytest.mark.parametrize("weight", [None, weights(120)], ids=["even", "weighted"])  # some weights are 0
@pytest.mark.parametrize("alpha", [1e-1, 1e-4, 1e-8])
@pytest.mark.parametrize("kernel", [3 * Gaussian(bandwidth=1.0), Laplacian(bandwidth=2.0)], ids=str)
def test_equals_the_dense_solution(kernel, alpha: float, weight: Tensor | None) -> None:
    X = points()
    Y = numbers(X)
    model = fit_exact_ridge(kernel, Rows(X, Y, weight, shard_rows=50), alpha=alpha)
    right = dense_landmark_ridge(kernel, X, X, Y, torch.ones(120) if weight is None else weight, alpha)
    torch.testing.assert_close(model.decision(X), right, rtol=0, atol=1e-6)


@pytest.mark.parametrize("amplitude", [1.0, 100.0])
def test_is_what_landmarks_come_to(amplitude: float) -> None:
    """Classes, and alpha of its own."""
    X = points()
    source = Rows(X, classes(X, 3))
    kernel = amplitude * Gaussian(bandwidth=1.0)
    model = fit_exact_ridge(kernel, source, num_classes=3)
    right = fit_landmark_ridge(kernel, X, source, num_classes=3, tolerance=1e-12)
    torch.testing.assert_close(model.decision(X), right.decision(X), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("alpha", "dtype"), [(1e-2, torch.float32), (1e-9, torch.float64)])
def test_float32_rows_have_a_float32_model_where_that_resolves_it(alpha: float, dtype: torch.dtype) -> None:
    X = points(400, dtype=torch.float32)
    Y = numbers(X)
    model = fit_exact_ridge(Gaussian(bandwidth=2.0), Rows(X, Y), alpha=alpha)
    right = dense_landmark_ridge(Gaussian(bandwidth=2.0), X, X, Y, torch.ones(400), alpha)
    assert model.landmarks.dtype == model.coefficients.dtype == model.bias.dtype == dtype
    assert model.decision(X).dtype == torch.float32
    assert float((model.decision(X) - right).square().mean().sqrt()) < 1e-4


@pytest.mark.parametrize("bandwidth", [1e-3, 1e6])
def test_equal_rows_and_a_tiny_ridge(bandwidth: float) -> None:
    X = points(60).repeat(2, 1)
    model = fit_exact_ridge(Gaussian(bandwidth=bandwidth), Rows(X, numbers(X)), alpha=1e-18)
    assert model.decision(X).isfinite().all()


def test_bad_arguments() -> None:
    X = points(20)
    source = Rows(X, numbers(X))
    with pytest.raises(ValueError, match="alpha must be a positive"):
        fit_exact_ridge(Gaussian(), source, alpha=0.0)
    with pytest.raises(ValueError, match="kernel must be positive semi-definite"):
        fit_exact_ridge(lambda X: torch.ones(20, 20).double() - 0.1 * torch.eye(20), source, alpha=1e-9)
