"""MLLT and fMLLR: the objective increases and is the likelihood, and known transforms are recovered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from bochner.speech.frontend import AffineStatistics, SemiTiedStatistics, fmllr, mllt, transform
from bochner.speech.frontend.transforms import with_row_changed

Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def mixture(num: int = 3000, dim: int = 4, gaussians: int = 8) -> Rows:
    """Frames drawn from diagonal Gaussians, with the mean, variances and a weight of each row."""
    generator = np.random.default_rng(0)
    means = 3 * generator.standard_normal((gaussians, dim))
    variances = generator.uniform(0.2, 2.0, (gaussians, dim))
    g = generator.integers(gaussians, size=num)
    X = means[g] + np.sqrt(variances[g]) * generator.standard_normal((num, dim))
    return X, means[g], variances[g], generator.uniform(0.5, 1.0, num)


def mixing(dim: int = 4) -> np.ndarray:
    return np.eye(dim) + 0.3 * np.random.default_rng(1).standard_normal((dim, dim))


def log_likelihood(rows: Rows, W: np.ndarray) -> float:
    """Weighted mean of log N(W x; m, diag v) + log |det A|, one row at a time."""
    X, M, V, w = rows
    d = X.shape[1]
    total = 0.0
    for x, m, v, weight in zip(X, M, V, w, strict=True):
        y = W[:, :d] @ x + (W[:, d] if W.shape[1] > d else 0)
        total += weight * multivariate_normal(m, np.diag(v)).logpdf(y)
    return total / w.sum() + np.linalg.slogdet(W[:, :d])[1]


def affine(rows: Rows) -> AffineStatistics:
    statistics = AffineStatistics(rows[0].shape[1])
    statistics.add(*rows)
    return statistics


def rises(objectives: tuple[float, ...]) -> bool:
    return all(b >= a - 1e-10 for a, b in zip((0.0, *objectives), objectives, strict=False))


def test_fmllr_objective_is_the_gain_in_likelihood() -> None:
    X, M, V, w = mixture(num=300)
    rows = (X @ mixing().T + 1, M, V, w)
    found = fmllr(affine(rows), iterations=3, min_count=0)
    gain = log_likelihood(rows, found.matrix) - log_likelihood(rows, np.eye(4, 5))
    assert found.objectives[-1] == pytest.approx(gain, rel=1e-9)


def test_fmllr_finds_the_transform_again() -> None:
    X, M, V, w = mixture(num=20000)
    A, b = mixing(), np.array([1.0, -2.0, 3.0, 0.5])
    observed = (X - b) @ np.linalg.inv(A).T  # so that A observed + b is as drawn
    found = fmllr(affine((observed, M, V, w)), iterations=50)
    assert rises(found.objectives)
    np.testing.assert_allclose(found.matrix, np.column_stack([A, b]), atol=0.03)
    np.testing.assert_allclose(transform(observed, found.matrix), X, atol=0.2)


def test_fmllr_of_a_speaker_like_the_model_is_nearly_the_identity() -> None:
    np.testing.assert_allclose(fmllr(affine(mixture(num=20000))).matrix, np.eye(4, 5), atol=0.03)


def test_fmllr_ends_where_the_gradient_vanishes() -> None:
    X, M, V, w = mixture(num=60)
    rows = (X @ mixing().T, M, V, w)
    W = fmllr(affine(rows), iterations=200, min_count=0).matrix
    gradient = approx_fprime(W.ravel(), lambda flat: log_likelihood(rows, flat.reshape(4, 5)), 1e-6)
    np.testing.assert_allclose(gradient, 0, atol=1e-4)


def test_few_frames_leave_the_identity() -> None:
    found = fmllr(affine(mixture(num=100)), min_count=500)
    np.testing.assert_array_equal(found.matrix, np.eye(4, 5))
    assert found.objectives == ()


def correlated(num: int = 4000) -> tuple[Rows, np.ndarray]:
    """Frames that become diagonal Gaussians by the matrix A, with the variances of the frames before it."""
    X, M, V, _ = mixture(num)
    A = mixing()
    back = np.linalg.inv(A)
    seen = np.diagonal(back @ (V[:, :, None] * back.T), axis1=1, axis2=2)
    return (X @ back.T, M @ back.T, seen, np.ones(num)), A


def semi_tied(rows: Rows) -> SemiTiedStatistics:
    statistics = SemiTiedStatistics(rows[0].shape[1])
    statistics.add(*rows)
    return statistics


def test_the_inverse_after_a_change_of_one_row() -> None:
    generator = np.random.default_rng(0)
    A, change = np.eye(5) + 0.3 * generator.standard_normal((5, 5)), generator.standard_normal(5)
    changed = A.copy()
    changed[3] += change
    np.testing.assert_allclose(with_row_changed(np.linalg.inv(A), 3, change), np.linalg.inv(changed), atol=1e-10)


def test_mllt_objective_is_the_gain_in_likelihood() -> None:
    X, M, V, w = mixture(num=300)
    rows = ((X - M) @ mixing().T, np.zeros_like(M), V, w)  # centred: the means move with the frames
    found = mllt(semi_tied(rows), iterations=3)
    gain = log_likelihood(rows, found.matrix) - log_likelihood(rows, np.eye(4))
    assert found.objectives[-1] == pytest.approx(gain, rel=1e-9)


def test_mllt_rises_and_makes_the_gaussians_diagonal() -> None:
    """Alternating with the variances, as a trainer does, the frames become those of diagonal Gaussians again."""
    (X, M, V, w), A = correlated()
    groups = np.unique(M, axis=0, return_inverse=True)[1].ravel()
    total = np.eye(4)
    for _ in range(15):
        found = mllt(semi_tied((X, M, V, w)))
        assert rises(found.objectives)
        total, X, M = found.matrix @ total, X @ found.matrix.T, M @ found.matrix.T
        V = np.stack([((X - M)[groups == g] ** 2).mean(0) for g in range(groups.max() + 1)])[groups]
    against = total @ np.linalg.inv(A)  # a permutation times scales, once the rows of A are found
    dominance = np.sort(np.abs(against), axis=1)
    assert (dominance[:, -1] > 8 * dominance[:, -2]).all()


def test_mllt_of_diagonal_gaussians_is_nearly_the_identity() -> None:
    np.testing.assert_allclose(mllt(semi_tied(mixture(num=20000))).matrix, np.eye(4), atol=0.03)


@pytest.mark.parametrize("kind", [SemiTiedStatistics, AffineStatistics])
def test_statistics_add_up(kind: type[Any]) -> None:
    rows = mixture(num=5000)
    whole, pieces = kind(4), kind(4)
    whole.add(*rows)
    for start in range(0, 5000, 999):
        pieces.add(*(part[start : start + 999] for part in rows))
    np.testing.assert_allclose(pieces.squares, whole.squares, rtol=1e-10)
    assert pieces.count == pytest.approx(rows[3].sum())
    twice, doubled = kind(4), kind(4)
    twice.add(*(np.concatenate([part, part]) for part in rows))
    doubled.add(*rows[:3], 2 * rows[3])
    np.testing.assert_allclose(twice.squares, doubled.squares, rtol=1e-10)


@pytest.mark.parametrize("kind", [SemiTiedStatistics, AffineStatistics])
@pytest.mark.parametrize(
    ("place", "wrong", "message"),
    [
        (0, np.zeros((5, 3)), r"frames must have shape \[5, 4\]"),
        (1, np.zeros((4, 4)), r"means must have shape \[5, 4\]"),
        (2, np.zeros((5, 4)), "variances must be positive, got 0.0"),
        (3, np.full(5, -1.0), "weights must be non-negative"),
        (3, np.ones(4), r"weights must be non-negative \[5\], got shape \[4\]"),
    ],
)
def test_rows_that_are_refused(kind: type[Any], place: int, wrong: np.ndarray, message: str) -> None:
    rows = [np.zeros((5, 4)), np.zeros((5, 4)), np.ones((5, 4)), np.ones(5)]
    rows[place] = wrong
    with pytest.raises(ValueError, match=message):
        kind(4).add(*rows)


def test_frames_too_few_or_too_alike() -> None:
    with pytest.raises(ValueError, match="must be added before"):
        mllt(SemiTiedStatistics(4))
    with pytest.raises(ValueError, match="must span all 4 dimensions; 3 do not"):
        mllt(semi_tied((np.eye(4)[:3], np.zeros((3, 4)), np.ones((3, 4)), np.ones(3))))
    with pytest.raises(ValueError, match="must span all 5 dimensions"):
        fmllr(affine((np.zeros((9, 4)), np.zeros((9, 4)), np.ones((9, 4)), np.ones(9))), min_count=0)
