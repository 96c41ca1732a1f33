"""Estimators with a search: fixed settings, weights, parts, unusual tables, several labels, ensembles."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel

from bochner.estimators import KernelClassifier, KernelRegressor
from bochner.kernels import Gaussian, PowerExponential
from bochner.models.heads import FeatureModel, LogitAverage
from bochner.models.inputs import TransformedModel
from bochner.models.landmarks import LandmarkModel
from bochner.models.partition import PartitionedModel
from bochner.search import KernelPlan, SolverParams, automatic, searched
from bochner.search.automatic import PRESETS
from bochner.storage import load, save

Array = np.ndarray[Any, Any]
CPU = torch.device("cpu")


def regression_rows(n: int = 150, d: int = 3, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)


def classification_rows(n: int = 150, d: int = 3, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0).astype(int)


def regressor(**settings: Any) -> KernelRegressor:
    return KernelRegressor(**{"preset": "fast", "random_state": 0, **settings})


def classifier(**settings: Any) -> KernelClassifier:
    return KernelClassifier(**{"preset": "fast", "random_state": 0, **settings})


def test_the_loss_of_classes_is_that_of_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    search = searched.search_model
    monkeypatch.setattr(searched, "search_model", lambda *a, **k: results.append(search(*a, **k)) or results[-1])
    model = classifier().fit(*classification_rows())
    (result,) = results
    best = result.chosen[0]
    Y, weight = result.rows.Y[best.validated], result.rows.weight[best.validated]
    assert best.loss == pytest.approx(float(automatic.brier_losses(best.predictions, Y, weight).mean()))
    assert f"{best.loss:.4g}" in model.summary()


# -- what is set is kept ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "pair"),
    [("gaussian", (2, 2)), ("rbf", (2, 2)), ("laplacian", (1, 1)), ("matern12", (1, 2)), ("power-exponential", (1, 2))],
)
def test_a_kernel_by_name_is_kept(kernel: str, pair: tuple[float, float]) -> None:
    model = regressor(kernel=kernel).fit(*regression_rows())
    assert {(record["exponent"], record["norm"]) for record in model.search_results_} == {pair}
    assert isinstance(model.kernel_, PowerExponential)
    assert (model.kernel_.exponent, model.kernel_.norm) == pair
    assert len({record["transform"] for record in model.search_results_}) > 1


@pytest.mark.parametrize(("kernel", "multiple"), [("gaussian", 2**0.5), ("laplacian", 1.0), ("auto", 1.0)])
def test_a_bandwidth_refers_to_the_inputs_as_they_are(kernel: str, multiple: float) -> None:
    X, y = regression_rows()
    model = regressor(kernel=kernel, bandwidth=1.7).fit(X * [1, 10, 100], y)
    assert model.kernel_.bandwidth == pytest.approx(1.7 * multiple)
    assert {(r["transform"], r["metric"], r["factor"]) for r in model.search_results_} == {("none", "none", 1.0)}
    assert isinstance(model.model_, LandmarkModel)
    standardised = regressor(kernel=kernel, bandwidth=1.7, standardize=True).fit(X * [1, 10, 100], y)
    assert {r["transform"] for r in standardised.search_results_} == {"standard"}
    assert standardised.kernel_.bandwidth == pytest.approx(1.7 * multiple)


@pytest.mark.parametrize("kernel", ["auto", "gaussian"])
def test_gamma_is_that_of_scikit_learn(kernel: str) -> None:
    X, y = regression_rows()
    model = regressor(kernel=kernel, gamma=0.3).fit(X, y)
    K = model.kernel_(torch.as_tensor(X[:20]), torch.as_tensor(X[20:40]))
    np.testing.assert_allclose(K.numpy(), rbf_kernel(X[:20], X[20:40], gamma=0.3), rtol=1e-6)


def test_gamma_of_the_laplacian_kernel_and_of_others() -> None:
    X, y = regression_rows()
    model = regressor(kernel="laplacian", gamma=0.3).fit(X, y)
    distances = np.abs(X[:9, None] - X[None, 9:20]).sum(axis=2)
    K = model.kernel_(torch.as_tensor(X[:9]), torch.as_tensor(X[9:20]))
    np.testing.assert_allclose(K.numpy(), np.exp(-0.3 * distances), rtol=1e-6)
    with pytest.raises(ValueError, match=r"gamma=0\.3.*'gaussian'.*'matern12'"):
        regressor(kernel="matern12", gamma=0.3).fit(X, y)


def test_the_median_rule_is_kept() -> None:
    model = regressor(bandwidth="median", adapt=None).fit(*regression_rows())
    assert {record["factor"] for record in model.search_results_} == {1.0}
    assert len({record["transform"] for record in model.search_results_}) > 1


def test_alpha_is_a_penalty_per_row() -> None:
    X, y = regression_rows()
    model = regressor(alpha=0.002).fit(X, y)
    assert {record["penalty"] for record in model.search_results_} == {0.002 * len(X)}
    assert isinstance(model.model_, TransformedModel)
    Z = model.model_.transform(torch.as_tensor(X, dtype=torch.float32)).double()
    K = model.kernel_(Z, Z).numpy() + 0.3 * np.eye(len(X))
    scaled = (y - y.mean()) / y.std()
    expected = y - y.std() * 0.3 * np.linalg.solve(K, scaled)  # f = y - alpha a
    np.testing.assert_allclose(model.predict(X), expected, atol=2e-3)
    assert regressor(alpha=0.0).fit(X, y).choices_["penalty"] == 1e-8


@pytest.mark.parametrize(("standardize", "transform"), [(True, "standard"), (False, "none")])
def test_standardize_is_kept(standardize: bool, transform: str) -> None:
    model = classifier(standardize=standardize).fit(*classification_rows())
    assert {record["transform"] for record in model.search_results_} == {transform}
    assert isinstance(model.model_, TransformedModel if standardize else LandmarkModel)


def test_no_metric_or_always_one() -> None:
    X, y = regression_rows()
    plain = regressor(adapt=None).fit(X, y)
    assert {record["metric"] for record in plain.search_results_} == {"none"}
    # hardly more than noise, and no input matters more than another: by itself the search learns no metric
    noisy = X.sum(axis=1) + 5 * np.random.default_rng(1).normal(size=len(X))
    learned = regressor(adapt="agop").fit(X, noisy)
    assert learned.choices_["rounds"] >= 1
    kernel = learned.kernel_
    assert kernel.metric is not None or kernel.scale is not None


@pytest.mark.parametrize("solver", ["ridge", "landmarks", "sgd"])
def test_another_solver_fits_the_kernel_that_was_searched(solver: str) -> None:
    X, y = regression_rows(200)
    params = {"max_epochs": 3} if solver == "sgd" else None
    model = regressor(solver=solver, n_components=128, solver_params=params).fit(X, y)
    assert model.solver_ == solver
    assert isinstance(model.kernel_, PowerExponential)
    assert model.search_results_
    part = model.model_.model if isinstance(model.model_, TransformedModel) else model.model_
    assert isinstance(part, LandmarkModel if solver == "landmarks" else FeatureModel)
    assert model.score(X, y) > 0.5


def test_features_of_a_searched_kernel_are_selected() -> None:
    X, y = classification_rows(200)
    params = {"max_epochs": 2}
    model = classifier(selection=2, n_components=64, solver_params=params).fit(X, y)
    assert model.solver_ == "sgd"
    assert "selection" in model.choices_
    assert isinstance(model.kernel_, PowerExponential)
    assert model.search_results_


@pytest.mark.parametrize("settings", [{"kernel": Gaussian(bandwidth=0.7)}, {"bandwidth": "mean"}, {"preset": None}])
def test_kernel_objects_and_fixed_rules_are_not_searched(settings: dict[str, Any]) -> None:
    model = regressor(**settings).fit(*regression_rows())
    assert model.search_results_ == []
    assert isinstance(model.kernel_, Gaussian)
    if isinstance(settings.get("kernel"), Gaussian):
        assert model.kernel_.bandwidth == 0.7


# -- scoring ---------------------------------------------------------------------------------------------------------


def test_a_scorer_is_what_is_optimised() -> None:
    X, y = classification_rows()
    scores: list[float] = []

    def scorer(estimator: Any, X: Any, y: Array) -> float:
        assert set(np.unique(y)) <= {0, 1}
        np.testing.assert_allclose(estimator.predict_proba(X).sum(axis=1), 1)
        scores.append(float((estimator.predict(X) == y).mean()))
        return scores[-1]

    model = classifier(scoring=scorer).fit(X, y)
    losses = [record["loss"] for record in model.search_results_]
    assert {-loss for loss in losses} <= set(scores)
    chosen = model.choices_
    assert chosen["loss"] == min(r["loss"] for r in model.search_results_ if r["validated"] == chosen["validated"])


@pytest.mark.parametrize(
    ("scoring", "low", "high"),
    [("roc_auc", -1, -0.7), ("accuracy", -1, -0.6), ("f1", -1, -0.6), ("neg_log_loss", 0, 0.7)],
)
def test_scores_of_classes_by_name(scoring: str, low: float, high: float) -> None:
    model = classifier(scoring=scoring).fit(*classification_rows(200))
    assert low <= model.choices_["loss"] <= high
    accuracy = np.array([-r["loss"] * r["validated"] for r in model.search_results_])
    if scoring == "accuracy":
        np.testing.assert_allclose(accuracy, accuracy.round(), atol=1e-6)  # counts of rows


def test_scores_of_numbers_and_of_three_classes_by_name() -> None:
    X, y = regression_rows()
    absolute = regressor(scoring="neg_mean_absolute_error").fit(X, y).choices_["loss"]
    squared = regressor().fit(X, y).choices_["loss"]
    assert absolute > 1.2 * squared > 0  # errors are below 1
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    assert -1 <= classifier(scoring="roc_auc_ovr").fit(X, labels).choices_["loss"] < -0.9


@pytest.mark.parametrize("num_labels", [2, 3])
@pytest.mark.parametrize("scoring", ["accuracy", "f1_macro", "roc_auc"])
def test_scores_of_several_labels_by_name(scoring: str, num_labels: int) -> None:
    X, _ = regression_rows()
    model = classifier(scoring=scoring).fit(X, (X[:, :num_labels] > 0).astype(int))
    assert -1 <= model.choices_["loss"] < -0.6


def test_an_unknown_score_is_named() -> None:
    with pytest.raises(ValueError, match=r"'scoring'.*'not_a_score'"):
        classifier(scoring="not_a_score").fit(*classification_rows())


# -- time and seeds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [60, 1200])
def test_a_tiny_time_limit_still_gives_a_model(n: int) -> None:
    X, y = regression_rows(n)
    model = KernelRegressor(time_limit=1e-3, random_state=0).fit(X, y)
    assert len(model.search_results_) == 1
    assert model.score(X, y) > 0.5


def test_the_same_seed_gives_the_same_model() -> None:
    X, y = classification_rows()
    first, again, other = (classifier(random_state=seed).fit(X, y) for seed in (3, 3, 4))
    assert first.search_results_ == again.search_results_
    np.testing.assert_array_equal(first.predict_proba(X), again.predict_proba(X))
    np.testing.assert_array_equal(first.feature_importances_, again.feature_importances_)
    assert first.search_results_ != other.search_results_


# -- weights and validation rows -------------------------------------------------------------------------------------

RECIPE: dict[str, Any] = {"kernel": "gaussian", "bandwidth": 1.0, "adapt": None, "preset": "fast"}


def test_a_row_of_weight_two_counts_as_two_rows() -> None:
    X, y = regression_rows(80)
    doubled = np.r_[np.arange(80), np.arange(20)]
    weight = np.where(np.arange(80) < 20, 2.0, 1.0)
    twice = regressor(**RECIPE, alpha=0.01).fit(X[doubled], y[doubled])
    weighted = regressor(**RECIPE, alpha=0.01).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(weighted.predict(X), twice.predict(X), atol=1e-4)
    assert np.abs(regressor(**RECIPE, alpha=0.01).fit(X, y).predict(X) - twice.predict(X)).max() > 0.05


def test_rows_of_weight_zero_are_ignored() -> None:
    X, y = regression_rows(120)
    wrong = np.where(np.arange(120) < 40, 100.0, y)
    weight = (np.arange(120) >= 40).astype(float)
    model = regressor().fit(X, wrong, sample_weight=weight)
    assert isinstance(model.model_, TransformedModel)
    assert len(model.model_.model.landmarks) == 80
    assert np.abs(model.predict(X)).max() < 3
    assert model.score(X[40:], y[40:]) > 0.8


def test_given_validation_rows_choose_but_are_not_fitted() -> None:
    X, y = regression_rows(150)
    far = X[100:] + 50.0
    model = regressor(standardize=False).fit(X[:100], y[:100], validation_data=(far, y[100:]))
    assert {record["validated"] for record in model.search_results_} == {50}
    assert {record["rows"] for record in model.search_results_} == {100}
    assert isinstance(model.model_, LandmarkModel)
    assert len(model.model_.landmarks) == 100
    assert float(model.model_.landmarks.max()) < 10


def test_weights_and_given_validation_rows() -> None:
    X, y = regression_rows(150)
    weight = np.random.default_rng(0).uniform(0.5, 2, size=100)
    model = regressor().fit(X[:100], y[:100], sample_weight=weight, validation_data=(X[100:], y[100:]))
    assert {record["validated"] for record in model.search_results_} == {50}
    assert model.score(X[100:], y[100:]) > 0.7


def test_fifteen_positives_among_many_rows_are_ranked() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    rare = np.arange(1200) < 15
    X[rare] += [4.0, 0, 0]
    model = classifier(standardize=True, kernel="gaussian").fit(X, rare.astype(int))
    fresh = rng.normal(size=(600, 3))
    fresh[:100] += [4.0, 0, 0]
    assert roc_auc_score(np.arange(600) < 100, model.predict_proba(fresh)[:, 1]) > 0.85  # 0.5: a constant


# -- parts -----------------------------------------------------------------------------------------------------------


def test_rows_of_a_part_by_operations_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = KernelPlan(preset="default")
    assert searched.part_rows(plan, 10_000, CPU, 1.0) >= 10_000
    large = searched.part_rows(plan, 10**6, CPU, 1.0)
    assert 2000 < large < 20_000
    assert 10**6 * large**2 / 3 <= searched.FINAL_OPERATIONS["cpu"]
    assert searched.part_rows(KernelPlan(preset="fast"), 10**6, CPU, 1.0) < large
    half = KernelPlan(preset="default", params=SolverParams(memory_budget="200MB"))
    in_float = searched.part_rows(half, 18_000, CPU, 1.0)
    assert in_float**2 * 4 <= 100 * 2**20 < (in_float + 1) ** 2 * 4
    in_double = searched.part_rows(half, 18_000, CPU, 1e-6)
    assert in_double**2 * 8 <= 100 * 2**20 < (in_double + 1) ** 2 * 8
    tiny = KernelPlan(preset="default", params=SolverParams(memory_budget="1MB"))
    assert searched.part_rows(tiny, 10**6, CPU, 1.0) == searched.MIN_PART_ROWS
    monkeypatch.setitem(searched.MAX_PART_BYTES, "cpu", 4 * 2500**2)
    assert searched.part_rows(plan, 10_000, CPU, 1.0) == 2500


def test_many_rows_are_fitted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = regression_rows(900)
    settings: dict[str, Any] = {"standardize": True, "kernel": "laplacian", "adapt": None}
    whole = regressor(**settings).fit(X, y)
    monkeypatch.setattr(searched, "MIN_PART_ROWS", 100)
    monkeypatch.setitem(searched.MAX_PART_BYTES, "cpu", 4 * 300**2)
    model = regressor(**settings).fit(X, y)
    assert isinstance(model.model_, TransformedModel)
    assert isinstance(model.model_.model, PartitionedModel)
    sizes = [len(part.landmarks) for part in model.model_.model.models]
    assert sum(sizes) == 900
    assert max(sizes) <= 300
    fresh, truth = regression_rows(300, seed=1)
    assert whole.score(fresh, truth) - 0.05 < model.score(fresh, truth) > 0.85
    monkeypatch.setitem(searched.MAX_PART_BYTES, "cpu", 2**30)
    monkeypatch.setitem(searched.FINAL_OPERATIONS, "cpu", 900 * 300**2 / 3 / searched.FAST_SHARE)
    by_time = regressor(**settings).fit(X, y)
    np.testing.assert_array_equal(by_time.predict(fresh), model.predict(fresh))


# -- unusual tables --------------------------------------------------------------------------------------------------


def test_the_unit_of_a_column_changes_nothing() -> None:
    X, y = regression_rows(150)
    fresh, _ = regression_rows(50, seed=1)
    model = regressor().fit(X, y)
    exact = regressor().fit(X * [1, 2.0**20, 1], y)
    assert [r["loss"] for r in exact.search_results_] == pytest.approx([r["loss"] for r in model.search_results_], 1e-4)
    np.testing.assert_allclose(exact.predict(fresh * [1, 2.0**20, 1]), model.predict(fresh), atol=1e-3)
    million = regressor().fit(X * [1e6, 1, 1], y)
    np.testing.assert_allclose(million.predict(fresh * [1e6, 1, 1]), model.predict(fresh), atol=0.05)


def test_a_constant_column_and_equal_rows() -> None:
    X, y = regression_rows(100)
    constant = np.c_[X, np.full(100, 7.0)]
    model = regressor().fit(constant, y)
    assert model.score(constant, y) > 0.8
    assert model.feature_importances_ is not None
    assert model.feature_importances_[3] == pytest.approx(0, abs=1e-6)
    copies = regressor().fit(np.repeat(X, 5, axis=0), np.repeat(y, 5))
    assert copies.score(X, y) > 0.9
    nothing = regressor().fit(np.ones((30, 2)), np.arange(30.0))
    np.testing.assert_allclose(nothing.predict(np.ones((2, 2))), 14.5, rtol=1e-4)


@pytest.mark.parametrize("preset", ["fast", "default", "best"])
@pytest.mark.parametrize("n", [2, 3, 5, 9])
def test_few_rows(n: int, preset: str) -> None:
    X = np.linspace(0, 1, n)[:, None]
    model = regressor(preset=preset).fit(X, X[:, 0])
    assert np.isfinite(model.predict(X)).all()
    labels = (np.arange(n) >= n / 2).astype(int)
    p = classifier(preset=preset).fit(X, labels).predict_proba(X)
    assert p.shape == (n, 2)
    assert np.isfinite(p).all()


def test_one_feature_and_only_two_valued_columns() -> None:
    X, y = regression_rows(120, d=1)
    assert regressor().fit(X, y).score(X, y) > 0.9
    bits = np.random.default_rng(0).integers(0, 2, size=(150, 6)).astype(float)
    parity = (bits[:, 0] != bits[:, 1]).astype(int)
    model = classifier().fit(bits, parity)
    assert {record["transform"] for record in model.search_results_} == {"standard"}
    assert model.score(bits, parity) > 0.95


def test_constant_targets() -> None:
    X, _ = regression_rows(60)
    model = regressor().fit(X, np.full(60, 3.0))
    np.testing.assert_allclose(model.predict(X), 3.0, rtol=1e-5)


# -- records and importances -----------------------------------------------------------------------------------------


def test_records_of_the_search() -> None:
    model = classifier().fit(*classification_rows())
    assert json.loads(json.dumps(model.search_results_)) == model.search_results_
    assert json.loads(json.dumps(model.choices_)) == model.choices_
    chosen = {name: value for name, value in model.choices_.items() if name != "members"}
    assert chosen in model.search_results_
    assert model.search_results_[0]["rounds"] == 0
    rows = [record["rows"] for record in model.search_results_]
    assert rows == sorted(rows)


@pytest.mark.parametrize("kernel", ["laplacian", "gaussian", "auto"])
def test_the_columns_that_matter_are_the_most_important(kernel: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6)) * [1, 100, 1, 1, 0.01, 1]
    y = np.sin(2 * X[:, 3]) + X[:, 1] / 100 + 0.05 * rng.normal(size=200)
    shares = regressor(kernel=kernel).fit(X, y).feature_importances_
    assert shares is not None
    assert shares.shape == (6,)
    assert shares.sum() == pytest.approx(1)
    assert set(np.argsort(-shares)[:2].tolist()) == {1, 3}
    assert shares[[1, 3]].min() > 2 * np.delete(shares, [1, 3]).max()


def test_importances_do_not_depend_on_the_units_of_inputs_as_they_are() -> None:
    X = np.random.default_rng(0).normal(size=(200, 2)) * [1, 0.2]
    shares = regressor(standardize=False, kernel="gaussian").fit(X, X[:, 0] + 2 * X[:, 1]).feature_importances_
    assert shares is not None
    assert shares[0] == pytest.approx(1 / 1.4, abs=0.12)  # effects 1 and 0.4, though the slopes are 1 and 2


def test_importances_are_those_of_the_columns_of_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    colours = rng.choice(["red", "green", "blue"], size=200)
    frame = pandas.DataFrame({"noise": rng.normal(size=200), "colour": colours, "other": rng.normal(size=200)})
    y = np.where(colours == "red", 2.0, 0.0) + 0.1 * rng.normal(size=200)
    model = regressor().fit(frame, y)
    shares = model.feature_importances_
    assert shares is not None
    assert shares.shape == (3,)
    assert shares.sum() == pytest.approx(1)
    assert int(shares.argmax()) == 1
    assert model.score(frame, y) > 0.9


# -- several labels --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_tensors", [False, True])
def test_several_labels(as_tensors: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    Y = np.c_[X[:, 0] > 0, X[:, 1] * X[:, 0] > 0, X[:, 2] > 0.5].astype(int)
    rows, targets = (torch.as_tensor(X[:300]), torch.as_tensor(Y[:300])) if as_tensors else (X[:300], Y[:300])
    fresh: Any = torch.as_tensor(X[300:]) if as_tensors else X[300:]
    model = classifier().fit(rows, targets)
    labels, p = model.predict(fresh), model.predict_proba(fresh)
    assert isinstance(labels, torch.Tensor if as_tensors else np.ndarray)
    assert tuple(labels.shape) == tuple(p.shape) == (100, 3)
    labels, p = np.asarray(labels), np.asarray(p)
    assert labels.dtype.kind == "i"
    np.testing.assert_array_equal(labels, p > 0.5)
    constant = np.maximum(Y[:300].mean(axis=0), 1 - Y[:300].mean(axis=0))
    assert ((labels == Y[300:]).mean(axis=0) > constant + 0.1).all()
    assert ((p - Y[300:]) ** 2).mean() < 0.5 * ((Y[:300].mean(axis=0) - Y[300:]) ** 2).mean()
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(np.asarray(again.predict(fresh)), labels)
    np.testing.assert_allclose(np.asarray(again.predict_proba(fresh)), p, rtol=1e-6)


def test_several_labels_as_lists() -> None:
    X = np.random.default_rng(0).normal(size=(80, 2))
    labels = (X > 0).astype(int)
    predicted = classifier().fit(X.tolist(), labels.tolist()).predict(X.tolist())
    assert (predicted == labels).mean() > 0.9


# -- ensembles and export --------------------------------------------------------------------------------------------


def test_the_default_is_the_mean_of_two_models_where_both_are_solved_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the rows whose two solves take the operations of a final fit there is one model."""
    monkeypatch.setitem(PRESETS, "default", replace(PRESETS["fast"], members=2, max_folds=10))
    X, y = classification_rows()
    asked: list[int] = []
    ensemble = automatic._ensemble
    monkeypatch.setattr(automatic, "_ensemble", lambda *a: asked.append(a[3]) or ensemble(*a))
    for operations, members in ((2 * len(X) ** 3 / 3, 2), (1.9 * len(X) ** 3 / 3, 1)):
        monkeypatch.setitem(searched.FINAL_OPERATIONS, "cpu", operations)
        KernelClassifier(random_state=0, solver_params={"device": "cpu"}).fit(X, y)
        assert asked.pop() == members


