"""Rows that arrive a few at a time."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from sklearn.base import clone

from bochner import KernelClassifier, KernelRegressor, NetworkClassifier
from bochner.models.heads import LinearHead
from tests.estimators.cases import GIVEN, QUICK, options, rings, waves

X, y = rings(600)


def parts(estimator, rows, targets, size: int = 100, **first):
    for start in range(0, len(rows), size):
        estimator.partial_fit(rows[start : start + size], targets[start : start + size], **first)
    return estimator


@pytest.mark.parametrize(
    "changes", [{}, {"rank": 2, "learning_rate": 1.0}, {"optimizer": "adam", "learning_rate": 0.05}]
)
def test_learns_from_a_stream(changes: dict) -> None:
    estimator = KernelClassifier(solver="sgd", **options(QUICK, **changes))
    names = np.array(["a", "b", "c"])
    for _ in range(5):
        parts(estimator, X, names[y], classes=names)
    test, truth = rings(300, seed=1, noise=0.0)
    assert estimator.score(test, names[truth]) > 0.8
    np.testing.assert_array_equal(estimator.classes_, names)


def test_numbers_from_a_stream() -> None:
    rows, targets = waves(900)
    estimator = KernelRegressor(**options(QUICK, n_components=256))
    for _ in range(3):
        parts(estimator, rows, targets)
    test, truth = waves(300, seed=1)
    assert estimator.score(test, truth) > 0.85
    both = parts(KernelRegressor(**QUICK), rows, np.stack([targets, -targets], axis=1))
    assert both.predict(test).shape == (300, 2)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_call_is_one_epoch_of_the_formula(weighted: bool) -> None:
    """One batch without preconditioner: Theta = rate z^T (w (onehot - p)) / B from p = 1/3; weights are not scaled."""
    estimator = KernelClassifier(
        solver="sgd",
        **options(GIVEN, n_components=16, alpha=None, preconditioner_rank=0, learning_rate=2.0, batch_size=1000),
    )
    w = np.random.default_rng(0).uniform(0, 3, size=600) if weighted else np.ones(600)
    estimator.partial_fit(X, y, classes=[0, 1, 2], sample_weight=w if weighted else None)
    Z = estimator.model_.feature_map(torch.as_tensor(X)).numpy()
    residual = w[:, None] * (np.eye(3)[y] - 1 / 3)
    head = estimator.model_.head
    assert isinstance(head, LinearHead)
    np.testing.assert_allclose(head.weights.detach().numpy(), 2.0 * residual.T @ Z / 600, atol=1e-12)
    np.testing.assert_allclose(head.bias.detach().numpy(), 2.0 * residual.mean(axis=0), atol=1e-12)


def test_class_weights_count() -> None:
    by_class = KernelClassifier(class_weight={0: 2.0, 1: 0.0}, **QUICK).partial_fit(X, y, classes=[0, 1, 2])
    rows = np.array([2.0, 0.0, 1.0])[y]
    by_row = KernelClassifier(**QUICK).partial_fit(X, y, classes=[0, 1, 2], sample_weight=rows)
    np.testing.assert_array_equal(by_class.decision_function(X), by_row.decision_function(X))
    with pytest.raises(ValueError, match="class_weight='balanced' needs all rows at once"):
        KernelClassifier(class_weight="balanced").partial_fit(X, y, classes=[0, 1, 2])


def test_same_seed_same_bits_and_features_stay() -> None:
    first, second = (parts(KernelClassifier(**QUICK), X, y, classes=[0, 1, 2]) for _ in range(2))
    np.testing.assert_array_equal(first.decision_function(X), second.decision_function(X))
    frequencies = first.model_.feature_map.frequencies().clone()
    first.partial_fit(X[:50], y[:50])
    assert torch.equal(first.model_.feature_map.frequencies(), frequencies)
    assert not np.array_equal(first.decision_function(X), second.decision_function(X))


def test_continues_a_fit_by_sgd() -> None:
    fitted = KernelClassifier(solver="sgd", **options(QUICK, max_epochs=1)).fit(X, y)
    before = fitted.decision_function(X)
    fitted.partial_fit(X, y)
    assert not np.array_equal(fitted.decision_function(X), before)
    assert fitted.score(X, y) > 0.85


def test_does_not_exist_where_a_fit_cannot_be_continued() -> None:
    for estimator in (
        KernelClassifier(solver="ridge"),
        KernelRegressor(solver="landmarks"),
        KernelClassifier(solver_params={"num_blocks": 2}),
        KernelClassifier(adapt="agop"),
        KernelClassifier(adapt="dab"),
        KernelClassifier(selection=2),
        NetworkClassifier(),
    ):
        assert not hasattr(estimator, "partial_fit")
    exact = KernelClassifier(preset=None, random_state=0)
    assert hasattr(exact, "partial_fit")
    exact.fit(X[:100], y[:100])
    with pytest.raises(AttributeError) as caught:
        exact.partial_fit(X, y)
    assert re.search("solver_='newton'.*solver='sgd'", str(caught.value.__cause__))
    assert hasattr(clone(exact), "partial_fit")


def test_a_single_row() -> None:
    estimator = KernelClassifier(bandwidth=1.0, **QUICK)
    for i in range(20):
        estimator.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1, 2])
    assert np.isfinite(estimator.predict_proba(X)).all()


def test_bad_calls() -> None:
    with pytest.raises(ValueError, match="classes must be given with the first call"):
        KernelClassifier(**QUICK).partial_fit(X, y)
    with pytest.raises(ValueError, match="classes must hold at least two classes"):
        KernelClassifier(**QUICK).partial_fit(X, y, classes=[1])
    with pytest.raises(ValueError, match=r"y must hold the classes \[0, 1\] only, got 2"):
        KernelClassifier(**QUICK).partial_fit(X, y, classes=[0, 1])
    estimator = KernelClassifier(**QUICK).partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"classes must be those of the first call, \[0, 1, 2\]"):
        estimator.partial_fit(X, y, classes=[0, 1, 2, 3])
    with pytest.raises(ValueError, match="X has 1 features, but KernelClassifier is expecting 2"):
        estimator.partial_fit(X[:, :1], y)
    with pytest.raises(ValueError, match="NaN"):
        estimator.partial_fit(np.full_like(X, np.nan), y)
    for bad, message in ((-np.ones(600), "[Nn]egative"), (np.ones(3), "shape"), (np.zeros(600), "zero")):
        with pytest.raises(ValueError, match=message):
            estimator.partial_fit(X, y, sample_weight=bad)
    numbers = KernelRegressor(**QUICK).partial_fit(X, y)
    with pytest.raises(ValueError, match="y must have 1 columns as before, got 2"):
        numbers.partial_fit(X, np.stack([y, y], axis=1))
