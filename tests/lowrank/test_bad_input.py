"""Errors that name the argument, and results for degenerate kernel matrices."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from bochner.features import NystromMap
from bochner.features.landmarks import pivoted_cholesky
from bochner.kernels import Gaussian, Kernel
from bochner.lowrank import (
    DenseFactor,
    fit_als,
    fit_ensemble,
    fit_fourier,
    fit_lela,
    fit_meka,
    fit_nystrom,
    frobenius_error,
    principal_angles,
    spectral_error,
    trace_error,
)
from tests.lowrank.cases import CASES, Case, generator, points
from tests.lowrank.kernels import Indefinite, IndefiniteFarOut, NoDiagonal, Overflowing, SometimesNaN

every_method = pytest.mark.parametrize("case", CASES, ids=str)
every_evaluating_method = pytest.mark.parametrize("case", [case for case in CASES if case.name != "fourier"], ids=str)
IDENTITY, ONES = Gaussian(bandwidth=1e-3), Gaussian(bandwidth=1e9)


@every_method
def test_rank_above_the_number_of_points(case: Case) -> None:
    with pytest.raises(ValueError, match="rank must be at most the number of points, 60, got 66"):
        case.make(points(), rank=66)


@every_method
@pytest.mark.parametrize("rank", [0, -1, 2.0, True])
def test_invalid_ranks(case: Case, rank: object) -> None:
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
def test_invalid_points(case: Case) -> None:
    with pytest.raises(TypeError, match=r"X must be a torch\.Tensor"):
        case.make(points().numpy())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="X must have shape"):
        case.make(points()[0])


@every_method
def test_invalid_kernel(case: Case) -> None:
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


def beyond_the_probes(count: int) -> Tensor:
    """`count` of the 600 points that are not among the 256 probes."""
    seen = torch.linspace(0, 599, 256, dtype=torch.float64).long()
    unseen = torch.ones(600, dtype=torch.bool).index_fill_(0, seen, False)
    return unseen.nonzero().squeeze(1)[:count]


@every_evaluating_method
def test_values_that_are_not_finite_beyond_the_probes(case: Case) -> None:
    """One far point, whose kernel values are all NaN."""
    X = points(600, seed=3).clamp(-1, 1) * 0.5
    X[beyond_the_probes(1)] = 10.0
    with pytest.raises(ValueError, match=r"must be finite|must not contain infs or NaNs"):
        case.make(X, kernel=SometimesNaN(bandwidth=1.0))


@every_evaluating_method
def test_negative_eigenvalues_beyond_the_probes(case: Case) -> None:
    X = points(600, seed=3)
    X[beyond_the_probes(200), 0] += 10
    with pytest.raises(ValueError, match="kernel must be positive semi-definite"):
        case.make(X, kernel=IndefiniteFarOut(bandwidth=1.0))


@pytest.mark.parametrize("start", ["random", "sparse-svd"])
def test_negative_eigenvalues_under_starts_without_landmarks(start: str) -> None:
    X = points(600, seed=3)
    X[beyond_the_probes(200), 0] += 10
    with pytest.raises(ValueError, match="kernel must be positive semi-definite"):
        fit_als(IndefiniteFarOut(bandwidth=1.0), X, rank=12, start=start, generator=generator())


def test_fourier_features_see_no_kernel_value() -> None:
    """Beyond the probes they use only the spectral density of the kernel."""
    X = points(600, seed=3).clamp(-1, 1) * 0.5
    X[beyond_the_probes(1)] = 10.0
    made, plain = (fit_fourier(k, X, rank=4, generator=generator()) for k in (SometimesNaN(), Gaussian()))
    assert torch.equal(made.root, plain.root)


@every_method
def test_a_diagonal_that_is_not_finite(case: Case) -> None:
    with pytest.raises(ValueError, match=r"k\(x, x\) must be finite"):
        case.make(points(), kernel=NoDiagonal(bandwidth=1.0))


@pytest.mark.parametrize("kernel", [NoDiagonal(), SometimesNaN()], ids=str)
def test_pivots_end_where_values_are_not_finite(kernel: Kernel) -> None:
    """It is an error, not an endless loop, if there is no residual to draw from."""
    with pytest.raises(ValueError, match=r"k\(X, X\) must be finite"):
        pivoted_cholesky(kernel, 3 * points(), 30, generator=generator())


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


@every_method
def test_one_point_many_times(case: Case) -> None:
    X = points(1).repeat(32, 1)
    factor = case.make(X)
    if case.converges:  # else links between the halves are left out
        torch.testing.assert_close(factor.root @ factor.root.T, case.kernel(X))
    assert torch.isfinite(factor.solve(1e-3, X)).all()
    assert torch.isfinite(factor.transform(X)).all()


@every_evaluating_method
def test_the_identity(case: Case) -> None:
    """A tiny bandwidth: no factor has an error below 1, none of these has a larger one."""
    X = points()
    factor = case.make(X, kernel=IDENTITY)
    assert spectral_error(factor, X, generator=generator()).value == pytest.approx(1, abs=1e-9)
    torch.testing.assert_close(factor.solve(1.0, X), X / (1 + factor.diag()[:, None]), rtol=1e-6, atol=1e-9)


def test_fourier_features_of_the_identity() -> None:
    """They do not depend on the data: the diagonal is right, and the rest is noise of size 1 / sqrt(r)."""
    factor = fit_fourier(IDENTITY, points(), rank=12, generator=generator())
    torch.testing.assert_close(factor.diag(), torch.ones(60, dtype=torch.float64))
    assert spectral_error(factor, points(), generator=generator()).value < 60 / 12**0.5


def test_kmeans_centres_miss_the_identity() -> None:
    """Centres between points are far from all of them: U is zero."""
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


@pytest.mark.parametrize(
    ("kernel", "X", "rank", "tolerance"),
    [
        (Indefinite(), points(), 8, 1e-3),  # legal here: U V^T has any sign; its rank is 5
        (IDENTITY, points(), 12, 1 + 1e-9),
        (ONES, points(), 12, 1e-9),
        (Gaussian(bandwidth=1.5), points(20).repeat(3, 1), 25, 1e-2),
    ],
    ids=["indefinite", "identity", "ones", "duplicates"],
)
def test_matrices_without_a_kernel(kernel: Kernel, X: Tensor, rank: int, tolerance: float) -> None:
    """LELA needs no kernel; its error is at most this share of the matrix."""
    M = kernel(X)
    factor = fit_lela(lambda i, j: M[i, j], num_rows=60, num_columns=60, rank=rank, generator=generator())
    error = torch.linalg.matrix_norm(factor.left @ factor.right.T - M, ord=2)
    assert error <= tolerance * torch.linalg.matrix_norm(M, ord=2)


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
    for alpha in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="alpha must be a positive finite number"):
            factor.solve(alpha, torch.ones(60))
        with pytest.raises(ValueError, match="alpha must be a positive finite number"):
            factor.logdet(alpha)


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
