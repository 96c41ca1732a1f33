"""What is refused, by name, and what degenerate kernel matrices give."""

from __future__ import annotations

import math

import pytest
import torch

from bochner.features import NystromMap
from bochner.kernels import Gaussian
from bochner.lowrank import (
    DenseFactor,
    fit_ensemble,
    fit_meka,
    fit_nystrom,
    frobenius_error,
    principal_angles,
    spectral_error,
    trace_error,
    truncate,
)
from tests.lowrank.cases import CASES, Case, generator, points
from tests.lowrank.kernels import Indefinite, Overflowing, SometimesNaN

every_method = pytest.mark.parametrize("case", CASES, ids=str)
IDENTITY, ONES = Gaussian(bandwidth=1e-3), Gaussian(bandwidth=1e9)


@every_method
def test_rank_above_the_number_of_points(case: Case) -> None:
    with pytest.raises(ValueError, match="rank must be at most the number of points, 60, got 66"):
        case.make(points(), rank=66)


@every_method
@pytest.mark.parametrize("rank", [0, -1, 2.0, True])
def test_rank_that_is_no_rank(case: Case, rank: object) -> None:
    with pytest.raises(ValueError, match="rank must be an integer of at least 1"):
        case.make(points(), rank=rank)  # type: ignore[arg-type]


@every_method
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_points_that_are_not_finite(case: Case, value: float) -> None:
    X = points()
    X[3, 1] = value
    with pytest.raises(ValueError, match="X must be finite"):
        case.make(X)


@every_method
def test_points_that_are_no_points(case: Case) -> None:
    with pytest.raises(TypeError, match=r"X must be a torch\.Tensor"):
        case.make(points().numpy())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="X must have shape"):
        case.make(points()[0])


@every_method
def test_kernel_that_is_none(case: Case) -> None:
    with pytest.raises(TypeError, match="kernel must be a Kernel"):
        case.fit("gaussian", points(), rank=4, generator=generator())


@every_method
def test_indefinite_kernel(case: Case) -> None:
    with pytest.raises(ValueError, match="kernel must be positive semi-definite"):
        case.make(points(), kernel=Indefinite())


@every_method
def test_kernel_values_that_are_not_finite(case: Case) -> None:
    with pytest.raises(ValueError, match=r"k\(X, X\) must be finite"):
        case.make(points(), kernel=SometimesNaN(bandwidth=1.0))
    with pytest.raises(ValueError, match=r"k\(x, x\) must be finite"):
        case.make(100 * points(), kernel=Overflowing())


def test_values_that_are_not_finite_beyond_the_probes() -> None:
    """One far point among many, which the first look at 256 of them misses."""
    X = points(600, seed=3).clamp(-1, 1) * 0.5
    X[8] = 10.0
    kernel = SometimesNaN(bandwidth=1.0)
    with pytest.raises(ValueError, match=r"k\(X, X\) must be finite"):
        truncate(kernel, X, rank=4, generator=generator())
    with pytest.raises(ValueError, match=r"k\(X, landmarks\) must be finite"):
        fit_nystrom(kernel, X, rank=4, landmarks="uniform", generator=generator())
    with pytest.raises(ValueError, match="root must be finite"):
        fit_nystrom(kernel, X, rank=4, landmarks="uniform", truncation="landmarks", generator=generator())


@every_method
def test_duplicated_points(case: Case) -> None:
    X = points(20).repeat(5, 1)
    factor = case.make(X, rank=36)
    U, K = factor.root, case.kernel(X)
    assert torch.isfinite(U).all()
    assert torch.isfinite(factor.solve(1e-3, X)).all()
    assert torch.isfinite(factor.transform(X)).all()
    if case.exact_at_full_rank and "landmarks" not in case.name:  # K has rank 20
        torch.testing.assert_close(U @ U.T, K, rtol=1e-6, atol=1e-6 * float(K.max()))
        torch.testing.assert_close(factor.transform(X) @ U.T, K, rtol=1e-6, atol=1e-6 * float(K.max()))


@pytest.mark.parametrize("case", [case for case in CASES if case.below and "ensemble" not in case.name], ids=str)
def test_the_identity(case: Case) -> None:
    """A tiny bandwidth: no factor has an error below 1, none of these has a larger one."""
    X = points()
    factor = case.make(X, kernel=IDENTITY)
    assert spectral_error(factor, X, generator=generator()).value == pytest.approx(1, abs=1e-9)
    torch.testing.assert_close(factor.solve(1.0, X), X / (1 + factor.diag()[:, None]), rtol=1e-6, atol=1e-9)


