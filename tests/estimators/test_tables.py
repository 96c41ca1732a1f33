"""Frames with text, dates and missing values in fit and predict, and errors for bad frames."""

from __future__ import annotations

import datetime
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bochner
from bochner import KernelClassifier, KernelRegressor
from tests.estimators.cases import rings, waves

CLASSIFIER = KernelClassifier(preset="fast", random_state=0)
REGRESSOR = KernelRegressor(preset="fast", random_state=0)
both = pytest.mark.parametrize("estimator", [CLASSIFIER, REGRESSOR], ids=["classifier", "regressor"])


def people(num_rows: int = 160, *, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A table of all types with missing values, and how much each row spends."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, num_rows).astype(float)
    job = rng.choice(["clerk", "nurse", "pilot"], num_rows)
    member = rng.random(num_rows) < 0.5
    joined = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, num_rows), unit="D")
    y = age / 40 + 2.0 * (job == "pilot") - member + 0.1 * rng.normal(size=num_rows)
    age[rng.random(num_rows) < 0.1] = np.nan
    job = np.where(rng.random(num_rows) < 0.05, None, job)
    return pd.DataFrame({"age": age, "job": job, "member": member, "joined": joined}), y


def targets(estimator: Any, y: np.ndarray) -> np.ndarray:
    return np.where(y > 2, "much", "little") if isinstance(estimator, KernelClassifier) else y


def values(fitted: Any, X: Any) -> np.ndarray:
    return fitted.decision_function(X) if isinstance(fitted, KernelClassifier) else fitted.predict(X)


@pytest.fixture(scope="module", params=[CLASSIFIER, REGRESSOR], ids=["classifier", "regressor"])
def fitted(request: pytest.FixtureRequest) -> Any:
    frame, y = people()
    return clone(request.param).fit(frame, targets(request.param, y))


def test_a_table_of_all_types_is_learned(fitted: Any) -> None:
    test, truth = people(400, seed=1)
    assert fitted.score(test, targets(fitted, truth)) > 0.8
    assert fitted.feature_names_in_.tolist() == ["age", "job", "member", "joined"]
    assert fitted.n_features_in_ == 4


def test_pandas_polars_and_arrow_give_the_same_predictions(fitted: Any) -> None:
    frame, y = people()
    expected = values(fitted, frame)
    for convert in (pl.from_pandas, pa.Table.from_pandas):
        table = convert(frame)
        np.testing.assert_allclose(values(fitted, table), expected, rtol=1e-12)
        again = clone(fitted).fit(table, targets(fitted, y))
        np.testing.assert_allclose(values(again, table), expected, rtol=1e-6, atol=1e-8)


def test_numbers_without_gaps_are_the_same_as_an_array() -> None:
    X, y = waves(120)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    expected = clone(REGRESSOR).fit(X, y).predict(X)
    for table in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        np.testing.assert_allclose(clone(REGRESSOR).fit(table, y).predict(table), expected, rtol=1e-6)


def test_targets_may_be_columns() -> None:
    frame, y = people(80)
    expected = clone(REGRESSOR).fit(frame, y).predict(frame)
    for column in (pd.Series(y), pl.Series(y), pa.chunked_array([y])):
        np.testing.assert_array_equal(clone(REGRESSOR).fit(frame, column).predict(frame), expected)


def test_the_order_of_columns_does_not_matter(fitted: Any) -> None:
    frame, _ = people(50, seed=1)
    np.testing.assert_array_equal(values(fitted, frame[frame.columns[::-1]]), values(fitted, frame))


def test_a_row_does_not_depend_on_its_neighbours(fitted: Any) -> None:
    frame, _ = people(20, seed=1)
    single = np.concatenate([values(fitted, frame[i : i + 1]) for i in range(20)])
    np.testing.assert_array_equal(single, values(fitted, frame))