def test_an_ensemble_averages_its_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # whether an ensemble gains depends on rounding; here the two best trials always make one
    monkeypatch.setattr(
        automatic, "_ensemble", lambda best, trials, *_: [best, *(t for t in trials if t is not best)][:2]
    )
    monkeypatch.setitem(PRESETS, "best", replace(PRESETS["fast"], max_folds=10))
    X, y = make_classification(300, 8, n_informative=6, n_redundant=0, n_classes=3, random_state=0)
    model = classifier(preset="best").fit(X[:250], y[:250])
    assert model.choices_["members"] == 2
    assert isinstance(model.model_, LogitAverage)
    assert len(model.model_.models) == 2
    assert all(isinstance(part, TransformedModel) for part in model.model_.models)
    p = model.predict_proba(X[250:])
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    assert model.score(X[250:], y[250:]) > 0.5
    rows = torch.as_tensor(X[250:], dtype=torch.float32)
    scores = [part(rows).detach().numpy() for part in model.model_.models]
    np.testing.assert_allclose(model.decision_function(X[250:]), np.mean(scores, axis=0), rtol=1e-3, atol=1e-4)
    held_out = model.validation_["predictions"]
    assert held_out is not None
    assert held_out.shape == (250, 3)  # each row once, though cross-validation is repeated
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict_proba(X[250:]), p)


