"""Measures of error and structure against whole matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch

from bochner.kernels import Gaussian
from bochner.lowrank import (
    Factor,
    coherence,
    errors,
    fit_fourier,
    fit_nystrom,
    frobenius_error,
    principal_angles,
    spectral_error,
    stable_rank,
    trace_error,
    truncate,
)
from bochner.lowrank import errors as structure
from bochner.lowrank.errors import orthogonal, spectral_norm
from tests.lowrank.cases import CASES, GAUSSIAN, Case, generator, points
from tests.oracles import lowrank as oracle

every_factor = pytest.mark.parametrize("case", CASES, ids=str)


@every_factor
def test_errors_of_all_points(case: Case) -> None:
    X = points()
    factor = case.make(X)
    K, U = case.kernel(X).numpy(), oracle.root(factor)
    assert spectral_error(factor, X, generator=generator()) == (pytest.approx(oracle.spectral_error(K, U)), 0)
    assert frobenius_error(factor, X, generator=generator()) == (pytest.approx(oracle.frobenius_error(K, U)), 0)
    trace = np.trace(K) - np.trace(U @ U.T)
    assert trace_error(factor, X) == (pytest.approx(trace, abs=1e-9 * np.trace(K)), 0)


@pytest.mark.parametrize("fit", [truncate, fit_nystrom, fit_fourier])
@pytest.mark.parametrize("tolerance", [1e-1, 1e-4])
def test_lanczos(monkeypatch: pytest.MonkeyPatch, fit, tolerance: float) -> None:
    monkeypatch.setattr(errors, "EXACT_POINTS", 10)
    X = points(300)
    factor: Factor = fit(GAUSSIAN, X, rank=20, generator=generator())
    truth = oracle.spectral_error(GAUSSIAN(X).numpy(), oracle.root(factor))
    found = spectral_error(factor, X, tolerance=tolerance, generator=generator())
    assert truth * (1 - tolerance) - 1e-12 <= found.value <= truth * (1 + 1e-9)
    assert found.error <= tolerance * found.value


def test_lanczos_finds_negative_eigenvalues_and_reports_its_residual() -> None:
    values = torch.linspace(-1, 0.9, 3000, dtype=torch.float64)
    found = spectral_norm(lambda V: values[:, None] * V, values[:, None], tolerance=1e-9, generator=generator())
    assert 0.99 < found.value <= 1
    assert 1 - found.value <= found.error
    assert found.error > 1e-9


def test_lanczos_of_a_small_or_zero_operator() -> None:
    for n in (1, 3, 5, 9):
        M = torch.diag(torch.arange(1, n + 1, dtype=torch.float64))
        assert spectral_norm(lambda V, M=M: M @ V, M, tolerance=1e-6, generator=generator()).value <= n + 1e-9
    zero = torch.zeros(50, 1, dtype=torch.float64)
    assert spectral_norm(lambda V: 0 * V, zero, generator=generator()) == (0, 0)


def test_orthogonal_columns_where_there_is_nothing_new() -> None:
    Q = torch.linalg.qr(points(20)).Q
    new = orthogonal(torch.cat([Q[:, :1] * 2, points(20, seed=1)[:, :1], 0 * Q[:, :1]], dim=1), Q)
    both = torch.cat([Q, new], dim=1)
    torch.testing.assert_close(both.T @ both, torch.eye(6, dtype=torch.float64))
    torch.testing.assert_close(both @ both.T @ points(20, seed=1)[:, 0], points(20, seed=1)[:, 0])


def test_sampled_points_and_their_standard_error() -> None:
    """The mean over sets of points, within its own standard error, and smaller than the error of all points."""
    X = points(400)
    factor = fit_nystrom(GAUSSIAN, X, rank=10, generator=generator())
    many = spectral_error(factor, X, num_points=100, repeats=200, generator=generator(1))
    few = [spectral_error(factor, X, num_points=100, repeats=12, generator=generator(seed)) for seed in range(2, 27)]
    scores = torch.tensor([(found.value - many.value) / found.error for found in few])
    assert 0.6 < float(scores.square().mean().sqrt()) < 1.7
    assert many.value < spectral_error(factor, X, generator=generator()).value


def test_a_sample_of_all_points_is_exact() -> None:
    X = points()
    factor = fit_nystrom(GAUSSIAN, X, rank=10, generator=generator())
    assert spectral_error(factor, X, num_points=60, generator=generator()) == spectral_error(
        factor, X, generator=generator()
    )


def test_sampled_rows_and_their_standard_error() -> None:
    X = points(300)
    factor = fit_nystrom(GAUSSIAN, X, rank=10, generator=generator())
    truth = frobenius_error(factor, X, generator=generator()).value
    found = [frobenius_error(factor, X, num_rows=80, generator=generator(seed)) for seed in range(60)]
    scores = torch.tensor([(estimate.value - truth) / estimate.error for estimate in found])
    assert abs(float(scores.mean())) < 0.6
    assert 0.6 < float(scores.std()) < 1.6


def test_errors_of_float32_factors_are_measured_in_float64() -> None:
    X = points(80)
    factor = fit_nystrom(GAUSSIAN, X.float(), rank=70, landmarks="uniform", generator=generator())
    K, U = GAUSSIAN(X.float().double()).numpy(), oracle.root(factor)
    assert spectral_error(factor, X.float(), generator=generator()).value == pytest.approx(
        oracle.spectral_error(K, U), rel=1e-6
    )
    assert factor.dtype == torch.float32


@pytest.mark.parametrize("limit", [10, 2048])
@pytest.mark.parametrize("bandwidth", [0.2, 2.0])
def test_stable_rank(monkeypatch: pytest.MonkeyPatch, limit: int, bandwidth: float) -> None:
    monkeypatch.setattr(structure, "EXACT_POINTS", limit)
    X, kernel = points(150), Gaussian(bandwidth=bandwidth)
    found = stable_rank(kernel, X, tolerance=1e-6, generator=generator())
    assert found.value == pytest.approx(oracle.stable_rank(kernel(X).numpy()), rel=1e-5)


def test_stable_rank_has_a_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure, "EXACT_POINTS", 10)
    X, kernel = points(150), Gaussian(bandwidth=0.3)
    found = stable_rank(kernel, X, tolerance=0.2, generator=generator())
    assert abs(found.value - oracle.stable_rank(kernel(X).numpy())) <= found.error < 0.4 * found.value


def test_stable_rank_of_extremes_and_of_samples() -> None:
    X = points(150)
    assert stable_rank(Gaussian(bandwidth=1e-4), X, generator=generator()).value == pytest.approx(150)
    assert stable_rank(Gaussian(bandwidth=1e9), X, generator=generator()).value == pytest.approx(1)
    sampled = stable_rank(GAUSSIAN, X, num_points=60, generator=generator())
    assert abs(sampled.value - stable_rank(GAUSSIAN, X, generator=generator()).value) < 0.5
    assert 0 < sampled.error < 0.2


def test_coherence() -> None:
    X = points()
    factor = fit_nystrom(GAUSSIAN, X, rank=8, generator=generator())
    assert coherence(factor) == pytest.approx(oracle.coherence(oracle.root(factor)))
    assert coherence(truncate(Gaussian(bandwidth=1e9), X, rank=4, generator=generator())) == pytest.approx(1)
    isolated = torch.cat([points(59) * 1e-6, points(1) + 1e3])
    assert coherence(truncate(Gaussian(), isolated, rank=2, generator=generator())) == pytest.approx((60 / 2) ** 0.5)


def test_principal_angles() -> None:
    X = points()
    first, second = (fit_nystrom(GAUSSIAN, X, rank=8, generator=generator(seed)) for seed in (1, 2))
    expected = scipy.linalg.subspace_angles(oracle.root(first), oracle.root(second))[::-1]
    np.testing.assert_allclose(principal_angles(first, second), expected, atol=1e-9)
    np.testing.assert_allclose(principal_angles(second, first), expected, atol=1e-9)
    assert float(principal_angles(first, first).max()) < 1e-12


def test_principal_angles_of_a_larger_range() -> None:
    X = points()
    small, large = (truncate(GAUSSIAN, X, rank=rank, generator=generator()) for rank in (3, 9))
    assert principal_angles(large, small).shape == (3,)
    assert float(principal_angles(small, large).max()) < 1e-6