def test_files_and_pickles(fitted: Any, tmp_path: Path) -> None:
    frame, _ = people(50, seed=1)
    bochner.save(fitted, tmp_path / "model")
    for restored in (bochner.load(tmp_path / "model"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(values(restored, frame), values(fitted, frame))
        assert restored.encoder_.names == fitted.encoder_.names


def test_missing_only_at_prediction_and_unknown_levels(fitted: Any) -> None:
    frame, _ = people(30, seed=1)
    gaps = frame.astype({"member": object}).assign(age=np.nan, member=None, joined=pd.NaT, job=None)
    assert np.isfinite(values(fitted, gaps)).all()
    assert np.isfinite(values(fitted, frame.assign(job="astronaut"))).all()


def test_boolean_columns_are_numbers() -> None:
    X, y = waves(100)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1] > 0})
    expected = clone(REGRESSOR).fit(frame.astype(float), y).predict(frame.astype(float))
    np.testing.assert_allclose(clone(REGRESSOR).fit(frame, y).predict(frame), expected, rtol=1e-6)
    text = frame.assign(c=np.where(X[:, 2] > 0, "yes", "no"))  # which an encoder reads
    expected = clone(REGRESSOR).fit(text.astype({"b": float}), y).predict(text.astype({"b": float}))
    np.testing.assert_allclose(clone(REGRESSOR).fit(text, y).predict(text), expected, rtol=1e-6)


@both
@pytest.mark.parametrize("factor", [1e6, 1e-6])
def test_units_do_not_matter(estimator: Any, factor: float) -> None:
    X, y = waves(150)
    test, _ = waves(80, seed=1)
    scale = np.array([1.0, factor, 1.0])
    expected = values(clone(estimator).fit(X, targets(estimator, 3 * y)), test)
    scaled = values(clone(estimator).fit(X * scale, targets(estimator, 3 * y)), test * scale)
    np.testing.assert_allclose(scaled, expected, atol=1e-3 * np.ptp(expected))


def test_sample_weights_count_in_the_statistics_of_levels() -> None:
    rng = np.random.default_rng(0)
    town = rng.integers(0, 30, 300)
    frame = pd.DataFrame({"town": [f"town {i}" for i in town], "x": rng.normal(size=300)})
    y = np.where(town < 10, 1.0, 0.0) + 0.1 * rng.normal(size=300)
    kept = np.arange(300) < 200
    wrong = np.where(kept, y, 50.0)
    ignored = clone(REGRESSOR).fit(frame, wrong, sample_weight=kept.astype(float))
    expected = clone(REGRESSOR).fit(frame, np.where(kept, y, -50.0), sample_weight=kept.astype(float))
    np.testing.assert_allclose(ignored.predict(frame), expected.predict(frame), atol=1e-9)


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_columns_that_vanish_or_appear(fitted: Any) -> None:
    frame, _ = people(10)
    with pytest.raises(ValueError, match=r"lacks \['age'\]"):
        fitted.predict(frame.drop(columns="age"))
    with pytest.raises(ValueError, match=r"has \['extra'\] besides"):
        fitted.predict(frame.assign(extra=1))


def test_columns_that_change_type(fitted: Any) -> None:
    frame, _ = people(10)
    frame = frame.fillna({"age": 40.0})
    np.testing.assert_array_equal(fitted.predict(frame.assign(age=frame["age"].astype(str))), fitted.predict(frame))
    with pytest.raises(ValueError, match=r"column 'age' .* number, got 'old'"):
        fitted.predict(frame.assign(age="old"))
    with pytest.raises(ValueError, match=r"column 'joined' .* date"):
        fitted.predict(frame.assign(joined="yesterday"))


def test_arrays_after_a_fit_on_a_frame(fitted: Any) -> None:
    frame, _ = people(10)
    for data in (np.zeros((10, 4)), frame.to_numpy()):
        with pytest.raises(ValueError, match=r"X must be a frame with the columns \['age', 'job'.*got ndarray"):
            fitted.predict(data)