def test_the_onnx_graph_of_a_searched_frame(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {"a": rng.normal(size=120), "b": rng.choice(["x", "y", "z"], size=120), "c": rng.exponential(size=120)}
    )
    frame.loc[5, "c"] = np.nan
    y = np.where((frame["b"] == "x") | (frame["a"] > 1), "yes", "no")
    model = classifier().fit(frame, y)
    model.export_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    feeds = {}
    for entry in session.get_inputs():
        column = frame[entry.name].to_numpy()
        kind = object if entry.type == "tensor(string)" else np.float64 if "double" in entry.type else np.float32
        feeds[entry.name] = column.astype(kind)[:, None] if len(entry.shape) == 2 else column.astype(kind)
    outputs = dict(zip([entry.name for entry in session.get_outputs()], session.run(None, feeds), strict=True))
    np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(frame), atol=1e-4)
    assert outputs["label"].tolist() == model.predict(frame).tolist()


@pytest.mark.parametrize(("budget", "limit"), [(None, 2**31), ("64MB", 2**24)])
def test_rows_that_do_not_fit_into_memory_are_not_solved_exactly(budget: str | None, limit: int) -> None:
    plan = KernelPlan(params=SolverParams(memory_budget=budget))
    count = limit // (1024 * 4)
    for rows, exact in ((count, True), (count + 1, False)):
        source: Any = SimpleNamespace(shard_sizes=[rows // 2, rows - rows // 2], num_inputs=1024)
        assert searched.is_exact(plan, source, None) == exact
        assert searched.is_exact(replace(plan, solver="exact"), source, None)
