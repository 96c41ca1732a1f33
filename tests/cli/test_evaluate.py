"""`bochner evaluate` and `bochner info`; scores against those of scikit-learn."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import t
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
from bochner.cli.info import search_text
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


def test_the_target_of_training_is_the_default(ring_model: Path, tmp_path: Path, capsys: Capture) -> None:
    known, given = (
        run(capsys, "evaluate", ring_model / "model", ring_model / "test.csv", *words)
        for words in ([], ["--target=ring"])
    )
    assert known == given
    assert known.code == 0
    alone = tmp_path / "model.safetensors"
    alone.write_bytes((ring_model / "model" / "model.safetensors").read_bytes())
    code, _, err = run(capsys, "evaluate", alone, ring_model / "test.csv")
    assert code == 1
    assert "with --target" in err
    assert "no model card beside" in run(capsys, "evaluate", alone, ring_model / "test.csv", "--target=-1").out


def test_files_of_training_are_recognised(ring_model: Path, tmp_path: Path, capsys: Capture) -> None:
    same = tmp_path / "copy.csv"
    same.write_bytes((ring_model / "train.csv").read_bytes())
    outcome = run(capsys, "evaluate", ring_model / "model", same, "--json", tmp_path / "s.json")
    assert f"{same} is the file of training: 180 of its rows were trained on" in outcome.err
    assert "is the file of training" in json.loads((tmp_path / "s.json").read_text())["relation"]
    new = run(capsys, "evaluate", ring_model / "model", ring_model / "test.csv")
    assert new.err == ""
    assert "not a file of training, by its SHA-256" in new.out


def test_the_validation_file_of_training_is_recognised(ring_model: Path, tmp_path: Path, capsys: Capture) -> None:
    validation, model = ring_model / "test.csv", tmp_path / "m"
    words = ["train", ring_model / "train.csv", "--target=ring", f"--validation_data={validation}", "--preset=fast"]
    assert run(capsys, *words, f"--output_dir={model}").code == 0
    assert (
        "is the validation file of training; not trained on, but used" in run(capsys, "evaluate", model, validation).err
    )


def test_intervals_hold_the_scores_of_new_rows() -> None:
    """95 % intervals of 300 samples of 60 rows hold the expected score about as often as they should."""
    rng = np.random.default_rng(0)
    held: dict[str, list[bool]] = {}
    for _ in range(300):
        correct = rng.random(60) < 0.8
        y = rng.integers(0, 2, 60)
        p = np.full((60, 2), 0.3)
        p[np.arange(60), np.where(correct, y, 1 - y)] = 0.7
        classes = score_rows(Oracle(["a", "b"]), ArraySource(np.log(p), np.array(["a", "b"])[y])).intervals()
        numbers = rng.normal(size=60)
        f = numbers + 0.5 * rng.normal(size=60)
        errors = score_rows(Oracle(), ArraySource(f[:, None], numbers)).intervals()
        ce = -(0.8 * np.log(0.7) + 0.2 * np.log(0.3))
        expected = {"accuracy": 0.8, "error": 0.2, "balanced_accuracy": 0.8, "ce": ce, "perplexity": np.exp(ce)}
        expected |= {"r2": 0.75, "rmse": 0.5, "mae": 0.5 * np.sqrt(2 / np.pi)}
        for name, (low, high) in (classes | errors).items():
            held.setdefault(name, []).append(low <= expected[name] <= high)
    for name, inside in held.items():
        assert 0.9 <= np.mean(inside) <= 0.99, name


def test_no_errors_in_few_rows_are_not_certainty() -> None:
    logs = np.log([[0.9, 0.1]] * 7 + [[0.1, 0.9]] * 7)
    scorer = score_rows(Oracle(["a", "b"]), ArraySource(logs, np.array(["a"] * 7 + ["b"] * 7)))
    assert scorer.intervals()["accuracy"] == pytest.approx((0.7847, 1), abs=1e-3)
    assert scorer.intervals()["balanced_accuracy"][0] < 0.9


def test_info(ring_model: Path, capsys: Capture) -> None:
    out = run(capsys, "info", ring_model / "model").out
    for text in ("KernelClassifier", "solver exact", "PowerExponential(exponent=", "2: ['east', 'north']"):
        assert text in out
    for text in (" trials, loss ", "penalty ", "random_state=0"):
        assert text in out
    assert "device" not in out


@pytest.mark.parametrize(
    ("members", "text"), [(1, "penalty 0.1; 2 trials"), (3, "penalty 0.1, mean of 3 models; 2 tr")]
)
def test_choices_of_a_search(members: int, text: str) -> None:
    choices = {"transform": "standard", "rounds": 0, "penalty": 0.1, "members": members, "loss": 0.5}
    assert text in search_text(SimpleNamespace(choices_=choices, search_results_=[{}, {}]))


def test_the_interval_of_two_rows_is_that_of_a_t_distribution() -> None:
    """Without each of two errors, 1 and 3, the mean absolute error is the other: 2 +- t (1 / 2 (1 + 1))^(1/2)."""
    X, y = np.zeros((2, 1)), np.array([1.0, 3.0])
    low, high = score_rows(Oracle(), ArraySource(X, y)).intervals()["mae"]
    assert (low, high) == pytest.approx((0.0, 2 + t.ppf(0.975, 1)))
    assert np.isnan(score_rows(Oracle(), ArraySource(X[:1], y[:1])).intervals()["mae"]).all()


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