@both
@pytest.mark.parametrize("has_text", [False, True])
def test_infinite_values_name_their_column(estimator: Any, has_text: bool) -> None:
    X, y = waves(60)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    if has_text:
        frame["d"] = np.where(X[:, 0] > 0, "x", "y")
    broken = frame.copy()
    broken.loc[7, "b"] = np.inf
    with pytest.raises(ValueError, match=r"column 'b' must be finite, got inf in row 7"):
        clone(estimator).fit(broken, targets(estimator, 3 * y))
    good = clone(estimator).fit(frame, targets(estimator, 3 * y))
    with pytest.raises(ValueError, match=r"column 'b' must be finite, got inf in row 7"):
        good.predict(broken)


def test_gaps_in_columns_of_a_fit_without_any() -> None:
    X, y = waves(60)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    good = clone(REGRESSOR).fit(frame, y)
    broken = frame.copy()
    broken.loc[7, "b"] = np.nan
    with pytest.raises(ValueError, match=r"column 'b' has a missing value in row 7, but .* had none"):
        good.predict(broken)
    with pytest.raises(ValueError, match=r"column 'b' must hold numbers as in fit.*'old'"):
        good.predict(frame.assign(b="old"))


def test_columns_without_any_value(caplog: pytest.LogCaptureFixture) -> None:
    frame, y = people(80)
    frame = frame.assign(empty=np.nan, constant="NL", who=[f"p{row}" for row in range(80)])
    model = clone(REGRESSOR).fit(frame, y)
    assert "Columns ['empty', 'constant', 'who'] are constant, missing or different in all rows" in caplog.text
    assert np.isfinite(model.predict(frame)).all()
    with pytest.raises(ValueError, match=r"must have a column that varies; \['empty', 'constant'\]"):
        clone(REGRESSOR).fit(frame[["empty", "constant"]], y)


def test_ten_thousand_levels() -> None:
    rng = np.random.default_rng(0)
    level = rng.integers(0, 10_000, 12_000)
    frame = pd.DataFrame({"level": [f"level {i}" for i in level], "x": rng.normal(size=12_000)})
    model = clone(CLASSIFIER).fit(frame, (frame["x"] > 0) ^ (rng.random(12_000) < 0.05))
    assert len(model.encoder_.names) <= 3
    assert model.score(frame, frame["x"] > 0) > 0.95
    assert np.isfinite(model.predict_proba(pd.DataFrame({"level": ["new"], "x": [0.0]}))).all()


def test_dates_out_of_range() -> None:
    frame, y = people(60)
    dates = [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31), *frame["joined"][2:].dt.to_pydatetime()]
    model = clone(REGRESSOR).fit(frame.assign(joined=np.array(dates, dtype=object)), y)
    assert np.isfinite(model.predict(frame)).all()
    far = frame.assign(joined=np.array(["20000-01-01"] * 60, dtype="datetime64[s]"))
    np.testing.assert_array_equal(model.predict(far), model.predict(frame.assign(joined=pd.NaT)))


def test_constant_targets() -> None:
    frame, _ = people(60)
    for data in (frame, waves(60)[0]):
        np.testing.assert_allclose(clone(REGRESSOR).fit(data, np.full(60, 7.5)).predict(data), 7.5, rtol=1e-6)
        with pytest.raises(ValueError, match=r"y must hold at least two classes, got one class only: \['a'\]"):
            clone(CLASSIFIER).fit(data, np.full(60, "a"))


@pytest.mark.parametrize("preset", ["fast", "default"])
def test_a_row_per_class(preset: str) -> None:
    X, _ = rings(6)
    labels = np.array(list("abcdef"))
    model = KernelClassifier(preset=preset, random_state=0).fit(X, labels)
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    two = KernelClassifier(preset=preset, random_state=0).fit(X[:2], labels[:2])
    assert np.isfinite(two.predict_proba(X)).all()


