"""`bochner evaluate` and `bochner info`; scores against those of scikit-learn."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

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

import bochner
from bochner.cli.evaluate import ClassScorer, score_rows
from bochner.data import ArraySource
from tests.cli.files import NAMES, rings, run, write_csv

Capture = pytest.CaptureFixture[str]


def test_classes_in_a_table_and_a_file(ring_model: Path, tmp_path: Path, capsys: Capture) -> None:
    words = ["evaluate", ring_model / "model", ring_model / "test.csv", "--target=ring"]
    code, out, err = run(capsys, *words, "--json", tmp_path / "m.json")
    assert (code, err) == (0, "")
    X, y = rings(90, seed=1)
    right = bochner.load(ring_model / "model" / "model.safetensors").predict(torch.tensor(X)) == np.array(NAMES)[y]
    stored = json.loads((tmp_path / "m.json").read_text())
    assert stored["accuracy"] == pytest.approx(right.mean())
    assert stored["num_rows"] == 90
    assert f"all 90 rows of {ring_model / 'test.csv'}" in out
    assert f"accuracy           {right.mean():>10.4f}" in out
    assert "predicted as" in out


def test_numbers(wave_model: Path, tmp_path: Path, capsys: Capture) -> None:
    words = ["evaluate", wave_model / "model", wave_model / "test.csv", "--target=y", "--json", tmp_path / "m.json"]
    assert run(capsys, *words).code == 0
    x = np.random.default_rng(1).uniform(-3, 3, 60)
    predicted = bochner.load(wave_model / "model" / "model.safetensors").predict(torch.tensor(x)[:, None])
    assert json.loads((tmp_path / "m.json").read_text())["r2"] == pytest.approx(r2_score(np.sin(x), predicted))


def test_weights_count(ring_model: Path, tmp_path: Path, capsys: Capture) -> None:
    X, y = rings(50, seed=3)
    labels = np.array(NAMES)[np.where(np.arange(50) < 5, (y + 1) % 3, y)]  # five are wrong
    right = bochner.load(ring_model / "model" / "model.safetensors").predict(torch.tensor(X)) == labels
    assert not right.all()
    columns = {"east": X[:, 0], "north": X[:, 1], "ring": labels, "count": np.where(right, 0.0, 2.0)}
    data = write_csv(tmp_path / "d.csv", columns)
    out = run(capsys, "evaluate", ring_model / "model", data, "--target=ring", "--weight=count").out
    assert "accuracy               0.0000" in out
    assert "weighted by count" in out


def test_a_file_may_lack_a_class(ring_model: Path, tmp_path: Path, capsys: Capture) -> None:
    data = write_csv(tmp_path / "d.csv", {"east": [0.0, 2.0], "north": [0.1, 2.0], "ring": [NAMES[0], NAMES[2]]})
    code, out, err = run(capsys, "evaluate", ring_model / "model", data, "--target=ring")
    assert (code, err) == (0, "")
    assert "accuracy               1.0000" in out


def test_a_class_that_training_had_not_is_named(ring_model: Path, tmp_path: Path, capsys: Capture) -> None:
    data = write_csv(tmp_path / "d.csv", {"east": [0.0], "north": [1.0], "ring": ["violet"]})
    code, _, err = run(capsys, "evaluate", ring_model / "model", data, "--target=ring")
    assert code == 1
    assert "'violet'" in err


def test_without_a_target_the_columns_are_named(ring_model: Path, capsys: Capture) -> None:
    code, _, err = run(capsys, "evaluate", ring_model / "model", ring_model / "test.csv")
    assert code == 1
    assert "with --target" in err


def test_info(ring_model: Path, capsys: Capture) -> None:
    out = run(capsys, "info", ring_model / "model").out
    for text in ("KernelClassifier", "solver exact", "PowerExponential(exponent=", "2: ['east', 'north']"):
        assert text in out
    for text in (" trials, loss ", "penalty ", "random_state=0"):
        assert text in out
    assert "device" not in out


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


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("bochner.cli.evaluate"), "BATCH_ROWS", 64)


@pytest.mark.usefixtures("small_batches")
def test_class_scores_are_those_of_scikit_learn(weight: np.ndarray | None) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.5, 1.0, 2.0, 1.0], N)
    y = np.where(rng.random(N) < 0.5, p.argmax(axis=1), rng.integers(0, 3, N))
    y = np.where(y == 3, 0, y)  # the last class never occurs
    classes = ["a", "b", "c", "d"]
    scorer = score_rows(
        Oracle(classes), ArraySource(np.log(p), np.array(classes)[y], weight, labels=classes, shard_rows=99)
    )
    scores, predicted = scorer.scores(), p.argmax(axis=1)
    assert scorer.num_rows == N
    accuracy = accuracy_score(y, predicted, sample_weight=weight)
    assert scores["accuracy"] == pytest.approx(accuracy, rel=1e-12)
    assert scores["error"] == pytest.approx(1 - accuracy, rel=1e-12)
    balanced = [accuracy_score(y[y == c], predicted[y == c], sample_weight=_of(weight, y == c)) for c in range(3)]
    assert scores["balanced_accuracy"] == pytest.approx(np.mean(balanced), rel=1e-12)
    if weight is None:
        with pytest.warns(UserWarning, match="y_pred contains classes not in y_true"):
            assert scores["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, predicted), rel=1e-12)
    ce = log_loss(y, p, labels=range(4), sample_weight=weight)
    assert scores["ce"] == pytest.approx(ce, rel=1e-9)
    assert scores["perplexity"] == pytest.approx(np.exp(ce), rel=1e-9)


def test_the_most_frequent_confusions() -> None:
    y = np.array(["a"] * 5 + ["b"] * 5)
    p = np.full((10, 2), 0.5)
    p[:, 0] = [0.9, 0.9, 0.9, 0.1, 0.1, 0.9, 0.1, 0.1, 0.1, 0.1]
    p[:, 1] = 1 - p[:, 0]
    scorer = score_rows(Oracle(["a", "b"]), ArraySource(np.log(p), y))
    assert isinstance(scorer, ClassScorer)
    assert scorer.confusions(5) == [("a", "b", 2), ("b", "a", 1)]
    assert scorer.confusions(1) == [("a", "b", 2)]


def test_a_probability_of_zero_keeps_the_scores_finite() -> None:
    with np.errstate(divide="ignore"):
        logs = np.log([[1.0, 0.0], [0.5, 0.5]])
    logs[0, 1] = -1e308
    scores = score_rows(Oracle(["a", "b"]), ArraySource(logs, np.array(["b", "a"]))).scores()
    assert 300 < scores["ce"] < 400


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.usefixtures("small_batches")
def test_errors_of_numbers_are_those_of_scikit_learn(weight: np.ndarray | None, targets: int) -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=(N, targets)) + 1e6  # a mean far from zero: sums of squares would cancel
    f = y + 0.5 * rng.normal(size=(N, targets))
    source = ArraySource(f, y[:, 0] if targets == 1 else y, weight, shard_rows=77)
    scores = score_rows(Oracle(), source).scores()
    assert scores["r2"] == pytest.approx(r2_score(y, f, sample_weight=weight), rel=1e-8)
    assert scores["mae"] == pytest.approx(mean_absolute_error(y, f, sample_weight=weight), rel=1e-9)
    if targets == 1:
        assert scores["rmse"] == pytest.approx(root_mean_squared_error(y, f, sample_weight=weight), rel=1e-9)


def _of(weight: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    return None if weight is None else weight[rows]
