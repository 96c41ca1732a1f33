"""The tallies against scikit-learn's metrics, over blocks of rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    root_mean_squared_error,
)

from bochner.cli import scoring
from bochner.cli.scoring import ClassTally, score
from bochner.data import ArraySource

N = 500


class Oracle:
    """A model whose answers are its inputs: log p(class | x), or predictions."""

    def __init__(self, classes: list[str] | None = None) -> None:
        if classes is not None:
            self.classes_ = np.array(classes)

    def predict_log_proba(self, X: torch.Tensor) -> torch.Tensor:
        return X

    def predict(self, X: torch.Tensor) -> torch.Tensor:
        return X[:, 0] if X.shape[1] == 1 else X


@pytest.fixture(params=[False, True], ids=["equal", "weighted"])
def weight(request: pytest.FixtureRequest) -> np.ndarray | None:
    return np.random.default_rng(1).uniform(0, 3, N) if request.param else None


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "ROWS_AT_ONCE", 64)


def test_classes(weight: np.ndarray | None) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.5, 1.0, 2.0, 1.0], N)
    y = np.where(rng.random(N) < 0.5, p.argmax(axis=1), rng.integers(0, 3, N))
    y = np.where(y == 3, 0, y)  # the last class never occurs
    classes = ["a", "b", "c", "d"]
    tally = score(Oracle(classes), ArraySource(np.log(p), np.array(classes)[y], weight, labels=classes, shard_rows=99))
    found, predicted = tally.metrics(), p.argmax(axis=1)
    assert tally.num_rows == N
    accuracy = accuracy_score(y, predicted, sample_weight=weight)
    assert found["accuracy"] == pytest.approx(accuracy, rel=1e-12)
    assert found["error"] == pytest.approx(1 - accuracy, rel=1e-12)
    balanced = [accuracy_score(y[y == c], predicted[y == c], sample_weight=_of(weight, y == c)) for c in range(3)]
    assert found["balanced_accuracy"] == pytest.approx(np.mean(balanced), rel=1e-12)
    if weight is None:
        with pytest.warns(UserWarning, match="y_pred contains classes not in y_true"):
            assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, predicted), rel=1e-12)
    ce = log_loss(y, p, labels=range(4), sample_weight=weight)
    assert found["ce"] == pytest.approx(ce, rel=1e-9)
    assert found["perplexity"] == pytest.approx(np.exp(ce), rel=1e-9)


def test_the_most_frequent_confusions() -> None:
    y = np.array(["a"] * 5 + ["b"] * 5)
    p = np.full((10, 2), 0.5)
    p[:, 0] = [0.9, 0.9, 0.9, 0.1, 0.1, 0.9, 0.1, 0.1, 0.1, 0.1]
    p[:, 1] = 1 - p[:, 0]
    tally = score(Oracle(["a", "b"]), ArraySource(np.log(p), y))
    assert isinstance(tally, ClassTally)
    assert tally.confusions(5) == [("a", "b", 2), ("b", "a", 1)]
    assert tally.confusions(1) == [("a", "b", 2)]


def test_a_probability_of_zero_keeps_the_metrics_finite() -> None:
    with np.errstate(divide="ignore"):
        logs = np.log([[1.0, 0.0], [0.5, 0.5]])
    logs[0, 1] = -1e308
    found = score(Oracle(["a", "b"]), ArraySource(logs, np.array(["b", "a"]))).metrics()
    assert 300 < found["ce"] < 400


@pytest.mark.parametrize("targets", [1, 3])
def test_numbers(weight: np.ndarray | None, targets: int) -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=(N, targets)) + 1e6  # a mean far from zero: sums of squares would cancel
    f = y + 0.5 * rng.normal(size=(N, targets))
    source = ArraySource(f, y[:, 0] if targets == 1 else y, weight, shard_rows=77)
    found = score(Oracle(), source).metrics()
    assert found["r2"] == pytest.approx(r2_score(y, f, sample_weight=weight), rel=1e-8)
    assert found["mae"] == pytest.approx(mean_absolute_error(y, f, sample_weight=weight), rel=1e-9)
    if targets == 1:
        assert found["rmse"] == pytest.approx(root_mean_squared_error(y, f, sample_weight=weight), rel=1e-9)


def _of(weight: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    return None if weight is None else weight[rows]
