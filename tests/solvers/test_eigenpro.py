"""Preconditioned SGD with delayed projections: its fixed point, its parts, and its stopping rules."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bochner.kernels import Gaussian, Kernel, Laplacian, Matern
from bochner.models import LandmarkModel
from bochner.solvers import eigenpro, fit_eigenpro, fit_landmark_ridge
from bochner.solvers.eigenpro import EigenCorrection
from tests.oracles.memory import PeakMemory
from tests.solvers.problems import classes, generator, numbers, points
from tests.solvers.rows import Rows


def mean_square(model: LandmarkModel, X: Tensor, Y: Tensor) -> float:
    return float((model.decision(X) - Y).square().mean())


@pytest.mark.parametrize("kernel", [Laplacian(bandwidth=4.0), Matern(smoothness=1.5, bandwidth=2.0)], ids=str)
def test_approaches_the_least_squares_solution(kernel: Kernel) -> None:
    X = points(600)
    Y = numbers(X)
    source, reports = Rows(X, Y, shard_rows=200), []
    model = fit_eigenpro(kernel, X[:100], source, max_epochs=30, report=lambda *report: reports.append(report))
    least = mean_square(fit_landmark_ridge(kernel, X[:100], source, alpha=1e-8, max_iterations=500), X, Y)
    constant = float((Y - Y.mean(dim=0)).square().mean())
    assert mean_square(model, X, Y) < least + 0.05 * (constant - least)
    epochs, errors = zip(*reports, strict=True)
    assert epochs == tuple(range(1, 31))
    assert errors[-1] < errors[1] < errors[0]  # of the epoch's batches, before their steps


def test_approaches_the_penalised_solution() -> None:
    X, kernel = points(400), Laplacian(bandwidth=4.0)
    source = Rows(X, numbers(X))
    right = fit_landmark_ridge(kernel, X[:100], source, alpha=0.03).decision(X)
    free, penalised = (
        fit_eigenpro(kernel, X[:100], source, alpha=alpha, max_epochs=20).decision(X) for alpha in (0.0, 0.03)
    )
    distance = float((free - right).norm())
    assert float((penalised - right).norm()) < 0.25 * distance


def test_the_correction_makes_the_top_of_the_spectrum_flat() -> None:
    X, kernel = points(320), Gaussian(bandwidth=1.5)
    correction = EigenCorrection(kernel, X, max_batch=1000, generator=generator())
    K = kernel(X)
    corrected = K - K @ correction.coefficients(correction.inside(K))
    values = torch.linalg.eigvals(corrected).real.sort(descending=True).values / 320
    q = correction.vectors.shape[1]
    assert 0 < q <= 20
    expected = torch.linalg.eigvalsh(K).flip(0) / 320
    torch.testing.assert_close(values[: q + 1], torch.full((q + 1,), correction.next).double(), rtol=0.02, atol=0)
    assert float(values[0]) < 0.1 * float(expected[0])
    assert correction.batch_size == int(1 / correction.next)


def test_a_smooth_kernel_is_corrected_no_further_than_the_batch_needs() -> None:
    correction = EigenCorrection(Gaussian(bandwidth=20.0), points(320), max_batch=50, generator=generator())
    assert correction.batch_size == 50
    assert correction.next == 1 / 50


@pytest.mark.parametrize("keeps_landmarks", [False, True])
def test_projection_is_the_nearest_function_on_the_landmarks(
    monkeypatch: pytest.MonkeyPatch, keeps_landmarks: bool
) -> None:
    monkeypatch.setattr(eigenpro, "MAX_PASSES", 500)
    monkeypatch.setattr(eigenpro, "PROJECTED", 1e-6)
    X, kernel = points(200), Laplacian(bandwidth=2.0)
    correction = EigenCorrection(kernel, X[100:], max_batch=30, generator=generator())
    options = {"max_points": 50, "generator": generator()}
    descent = eigenpro._Descent(kernel, X[:50], 1, correction, **options, keeps_landmarks=keeps_landmarks)
    descent.add(X[100:130], numbers(X[100:130], 1), torch.ones(30, 1).double())
    descent.add(X[130:150], numbers(X[130:150], 1), torch.ones(20, 1).double())
    centres = torch.cat([X[100:], X[100:150]])  # the sample and the points
    values = kernel(X[:50], centres) @ descent.weights[50:]
    torch.testing.assert_close(descent.added, values, rtol=0, atol=1e-10)
    descent.project()
    torch.testing.assert_close(kernel(X[:50]) @ descent.coefficients, values, rtol=0, atol=1e-4)
    assert descent.points == slice(150, 150)


def test_one_step_lowers_the_error_of_its_batch() -> None:
    X, kernel = points(200), Gaussian()
    correction = EigenCorrection(kernel, X, max_batch=40, generator=generator())
    descent = eigenpro._Descent(kernel, X[:20], 2, correction, max_points=120, generator=generator())
    errors = [descent.add(X[:40], numbers(X[:40]), torch.ones(40, 1).double()) for _ in range(3)]
    assert errors[2] < errors[1] < errors[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_classes_weights_and_evaluation(dtype: torch.dtype) -> None:
    X = points(400, dtype=dtype)
    y, weight = classes(X, 3), torch.ones(400)
    weight[300:] = 0
    y[300:] = 2 - y[300:]  # rows of weight 0, which would mislead
    seen: list[LandmarkModel] = []

    def evaluate(model: LandmarkModel) -> float:
        seen.append(model)
        return [3.0, 2.0, 1.999, 1.998, 1.0][len(seen) - 1]

    source = Rows(X, y, weight)
    model = fit_eigenpro(Gaussian(), X[:100], source, num_classes=3, max_epochs=9, evaluate=evaluate)
    assert len(seen) == 4  # the last two values are not 0.3 per cent lower, but the last is the lowest
    assert torch.equal(model.coefficients, seen[3].coefficients)
    assert model.coefficients.dtype == dtype
    assert float((model.decision(X[:300]).argmax(dim=1) == y[:300]).double().mean()) > 0.6


def test_products_that_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    X = points(300)
    source = Rows(X, numbers(X))
    stored = fit_eigenpro(Gaussian(), X[:50], source, max_epochs=2)
    monkeypatch.setattr(eigenpro, "STORED_ELEMENTS", 0)
    again = fit_eigenpro(Gaussian(), X[:50], source, max_epochs=2)
    torch.testing.assert_close(again.coefficients, stored.coefficients, rtol=0, atol=1e-9)


def test_few_rows() -> None:
    X = points(1)
    model = fit_eigenpro(Gaussian(), X, Rows(X, torch.ones(1).double()))
    torch.testing.assert_close(model.decision(X), torch.ones(1, 1).double())


@pytest.mark.parametrize("name", ["max_epochs", "batches_per_projection"])
def test_bad_arguments(name: str) -> None:
    X = points(20)
    with pytest.raises(ValueError, match=f"{name} .*got 0"):
        fit_eigenpro(Gaussian(), X, Rows(X, numbers(X)), **{name: 0})


def test_no_matrix_of_all_landmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """K_mm of 6,000 landmarks has 144 MB in float32."""
    monkeypatch.setattr(eigenpro, "SAMPLE_ROWS", 200)
    X = points(6000, dtype=torch.float32)
    with PeakMemory() as memory:
        fit_eigenpro(Laplacian(), X, Rows(X, X[:, 0].sin()), max_epochs=1)
    assert memory.peak < 72 * 2**20
