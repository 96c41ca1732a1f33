"""Reports: what the page shows, that it escapes every name, and the scores behind it."""

from __future__ import annotations

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics
from sklearn.base import BaseEstimator

from bochner.estimators import evaluation
from bochner.estimators.evaluation import Evaluation, calibration_bins, calibration_error, confusion
from bochner.estimators.report import MAX_COLUMNS, MAX_PARTS, best_by_kind, write_report
from bochner.kernels import Gaussian
from bochner.models import LandmarkModel

NASTY = "<script>alert(1)</script> $x^"  # HTML, and mathematics to matplotlib
TRIALS = [
    {
        "transform": transform,
        "exponent": exponent,
        "norm": 2.0,
        "metric": metric,
        "power": 0.5,
        "rounds": int(metric != "none"),
        "factor": 2.0,
        "penalty": 0.1,
        "rows": rows,
        "validated": validated,
        "loss": loss,
        "error": 0.01,
    }
    for transform, exponent, metric, rows, validated, loss in [
        ("standard", 1.0, "none", 500, 100, 0.4),
        ("normal", 1.0, "none", 500, 100, 0.3),
        ("standard", 2.0, "none", 500, 100, float("inf")),
        ("normal", 1.0, "none", 1000, 100, 0.2),
        ("normal", 1.0, "none", 1000, 400, 0.32),
        ("normal", 1.0, "full", 1000, 400, 0.28),
    ]
]


class FakeModel(BaseEstimator):
    """The attributes of an estimator that the report reads."""

    n_features_in_ = 3
    solver_ = "exact"
    kernel_ = "a kernel"
    model_ = LandmarkModel(Gaussian(), torch.zeros(1234, 3), torch.zeros(1234, 1), torch.zeros(1))
    choices_ = TRIALS[-1]
    search_results_ = TRIALS
    feature_importances_ = np.array([0.1, 0.7, 0.2])
    feature_names_in_ = np.array(["first", NASTY, "a name that is too long for the axis of a figure"], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any) -> FakeModel:
        return self

    def summary(self) -> str:
        return f"A model of {NASTY}."


class FakeClassifier(FakeModel):
    def __init__(self, num_classes: int = 2) -> None:
        self.num_classes = num_classes
        self.classes_ = np.array([NASTY, *(f"class {c}" for c in range(1, num_classes))], dtype=object)
        p = self.predict_proba(np.zeros(200))
        y = torch.multinomial(torch.as_tensor(p), 1, generator=torch.Generator().manual_seed(0))[:, 0]
        self.validation_ = {"targets": y, "predictions": torch.as_tensor(p), "weight": None}

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.random.default_rng(0).dirichlet(np.ones(self.num_classes), len(X))


class FakeRegressor(FakeModel):
    def __init__(self, outputs: int = 1) -> None:
        self.outputs = outputs
        y = torch.randn(200, outputs, generator=torch.Generator().manual_seed(0))
        self.validation_ = {"targets": y, "predictions": 0.5 * y, "weight": None}

    def predict(self, X: Any) -> np.ndarray:
        return np.zeros(len(X))

    def predict_interval(self, X: Any, *, coverage: float) -> tuple[np.ndarray, np.ndarray]:
        if coverage > 0.9:
            raise ValueError("too few rows")  # as a model with few residuals does
        half = np.full(len(X), coverage + 1e-6)
        return -half, half


