"""Every solver through the estimators, against dense float64 solutions of the problem it states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.utils.class_weight import compute_sample_weight

from bochner import KernelClassifier, KernelRegressor
from bochner.data import ArraySource
from bochner.data.batches import batches
from bochner.estimators.base import make_generator
from tests.estimators.cases import GIVEN, Array, options, rings, waves

n, ALPHA = 60, GIVEN["alpha"]
X, y = rings(n)
Y = np.eye(3)[y]
weights = np.random.default_rng(5).integers(0, 4, size=n).astype(float)
ONES = np.ones(n)


def gaussian(A: Array, B: Array) -> Array:
    squares = ((A[:, None] - B[None]) ** 2).sum(-1)
    return np.exp(-squares / (2 * GIVEN["bandwidth"] ** 2))


def features_of(estimator: Any, rows: Array) -> Array:
    import torch

    return estimator.model_.feature_map(torch.as_tensor(rows)).numpy()


def dense_ridge(Z: Array, targets: Array, w: Array) -> Array:
    """Scores at Z of least squares with an unpenalised bias, as one augmented least-squares problem."""
    share = np.sqrt(w / w.sum())[:, None]
    D = Z.shape[1]
    A = np.vstack([share * np.hstack([Z, np.ones((len(Z), 1))]), np.sqrt(ALPHA) * np.eye(D, D + 1)])
    solution = np.linalg.lstsq(A, np.vstack([share * targets, np.zeros((D, targets.shape[1]))]), rcond=None)[0]
    return np.hstack([Z, np.ones((len(Z), 1))]) @ solution


def dense_kernel_ridge(K: Array, targets: Array, w: Array) -> Array:
    """K a + mean with (W K + alpha I) a = W (targets - mean), W = diag(w) / sum(w): all rows are landmarks."""
    W = np.diag(w / w.sum())
    mean = w @ targets / w.sum()
    return K @ np.linalg.solve(W @ K + ALPHA * np.eye(len(K)), W @ (targets - mean)) + mean


def dense_softmax(Z: Array, offset: Array, w: Array, *, bias: bool) -> Array:
    """Scores at Z of the minimum of the weighted mean loss + alpha / 2 ||W||^2 over f = Z W + offset (+ bias)."""
    D, share = Z.shape[1], w / w.sum()

    def scores(flat: Array) -> Array:
        W = flat.reshape(D + 1, 3)
        return Z @ W[:D] + offset + bias * W[D]

    def objective(flat: Array) -> tuple[float, Array]:
        f, W = scores(flat), flat.reshape(D + 1, 3)
        residual = share[:, None] * (softmax(f, axis=1) - Y)
        gradient = np.vstack([Z.T @ residual + ALPHA * W[:D], bias * residual.sum(axis=0, keepdims=True)])
        loss = -(share * log_softmax(f, axis=1)[np.arange(n), y]).sum()
        return loss + ALPHA / 2 * (W[:D] ** 2).sum(), gradient.ravel()

    limits = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-10}
    return scores(minimize(objective, np.zeros((D + 1) * 3), jac=True, method="L-BFGS-B", options=limits).x)


def log_shares(w: Array) -> Array:
    return np.log(w @ Y / w.sum())


@pytest.mark.parametrize("w", [ONES, weights], ids=["plain", "weighted"])
def test_ridge(w: Array) -> None:
    estimator = KernelClassifier(solver="ridge", n_components=24, **GIVEN).fit(X, y, sample_weight=w)
    expected = dense_ridge(features_of(estimator, X), Y, w)
    np.testing.assert_allclose(estimator.decision_function(X), expected, atol=1e-9)
    p = np.clip(expected, 1e-4, None)
    np.testing.assert_allclose(estimator.predict_proba(X), p / p.sum(axis=1, keepdims=True), atol=1e-9)


@pytest.mark.parametrize("w", [ONES, weights], ids=["plain", "weighted"])
def test_landmarks(w: Array) -> None:
    estimator = KernelClassifier(solver="landmarks", n_components=n, **GIVEN).fit(X, y, sample_weight=w)
    expected = dense_kernel_ridge(gaussian(X, X), Y, w)
    np.testing.assert_allclose(estimator.decision_function(X), expected, atol=2e-3)


@pytest.mark.parametrize("w", [ONES, weights], ids=["plain", "weighted"])
def test_newton(w: Array) -> None:
    estimator = KernelClassifier(solver="newton", n_components=n, **GIVEN).fit(X, y, sample_weight=w)
    root = np.linalg.cholesky(gaussian(X, X) + 1e-12 * np.eye(n))
    expected = dense_softmax(root, log_shares(w), w, bias=False)
    np.testing.assert_allclose(estimator.predict_proba(X), softmax(expected, axis=1), atol=0.02)
    scores = [log_softmax(f, axis=1)[np.arange(n), y] @ w / w.sum() for f in (estimator.decision_function(X), expected)]
    assert scores[0] == pytest.approx(scores[1], abs=2e-3)


@pytest.mark.parametrize("w", [ONES, weights], ids=["plain", "weighted"])
def test_saga(w: Array) -> None:
    estimator = KernelClassifier(solver="saga", **options(GIVEN, n_components=24, max_epochs=500))
    estimator.fit(X, y, sample_weight=w)
    expected = dense_softmax(features_of(estimator, X), log_shares(w), w, bias=True)
    np.testing.assert_allclose(estimator.predict_proba(X), softmax(expected, axis=1), atol=2e-3)


@pytest.mark.parametrize("solver", ["ridge", "landmarks", "askotch", "saga"])
def test_least_squares_of_numbers(solver: str) -> None:
    rows, targets = waves(n)
    both = np.stack([targets, 5 - 3 * targets], axis=1)
    settings = options(GIVEN, n_components=n if solver == "landmarks" else 24, max_epochs=500)
    estimator = KernelRegressor(solver=solver, **settings).fit(rows, both)
    if solver in ("landmarks", "askotch"):
        expected = dense_kernel_ridge(gaussian(rows, rows), both, ONES)
    else:
        expected = dense_ridge(features_of(estimator, rows), both, ONES)
    np.testing.assert_allclose(estimator.predict(rows), expected, atol=1e-9 if solver == "ridge" else 5e-3)


@pytest.mark.parametrize("average", [False, True])
def test_one_epoch_of_sgd_is_the_formula_of_the_papers(average: bool) -> None:
    """Theta <- Theta - rate z^T (p - onehot) / B, and the same for the bias, which starts at the log shares; then the
    last iterate, or the mean of all."""
    source = ArraySource(X, y, shard_rows=16)
    plain = {"preconditioner_rank": 0, "learning_rate": 2.0, "batch_size": 20, "max_epochs": 1, "average": average}
    estimator = KernelClassifier(solver="sgd", n_components=24, **options(GIVEN, plain, alpha=0.3))
    seed = make_generator(estimator.random_state).initial_seed()
    estimator.fit(source, validation_data=(X, y))
    W, b, iterates = np.zeros((24, 3)), log_shares(ONES), []
    for block in batches(source, batch_size=20, seed=seed, epoch=0):
        Z = features_of(estimator, block.X.numpy())
        residual = softmax(Z @ W + b, axis=1) - np.eye(3)[block.y.numpy()]
        W, b = W - 2.0 * (Z.T @ residual / len(Z) + 0.3 * W), b - 2.0 * residual.mean(axis=0)
        iterates.append(features_of(estimator, X) @ W + b)
    assert len(estimator.history_) == 1
    expected = np.mean(iterates, axis=0) if average else iterates[-1]
    np.testing.assert_allclose(estimator.decision_function(X), expected, atol=1e-9)


# -- weights -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "atol"), [("ridge", 1e-9), ("landmarks", 5e-3), ("askotch", 5e-3), ("newton", 0.02), ("saga", 5e-3)]
)
def test_a_weight_is_a_number_of_repetitions(solver: str, atol: float) -> None:
    settings = options(GIVEN, n_components=200 if solver in ("landmarks", "newton") else 24, max_epochs=500)
    estimator = KernelClassifier(solver=solver, **settings)
    weighted = estimator.fit(X, y, sample_weight=weights).predict_proba(X)
    again = np.repeat(np.arange(n), weights.astype(int))
    repeated = estimator.fit(X[again], y[again]).predict_proba(X)
    np.testing.assert_allclose(weighted, repeated, atol=atol)
    assert np.abs(estimator.fit(X, y).predict_proba(X) - repeated).max() > 3 * atol


@pytest.mark.parametrize("solver", ["sgd", "ridge", "landmarks", "newton", "saga", "askotch", "eigenpro"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_of_weight_zero_are_not_there(solver: str) -> None:
    """They affect neither the bandwidth, nor the held-out rows, the landmarks or the scale of the targets."""
    strange = np.vstack([X, np.full((20, 2), 1e3)])
    w = np.concatenate([ONES, np.zeros(20)])
    quick = options(preset=None, solver=solver, n_components=24, max_epochs=5, random_state=0)
    estimator = KernelClassifier(**quick)
    expected = estimator.fit(X, y, sample_weight=ONES).decision_function(X)
    ignored = estimator.fit(strange, np.concatenate([y, np.arange(20) % 3]), sample_weight=w).decision_function(X)
    np.testing.assert_array_equal(ignored, expected)
    if solver != "newton":
        numbers = KernelRegressor(**quick)
        expected = numbers.fit(X, y, sample_weight=ONES).predict(X)
        ignored = numbers.fit(strange, np.concatenate([y, np.full(20, 1e20)]), sample_weight=w).predict(X)
        np.testing.assert_array_equal(ignored, expected)


def test_a_search_does_not_see_rows_of_weight_zero() -> None:
    strange = np.vstack([X, np.full((20, 2), 1e3)])
    w = np.concatenate([ONES, np.zeros(20)])
    searched = KernelClassifier(preset="fast", random_state=0)
    expected = searched.fit(X, y, sample_weight=ONES).decision_function(X)
    ignored = searched.fit(strange, np.concatenate([y, np.arange(20) % 3]), sample_weight=w).decision_function(X)
    np.testing.assert_array_equal(ignored, expected)
    numbers = KernelRegressor(preset="fast", random_state=0)
    expected = numbers.fit(X, y, sample_weight=ONES).predict(X)
    ignored = numbers.fit(strange, np.concatenate([y, np.full(20, 1e20)]), sample_weight=w).predict(X)
    np.testing.assert_array_equal(ignored, expected)


@pytest.mark.parametrize(("solver", "atol"), [("ridge", 1e-9), ("landmarks", 1e-6), ("newton", 1e-6), ("sgd", 1e-6)])
@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0, 2: 0.5}], ids=["balanced", "given"])
def test_class_weights_are_row_weights(solver: str, atol: float, class_weight: Any) -> None:
    settings = options(GIVEN, n_components=32, batch_size=16, max_epochs=5)
    by_class = KernelClassifier(solver=solver, class_weight=class_weight, **settings).fit(X, y)
    by_row = KernelClassifier(solver=solver, **settings)
    by_row.fit(X, y, sample_weight=compute_sample_weight(class_weight, y))
    np.testing.assert_allclose(by_class.decision_function(X), by_row.decision_function(X), atol=atol)
    assert not np.allclose(by_row.decision_function(X), by_row.fit(X, y).decision_function(X), atol=1e-3)


def test_the_size_of_weights_does_not_matter() -> None:
    estimator = KernelClassifier(solver="sgd", **options(GIVEN, n_components=24, batch_size=16, max_epochs=3))
    small, large = (estimator.fit(X, y, sample_weight=weights * size).predict_proba(X) for size in (1e-6, 1e6))
    np.testing.assert_allclose(small, large, atol=1e-7)
