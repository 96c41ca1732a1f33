"""Numeric targets: far from zero, constant, several at once."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.base import clone

import bochner
from bochner import KernelClassifier, KernelRegressor
from bochner.data import ArraySource
from bochner.estimators.regressor import TargetScale
from tests.estimators.cases import REGRESSORS, least_r2, waves

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
every_regressor = pytest.mark.parametrize("estimator", REGRESSORS.values(), ids=REGRESSORS)


@cache
def plain_r2(estimator: Any) -> float:
    """R^2 of 400 waves as they are."""
    return clone(estimator).fit(*waves(400)).score(*waves(400))


@every_regressor
@pytest.mark.parametrize(("mean", "std"), [(1e6, 1e-3), (-1e9, 1.0), (0.0, 1e-12), (0.0, 1e12)])
def test_units_and_origin_do_not_matter(estimator, mean: float, std: float) -> None:
    X, y = waves(400)
    moved = clone(estimator).fit(X, mean + std * y)
    assert moved.score(X, mean + std * y) == pytest.approx(plain_r2(estimator), abs=0.02)
    assert plain_r2(estimator) > least_r2(estimator, 0.85)


def test_far_targets_survive_a_file(tmp_path) -> None:
    X, y = waves()
    fitted = clone(REGRESSORS["ridge"]).fit(X, 1e6 + 1e-3 * y)
    bochner.save(fitted, tmp_path / "model")
    np.testing.assert_array_equal(bochner.load(tmp_path / "model").predict(X), fitted.predict(X))


def test_far_targets_a_few_at_a_time() -> None:
    X, y = waves(400)
    estimator = clone(REGRESSORS["sgd"]).set_params(n_components=256)
    far = 1e6 + 1e-3 * y
    for _ in range(5):
        estimator.partial_fit(X, far)
    assert estimator.score(X, far) > 0.8
    fitted = clone(REGRESSORS["sgd"]).fit(X, far)
    before = fitted.score(X, far)
    assert fitted.partial_fit(X, far).score(X, far) > before - 0.1


@every_regressor
def test_a_constant_is_learned(estimator) -> None:
    X, _ = waves(60)
    for value in (0.0, 7.0, 1e6 + 1e-3):
        predicted = clone(estimator).fit(X, np.full(60, value)).predict(X)
        np.testing.assert_allclose(predicted, value, rtol=1e-7, atol=1e-6)


@every_regressor
def test_several_numbers_at_once(estimator) -> None:
    X, y = waves(300)
    Y = np.stack([y, 100 - y, np.full(300, 3.0)], axis=1)
    fitted = clone(estimator).fit(X, Y)
    predicted = fitted.predict(X)
    assert predicted.shape == (300, 3)
    np.testing.assert_allclose(predicted[:, 2], 3.0, atol=1e-4)
    assert 1 - np.mean((predicted[:, 1] - Y[:, 1]) ** 2) / y.var() > least_r2(estimator, 0.85)
    assert fitted.predict(torch.as_tensor(X)).shape == (300, 3)
    X, y = X[:50], y[:50]
    assert clone(estimator).fit(X, y[:, None]).predict(X).shape == (50, 1)
    assert clone(estimator).fit(X, y).predict(X).shape == (50,)


def test_labels_of_tensors_are_tensors() -> None:
    X, y = waves(80)
    Y = np.stack([y > 0, y > 1], axis=1).astype(int)
    fitted = KernelClassifier(preset="fast", random_state=0).fit(X, Y)
    labels = fitted.predict(torch.as_tensor(X))
    assert isinstance(labels, torch.Tensor)
    np.testing.assert_array_equal(labels.numpy(), fitted.predict(X))


@pytest.mark.parametrize("y", [["a", "b"] * 20, pd.Series(["a", "b"] * 20), np.array(["a", 1.0] * 20, dtype=object)])
def test_a_regressor_refuses_text(y: Any) -> None:
    for X in (np.zeros((40, 1)), pd.DataFrame({"c": ["u", "v"] * 20})):
        with pytest.raises(ValueError, match=r"y must hold numbers, got 'a'"):
            KernelRegressor(preset="fast").fit(X, y)


@pytest.mark.parametrize("y", [pd.Series(pd.date_range("2020-01-01", periods=40)), np.full(40, b"a")])
def test_a_regressor_refuses_dates_and_bytes(y: Any) -> None:
    with pytest.raises(ValueError, match=r"y must hold numbers, got "):
        KernelRegressor(preset="fast").fit(np.arange(40.0)[:, None], y)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_labels_that_are_missing_name_their_row(missing: Any) -> None:
    y = pd.Series(["a", "b", "a", missing] * 10, dtype=object)
    for X in (np.zeros((40, 1)), pd.DataFrame({"c": ["u", "v"] * 20})):
        with pytest.raises(ValueError, match="row 3"):
            KernelClassifier(preset="fast").fit(X, y)


def test_labels_of_several_types() -> None:
    with pytest.raises(ValueError, match="got 'a' and 1"):
        KernelClassifier(preset="fast").fit(pd.DataFrame({"c": ["u", "v"] * 20}), np.array([1, "a"] * 20, dtype=object))


@pytest.mark.parametrize("container", [pa.array, pl.Series, pd.Series, lambda y: pa.array(y).dictionary_encode()])
def test_labels_in_columns_of_other_libraries(container: Any) -> None:
    labels = ["no", "yes"] * 30
    X = pa.table({"c": ["u", "v"] * 30})
    assert KernelClassifier(preset="fast", random_state=0).fit(X, container(labels)).predict(X).tolist() == labels


def test_a_score_refers_to_the_targets_as_given() -> None:
    X, y = waves(200)
    seen = []

    def scoring(estimator: Any, X: Any, y: Any) -> float:
        seen.append((y, estimator.predict(X)))
        return -float(np.abs(y - estimator.predict(X)).mean())

    KernelRegressor(preset="fast", scoring=scoring, random_state=0).fit(X, 1000 + 5 * y)
    targets, predictions = (np.concatenate(part) for part in zip(*seen, strict=True))
    assert targets.mean() == pytest.approx(1000 + 5 * y.mean(), abs=1)
    assert predictions.mean() == pytest.approx(1000 + 5 * y.mean(), abs=1)


def test_a_score_that_is_not_defined_for_the_targets_is_named() -> None:
    X, y = waves(100)
    with pytest.raises(ValueError, match="neg_mean_poisson_deviance"):
        KernelRegressor(preset="fast", scoring="neg_mean_poisson_deviance").fit(X, y - 100)


@pytest.mark.parametrize(
    ("options", "fitted", "message"),
    [
        ({"preset": None}, {}, "needs a preset and neither class_weight nor validation_data; got 2 columns"),
        ({"class_weight": "balanced"}, {}, "neither class_weight nor validation_data; got 2 columns"),
        ({}, {"validation_data": (np.eye(4), np.eye(4)[:, :2])}, "nor validation_data; got 2 columns"),
    ],
)
def test_several_labels_that_cannot_be_learned(options: Any, fitted: Any, message: str) -> None:
    X = np.random.default_rng(0).normal(size=(40, 4))
    with pytest.raises(ValueError, match=message):
        KernelClassifier(**options).fit(X, (X[:, :2] > 0).astype(int), **fitted)


def test_the_scale_of_targets_in_shards() -> None:
    """Empty shards are skipped; a source without rows is refused."""
    y = torch.tensor([1.0, 2.0, 6.0, 7.0])
    source = ArraySource(torch.zeros(4, 1), y, shard_rows=2)
    scale = TargetScale.of(WithEmptyShards(source))
    assert float(scale.mean) == float(y.mean())
    assert float(scale.std) == pytest.approx(float(y.std(correction=0)))
    assert scale.is_single
    with pytest.raises(ValueError, match="source must hold at least one row, got none"):
        TargetScale.of(SimpleNamespace(shard_sizes=(0,), num_inputs=1))


class WithEmptyShards:
    def __init__(self, source: ArraySource) -> None:
        self.source, self.num_inputs = source, source.num_inputs
        self.shard_sizes = (0, *source.shard_sizes, 0)

    def read(self, shard: int) -> Any:
        return self.source.read(shard - 1)
