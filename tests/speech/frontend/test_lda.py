"""Linear discriminant analysis compared with scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from bochner.speech.frontend import ClassMoments, lda


def labelled(num: int = 600, dim: int = 6, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    y = generator.integers(classes, size=num)
    mixed = generator.standard_normal((num, dim)) @ generator.standard_normal((dim, dim))
    return mixed + 2 * generator.standard_normal((classes, dim))[y] + 50, y


def gathered(X: np.ndarray, y: np.ndarray, step: int, classes: int = 4) -> ClassMoments:
    moments = ClassMoments(classes, X.shape[1])
    for start in range(0, len(X), step):
        moments.add(X[start : start + step], y[start : start + step])
    return moments


@pytest.mark.parametrize("step", [1, 37, 600])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_subspace_is_that_of_scikit_learn(step: int, dim: int) -> None:
    X, y = labelled()
    found = lda(gathered(X, y, step), dim=dim)
    expected = LinearDiscriminantAnalysis(n_components=dim).fit(X, y).transform(X)
    ours = (X - X.mean(0)) @ found.T
    signs = np.sign((ours * expected).sum(0))
    np.testing.assert_allclose(ours * signs, expected, atol=1e-6)


def test_within_and_between_by_hand() -> None:
    X, y = labelled(classes=3)
    moments = gathered(X, y, 11, classes=5)  # two classes have no frames
    within = sum((X[y == c] - X[y == c].mean(0)).T @ (X[y == c] - X[y == c].mean(0)) for c in range(3)) / len(X)
    np.testing.assert_allclose(moments.within, within, rtol=1e-9)
    np.testing.assert_allclose(moments.within + moments.between, np.cov(X.T, bias=True), rtol=1e-9)


def test_rows_whiten_the_covariance_within() -> None:
    moments = gathered(*labelled(), 100)
    A = lda(moments, dim=6)
    np.testing.assert_allclose(A @ moments.within @ A.T, np.eye(6), atol=1e-9)
    separation = np.diag(A @ moments.between @ A.T)
    assert (np.diff(separation) < 1e-9).all()
    np.testing.assert_allclose(separation[3:], 0, atol=1e-9)  # four classes differ in three directions


def test_a_mean_far_from_zero() -> None:
    X, y = labelled()
    moved = lda(gathered(X + 1e7, y, 50), dim=3)
    np.testing.assert_allclose(moved, lda(gathered(X, y, 50), dim=3), rtol=1e-5)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((3, 2)), np.array([0, 1]), r"classes must be integers \[3\]"),
        (np.zeros((3, 2)), np.array([0.0, 1.0, 1.0]), "classes must be integers"),
        (np.zeros((3, 2)), np.array([0, 1, 2]), r"classes must lie in 0 \.\.\. 1, got 0 \.\.\. 2"),
        (np.zeros((3, 2)), np.array([0, 1, -1]), r"got -1 \.\.\. 1"),
        (np.zeros((3, 3)), np.array([0, 1, 1]), "frames must have 2 columns, got 3"),
    ],
)
def test_rows_that_are_refused(X: np.ndarray, y: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClassMoments(2, 2).add(X, y)


def test_estimates_that_are_refused() -> None:
    with pytest.raises(ValueError, match="dim must be at most the 6 columns of the frames, got 7"):
        lda(gathered(*labelled(), 100), dim=7)
    with pytest.raises(ValueError, match="must be added before"):
        lda(ClassMoments(2, 3), dim=1)
    X, y = labelled()
    with pytest.raises(ValueError, match="must have full rank 6; 600 frames"):
        lda(gathered(np.column_stack([X[:, :5], np.zeros(600)]), y, 100), dim=2)