def test_kmeans_centres_miss_the_identity() -> None:
    """Centres between points see none of them: U is zero, and says so."""
    X = points()
    factor = fit_nystrom(IDENTITY, X, rank=5, num_landmarks=10, landmarks="kmeans", generator=generator())
    singles = factor.diag().round().sum()
    assert singles <= 5
    assert factor.condition_number() == math.inf


@every_method
def test_all_ones(case: Case) -> None:
    """A huge bandwidth: rank 1, the other columns zero."""
    X = points()
    factor = case.make(X, kernel=ONES)
    U = factor.root
    tolerance = 1e-6 if case.converges else math.inf
    assert float((U @ U.T - 1).abs().max()) < tolerance
    assert torch.isfinite(factor.solve(1e-3, X)).all()
    if case.name != "fourier":
        assert factor.condition_number() > 1e12


@pytest.mark.parametrize("case", [case for case in CASES if case.exact_at_full_rank], ids=str)
def test_one_point(case: Case) -> None:
    X = points(1)
    factor = case.make(X, rank=1)
    torch.testing.assert_close(factor.diag(), case.kernel.diagonal(X))
    assert factor.condition_number() == 1


def test_landmarks_and_parts() -> None:
    X = points()
    with pytest.raises(ValueError, match="num_landmarks must be at least the rank, 8, got 4"):
        fit_nystrom(IDENTITY, X, rank=8, num_landmarks=4, generator=generator())
    with pytest.raises(ValueError, match="num_landmarks must be at least the rank, 8, got 4"):
        fit_ensemble(IDENTITY, X, rank=8, num_landmarks=4, generator=generator())
    with pytest.raises(ValueError, match="num_landmarks must be at most the number of points, 60, got 61"):
        fit_nystrom(IDENTITY, X, rank=8, num_landmarks=61, generator=generator())
    with pytest.raises(ValueError, match="truncation must be one of"):
        fit_nystrom(IDENTITY, X, rank=8, truncation="best", generator=generator())
    with pytest.raises(ValueError, match="landmarks must be one of"):
        fit_nystrom(IDENTITY, X, rank=8, landmarks="best", generator=generator())
    with pytest.raises(ValueError, match="rank must be a multiple of num_clusters, 3, got 8"):
        fit_meka(IDENTITY, X, rank=8, num_clusters=3, generator=generator())
    with pytest.raises(ValueError, match="num_experts must be an integer of at least 1"):
        fit_ensemble(IDENTITY, X, rank=8, num_experts=0, generator=generator())


def test_what_a_factor_refuses() -> None:
    factor = CASES[0].make(points())
    with pytest.raises(ValueError, match="y must be a tensor with one row per point, 60, got"):
        factor.solve(0.1, torch.ones(59))
    with pytest.raises(TypeError, match="y must hold floats"):
        factor.solve(0.1, torch.ones(60, dtype=torch.long))
    with pytest.raises(ValueError, match="V must be a tensor with one row per point, 60, got list"):
        factor.matmul([1.0])  # type: ignore[arg-type]
    for ridge in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="ridge must be a positive finite number"):
            factor.solve(ridge, torch.ones(60))
        with pytest.raises(ValueError, match="ridge must be a positive finite number"):
            factor.logdet(ridge)


def test_roots_that_fit_no_map() -> None:
    z = NystromMap(IDENTITY, points(4), torch.eye(4, dtype=torch.float64))
    with pytest.raises(ValueError, match="root must have one column per feature, 4, got shape"):
        DenseFactor(torch.ones(5, 3), z)
    with pytest.raises(ValueError, match="root must be finite"):
        DenseFactor(torch.full((5, 4), math.nan), z)
    with pytest.raises(TypeError, match="features must be a FeatureMap"):
        DenseFactor(torch.ones(5, 4), None)  # type: ignore[arg-type]


def test_errors_of_other_points() -> None:
    X = points()
    factor = CASES[0].make(X)
    with pytest.raises(ValueError, match="X must be the 60 points that the factor was fitted on, got 10 rows"):
        trace_error(factor, X[:10])
    with pytest.raises(ValueError, match="repeats must be at least 2"):
        spectral_error(factor, X, num_points=10, repeats=1, generator=generator())
    with pytest.raises(ValueError, match="num_rows must be at least 2"):
        frobenius_error(factor, X, num_rows=1, generator=generator())
    with pytest.raises(ValueError, match="factors must have the same points, got 60 and 30"):
        principal_angles(factor, CASES[0].make(points(30)))