class Contents(HTMLParser):
    """Tags, text, and addresses that a page would load."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.labels: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "xlink:href") and value]
        if tag == "svg":
            self.labels.append(values.get("aria-label") or "")

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def page(tmp_path: Path, estimator: Any, *test: Any) -> Contents:
    write_report(estimator, tmp_path / "page.html", *test)
    return Contents((tmp_path / "page.html").read_text(encoding="utf-8"))


@cache
def page_of(cls: type[FakeModel], *arguments: int) -> Contents:
    with TemporaryDirectory() as directory:
        return page(Path(directory), cls(*arguments))


@pytest.mark.parametrize("kind", [(FakeClassifier,), (FakeClassifier, 25), (FakeRegressor,)])
def test_names_are_text_and_nothing_is_loaded(kind: Any) -> None:
    shown = page_of(*kind)
    assert "script" not in shown.tags
    assert "iframe" not in shown.tags
    assert f"A model of {NASTY}." in shown.text
    assert "1,234" in shown.text  # training rows
    assert all(address.startswith(("#", "data:")) for address in shown.addresses)
    assert "<script>alert(1)</scri" in shown.text  # at the axis of the importances, cut
    assert len(shown.labels) >= 3
    assert all(shown.labels)


def shows(text: str, expected: float) -> bool:
    """Whether the text has the score, ± something, to the digits that are shown."""
    values = re.findall(r"(-?\d+\.\d+) ± \d", text)
    return any(value == f"{expected:.{len(value.partition('.')[2])}f}" for value in values)


def test_two_classes() -> None:
    shown = page_of(FakeClassifier)
    for word in ("accuracy", "balanced accuracy", "log loss", "ROC AUC", "average precision", "classification, 2"):
        assert word in shown.text
    assert [label.split()[0] for label in shown.labels] == ["Calibration", "Confusion", "How", "Validation"]
    model = FakeClassifier()
    expected = metrics.roc_auc_score(model.validation_["targets"], model.validation_["predictions"][:, 1])
    assert shows(shown.text, expected)


def test_many_classes_have_a_table_of_errors_instead_of_a_matrix() -> None:
    shown = page_of(FakeClassifier, 25)
    assert not any(label.startswith("Confusion") for label in shown.labels)
    assert "The most frequent errors on held-out rows" in shown.text
    assert "ROC AUC" not in shown.text


def test_numbers() -> None:
    shown = page_of(FakeRegressor)
    y = FakeRegressor().validation_["targets"].double().numpy()
    for value in (metrics.r2_score(y, y / 2), metrics.root_mean_squared_error(y, y / 2)):
        assert shows(shown.text, value)
    assert [label.split()[0] for label in shown.labels] == ["True", "Errors", "How", "Validation"]


def test_several_targets_have_their_own_scores(tmp_path: Path) -> None:
    shown = page(tmp_path, FakeRegressor(3))
    assert "regression, 3 targets" in shown.text
    assert shown.text.partition("\nTerms\n")[0].count("RMSE") == 3
    assert "Target 2" in shown.text


def test_only_the_first_of_many_targets_are_shown(tmp_path: Path) -> None:
    shown = page(tmp_path, FakeRegressor(MAX_PARTS + 2))
    assert f"The first {MAX_PARTS} of {MAX_PARTS + 2} targets or labels." in shown.text
    assert f"Target {MAX_PARTS - 1}" in shown.text  # counted from 0
    assert f"Target {MAX_PARTS}" not in shown.text


def test_a_model_of_another_solver_without_a_summary(tmp_path: Path) -> None:
    """Networks have neither a summary nor a kernel, and their number of training rows is unknown."""

    class Network(FakeRegressor):
        solver_, kernel_ = "sgd", "no kernel"
        summary = property()  # hasattr is False

    shown = page(tmp_path, Network())
    assert "'no kernel'" in shown.text
    assert "sgd" in shown.text
    assert "1,234" not in shown.text  # training rows
    assert "1,234" in page_of(FakeRegressor).text


def test_no_table_of_errors_where_there_are_none(tmp_path: Path) -> None:
    model = FakeClassifier()
    p = torch.eye(2).repeat(20, 1) * 0.8 + 0.1
    model.validation_ = {"targets": p.argmax(dim=1), "predictions": p, "weight": None}
    assert "The most frequent errors" not in page(tmp_path, model).text


def test_no_table_of_intervals_for_a_model_without_them(tmp_path: Path) -> None:
    class WithoutIntervals(FakeRegressor):
        def predict_interval(self, X: Any, *, coverage: float) -> Any:
            raise ValueError("no held-out residuals")

    shown = page(tmp_path, WithoutIntervals(), np.zeros((30, 3)), np.zeros(30))
    assert "Test data" in shown.text
    assert "Prediction intervals on test rows" not in shown.text


def test_the_first_columns_of_a_wide_table(tmp_path: Path) -> None:
    model = FakeRegressor()
    columns = [SimpleNamespace(name=f"column {i}", kind="number", outputs=["x"]) for i in range(MAX_COLUMNS + 1)]
    model.encoder_ = SimpleNamespace(columns=columns)
    shown = page(tmp_path, model)
    assert f"The first {MAX_COLUMNS} of {MAX_COLUMNS + 1} columns." in shown.text
    assert f"column {MAX_COLUMNS - 1}" in shown.text
    assert f"column {MAX_COLUMNS}" not in shown.text


def test_labels_have_their_own_scores(tmp_path: Path) -> None:
    model = FakeClassifier(3)
    model.multilabel_ = True
    y = (model.validation_["predictions"] > 0.4).double()
    model.validation_ = {**model.validation_, "targets": y}
    shown = page(tmp_path, model, np.zeros((200, 3)), y.numpy())
    assert "multi-label classification, 3 labels" in shown.text
    assert shown.text.partition("\nTerms\n")[0].count("ROC AUC") == 6
    assert "Label 2" in shown.text


def test_test_data_are_scored_too(tmp_path: Path) -> None:
    y = np.linspace(-1, 1, 101)
    shown = page(tmp_path, FakeRegressor(), np.zeros((101, 3)), y)
    assert "Test data" in shown.text
    assert shows(shown.text, np.sqrt((y**2).mean()))
    table = re.sub(r"\s+", " ", shown.text)
    assert "50 % 50.5 %" in table  # targets within -0.5 and 0.5
    assert "90 % 90.1 %" in table
    assert "95 % 9" not in table  # the model has too few rows for that coverage

    labels = np.array([NASTY, "class 1"] * 20, dtype=object)
    assert "Test data" in page(tmp_path, FakeClassifier(), np.zeros((40, 3)), labels).text


def test_a_model_without_held_out_predictions_says_so(tmp_path: Path) -> None:
    model = FakeRegressor()
    model.validation_, model.search_results_, model.feature_importances_ = {}, [], None
    shown = page(tmp_path, model)
    assert "no held-out predictions" in shown.text
    assert shown.labels == []


def test_search_lists_the_best_trial_of_each_kind_and_marks_the_chosen(tmp_path: Path) -> None:
    assert [(t["transform"], t["rows"], t["metric"]) for t in best_by_kind(TRIALS)] == [
        ("normal", 1000, "full"),
        ("normal", 1000, "none"),
        ("standard", 500, "none"),
        ("standard", 500, "none"),
    ]
    shown = page(tmp_path, FakeClassifier())
    assert shown.text.count("(chosen)") == 1
    assert "0.28 ± 0.01 (chosen)" in shown.text
    assert "0.32 ±" in shown.text  # not 0.2 on fewer validation rows
    assert "1,000 + 400" in shown.text
    assert "full, power 0.5, 1 round" in shown.text


def test_the_answer_comes_first_then_figures_then_tables() -> None:
    text = page_of(FakeClassifier).text
    parts = ["predictions are right", "Contents", "Calibration on held-out rows", "best constant", "Importances show"]
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)


def test_of_many_trials_the_best_and_the_chosen_are_listed(tmp_path: Path) -> None:
    model = FakeClassifier()
    others = [{**TRIALS[0], "rows": 2000, "power": power, "loss": power} for power in np.linspace(0.1, 1, 30)]
    model.search_results_ = [*TRIALS, *others]
    shown = page(tmp_path, model)
    assert shown.text.partition("The best trial of each")[2].count("2,000 +") == 12
    assert "0.28 ± 0.01 (chosen)" in shown.text
    assert "13 of 34 kinds of trials" in shown.text


def test_trials_that_failed_are_listed(tmp_path: Path) -> None:
    model = FakeClassifier()
    model.search_results_ = [*TRIALS, {**TRIALS[-1], "rows": 2000, "loss": float("inf")}]
    assert "inf ±" in page(tmp_path, model).text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((3, 3)),), "X and y must be given together, got only X"),
        ((None, np.zeros(3)), "X and y must be given together, got only y"),
        ((np.zeros((2, 3)), ["class 1", "class 9"]), "y must hold the classes .* got 'class 9'"),
    ],
)
def test_bad_test_data(tmp_path: Path, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        write_report(FakeClassifier(), tmp_path / "page.html", *arguments)
    assert not (tmp_path / "page.html").exists()


def test_without_matplotlib_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"matplotlib is missing: pip install 'bochner\[plot\]'"):
        write_report(FakeClassifier(), tmp_path / "page.html")


# -- scores ------------------------------------------------------------------------------------------------------------


def weighted(num_classes: int) -> Evaluation:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(num_classes), 300).round(2)  # with ties
    return Evaluation.of(rng.integers(0, num_classes, 300), p, rng.random(300))


def test_scores_of_classes_are_those_of_scikit_learn() -> None:
    two = weighted(2)
    y, p, w = two.targets, two.predictions, two.weight
    expected = {
        "accuracy": metrics.accuracy_score(y, p.argmax(axis=1), sample_weight=w),
        "balanced accuracy": metrics.balanced_accuracy_score(y, p.argmax(axis=1), sample_weight=w),
        "ROC AUC": metrics.roc_auc_score(y, p[:, 1], sample_weight=w),
        "average precision": metrics.average_precision_score(y, p[:, 1], sample_weight=w),
    }
    scores = two.scores()
    assert {name: scores[name].value for name in expected} == pytest.approx(expected)
    p = np.clip(p, 0.01, 0.99) / np.clip(p, 0.01, 0.99).sum(axis=1, keepdims=True)
    assert evaluation.log_loss(y, p, w) == pytest.approx(metrics.log_loss(y, p, sample_weight=w))


def test_scores_of_numbers_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    y = rng.normal(size=(100, 2))
    f, w = y + rng.normal(size=(100, 2)), rng.random(100)
    scores = Evaluation.of(y, f, w).scores()
    assert [score.value for score in scores.values()] == pytest.approx(
        [
            metrics.r2_score(y, f, sample_weight=w),
            metrics.root_mean_squared_error(y, f, sample_weight=w),
            metrics.mean_absolute_error(y, f, sample_weight=w),
        ]
    )


def test_intervals_cover_the_true_score() -> None:
    inside = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        right = rng.random(200) < 0.8
        y = rng.integers(0, 2, 200)
        p = np.eye(2)[np.where(right, y, 1 - y)]
        score = Evaluation.of(y, p).scores(seed=seed)["accuracy"]
        inside += score.low <= 0.8 <= score.high
    assert inside >= 33  # 38 of 40 on average


def test_intervals_count_by_weight() -> None:
    """A tenth of the rows, which carries nearly all of the weight, is predicted correctly."""
    y = np.tile([0, 1], 100)
    right = np.arange(200) < 20
    score = Evaluation.of(y, np.eye(2)[np.where(right, y, 1 - y)], np.where(right, 100.0, 0.01)).scores()["accuracy"]
    assert 0.99 < score.low <= score.value <= score.high <= 1


def test_scores_that_are_not_defined_are_nan() -> None:
    assert np.isnan(Evaluation.of([0, 0], [[0.5, 0.5], [0.4, 0.6]]).scores()["ROC AUC"].value)
    assert np.isnan(Evaluation.of([1.0, 1.0], [0.0, 1.0]).scores()["R2"].value)


def test_as_many_targets_as_predictions() -> None:
    with pytest.raises(ValueError, match="equally many rows, got 3, 2 and 3"):
        Evaluation.of(np.arange(3), np.ones((2, 2)))
    with pytest.raises(ValueError, match="equally many rows, got 0, 0 and 0"):
        Evaluation.of(np.arange(0), np.ones((0, 2)))


def test_rows_of_weight_zero_are_absent() -> None:
    assert len(Evaluation.of([0, 1, 0], np.full((3, 2), 0.5), [1, 0, 2]).targets) == 2


def test_calibration_of_true_probabilities_and_of_wrong_ones() -> None:
    rng = np.random.default_rng(0)
    q = rng.random(20000)
    y = (rng.random(20000) < q).astype(int)
    bins = calibration_bins(Evaluation.of(y, np.stack([1 - q, q], axis=1)))
    assert calibration_error(bins) < 0.015
    assert sum(abs(b.predicted - b.observed) <= 1.3 * b.error for b in bins) >= 9
    sharp = q**2 / (q**2 + (1 - q) ** 2)
    assert calibration_error(calibration_bins(Evaluation.of(y, np.stack([1 - sharp, sharp], axis=1)))) > 0.05


def test_confusion_counts_by_weight() -> None:
    counts = confusion(Evaluation.of([0, 0, 1], np.eye(2)[[0, 1, 1]], [1.0, 2.0, 3.0]))
    assert counts.tolist() == [[1, 2], [0, 3]]