def test_rare_classes_and_few_rows_of_a_frame() -> None:
    frame, y = people(40)
    labels = np.where(np.arange(40) == 3, "rare", targets(CLASSIFIER, y))
    model = clone(CLASSIFIER).fit(frame, labels)
    assert model.classes_.tolist() == ["little", "much", "rare"]
    assert np.isfinite(model.predict_proba(frame)).all()


# -- few positives -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_fifteen_positives_of_three_thousand(seed: int) -> None:
    """The predictions must not be nearly constant."""
    shape = {"n_features": 20, "n_informative": 5, "n_clusters_per_class": 1}
    X, y = make_classification(9000, **shape, class_sep=1.5, weights=[0.95], flip_y=0, random_state=seed)
    X *= np.geomspace(0.01, 100, 20)
    positive = np.flatnonzero(y == 1)
    train = np.concatenate([positive[:15], np.flatnonzero(y == 0)[:2985]])
    test = np.setdiff1d(np.arange(9000), train)
    linear = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[train], y[train])
    model = clone(CLASSIFIER).fit(X[train], y[train])
    scores = [average_precision_score(y[test], fit.predict_proba(X[test])[:, 1]) for fit in (linear, model)]
    assert scores[1] > max(0.7, scores[0] - 0.15)
    assert model.predict_proba(X[train])[:, 1].mean() == pytest.approx(15 / 3000, abs=15 / 3000)


def test_rows_of_weight_0_are_left_out_of_the_statistics_of_levels() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"level": rng.choice([f"l{i}" for i in range(60)], 300), "x": rng.standard_normal(300)})
    y, weight = (frame.x > 0).to_numpy(), np.arange(300) >= 150
    model = KernelClassifier(preset="fast", random_state=0)
    weighted = model.fit(frame, y, sample_weight=weight).predict_proba(frame)
    np.testing.assert_array_equal(weighted, model.fit(frame[150:], y[150:]).predict_proba(frame))


def test_integers_of_128_bits() -> None:
    frame = pl.DataFrame({"a": pl.Series([1, 2, None, 4] * 10, dtype=pl.Int128), "b": ["u", "v"] * 20})
    y = np.arange(40) % 2
    assert KernelClassifier(preset="fast", random_state=0).fit(frame, y).score(frame, y) == 1


def test_what_is_not_a_frame_names_its_remedy() -> None:
    X = np.where(np.arange(40) % 7 == 0, np.nan, 1.0)[:, None]
    with pytest.raises(ValueError, match=r"NaN.*pandas\.DataFrame"):
        KernelClassifier(preset="fast").fit(X, np.arange(40) % 2)
    with pytest.raises(ValueError, match=r"LazyFrame.*collect"):
        KernelClassifier(preset="fast").fit(pl.LazyFrame({"a": np.arange(40)}), np.arange(40) % 2)


def test_more_columns_than_numbers_in_fit_are_named_first() -> None:
    X, y = rings(60)
    model = KernelClassifier(preset="fast", random_state=0).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- extra"):
        model.predict(pd.DataFrame(X, columns=["a", "b"]).assign(extra=np.nan))


def test_tensors_that_require_gradients() -> None:
    X, y = (torch.as_tensor(part) for part in rings(60))
    model = KernelClassifier(preset="fast", random_state=0)
    expected = model.fit(X, y).predict(X)
    assert torch.equal(model.fit(X.clone().requires_grad_(), y).predict(X.clone().requires_grad_()), expected)


def test_several_labels_in_an_onnx_file(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="pip install bochner[onnx]")
    X, _ = rings(80)
    Y = np.column_stack([X[:, 0] > 0, X[:, 1] > 0, X[:, 0] > X[:, 1]]).astype(int)
    model = KernelClassifier(preset="fast", random_state=0).fit(X, Y)
    model.export_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    label, probabilities, _ = session.run(["label", "probabilities", "scores"], {"X": X.astype(np.float32)})
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-4)
    assert np.mean(label == model.predict(X)) > 0.99
