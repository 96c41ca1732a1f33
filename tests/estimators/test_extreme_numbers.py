"""Numbers at the limits of float32: an error that names the argument, a warning, or the right model; never NaN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

import bochner
from bochner import KernelClassifier, KernelRegressor
from bochner.data import ArraySource

RNG = np.random.default_rng(0)
X = RNG.standard_normal((200, 3)).astype(np.float32)
y, t = (X[:, 0] > 0).astype(int), X[:, 0] + 0.1 * RNG.standard_normal(200)
SMALL: dict[str, Any] = {"preset": None, "n_components": 32, "random_state": 0}


@pytest.mark.parametrize("solver", ["landmarks", "newton", "sgd"])
@pytest.mark.parametrize("bandwidth", [1e-300, 1e-30, 1e300])
def test_an_extreme_bandwidth_is_an_error(bandwidth: float, solver: str) -> None:
    with pytest.raises(ValueError, match=r"bandwidth.*1e[+-]30"):
        KernelClassifier(**SMALL, bandwidth=bandwidth, solver=solver).fit(X, y)


@pytest.mark.parametrize("bandwidth", [1e-300, 1e300])
def test_an_extreme_bandwidth_of_a_search_is_an_error(bandwidth: float) -> None:
    with pytest.raises(ValueError, match=r"bandwidth.*1e[+-]300"):
        KernelClassifier(preset="fast", bandwidth=bandwidth).fit(X, y)


def test_a_bandwidth_that_makes_the_kernel_constant_is_warned_of() -> None:
    with pytest.warns(ConvergenceWarning, match=r"bandwidth=1e\+30"):
        KernelRegressor(**SMALL, bandwidth=1e30, solver="ridge").fit(X, t)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("solver", ["ridge", "landmarks"])
def test_the_unit_of_the_inputs_does_not_matter(solver: str, scale: float) -> None:
    inputs = X * np.float32(scale)
    assert KernelRegressor(**SMALL, solver=solver).fit(inputs, t).score(inputs, t) > 0.9


@pytest.mark.parametrize("rate", [1e3, 1e6])
def test_steps_that_diverge_are_an_error_and_are_undone(rate: float) -> None:
    model = KernelRegressor(**SMALL, solver_params={"batch_size": 16}).partial_fit(X, t)
    before = model.predict(X)
    model.set_params(solver_params={"batch_size": 16, "learning_rate": rate})
    with pytest.raises(FloatingPointError, match=r"learning_rate=1e\+0[36]"):
        model.partial_fit(X, t)
    np.testing.assert_array_equal(model.predict(X), before)


def test_scores_that_are_not_finite_are_an_error() -> None:
    model = KernelClassifier(**SMALL, solver="ridge").fit(X, y)
    model.model_.head.weights.data.fill_(torch.nan)
    with pytest.raises(FloatingPointError, match="row 0"):
        model.predict(X)


FAR = X.astype(np.float64) + np.array([1e9, 0.0, -1e12])  # float32 holds multiples of 64 and 65,536 of such numbers


@pytest.mark.parametrize("container", [np.asarray, torch.as_tensor, pd.DataFrame])
def test_columns_far_from_zero_are_resolved(container: Any) -> None:
    near = KernelRegressor(preset="fast", random_state=0).fit(X[:150], t[:150])
    far = KernelRegressor(preset="fast", random_state=0).fit(container(FAR[:150]), t[:150])
    expected = near.predict(X)
    np.testing.assert_allclose(np.asarray(far.predict(container(FAR))), expected, atol=0.05 * expected.std())
    assert near.input_offset_ is None
    assert far.fit(X, t).input_offset_ is None


@pytest.mark.parametrize("solver", ["landmarks", "sgd"])
def test_solvers_resolve_columns_far_from_zero(solver: str) -> None:
    model = KernelRegressor(preset=None, n_components=64, solver=solver, random_state=0)
    near, far = model.fit(X, t).predict(X), model.fit(FAR, t).predict(FAR)
    np.testing.assert_allclose(far, near, atol=0.05 * near.std())
    assert model.fit(ArraySource(FAR, t)).score(ArraySource(FAR, t)) > 0.8


def test_steps_resolve_columns_far_from_zero() -> None:
    model = KernelRegressor(n_components=64, random_state=0)
    for _ in range(20):
        model.partial_fit(FAR, t)
    assert model.score(FAR, t) > 0.8


def test_models_of_columns_far_from_zero_in_files(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="pip install bochner[onnx]")
    model = KernelRegressor(preset="fast", random_state=0).fit(FAR, t)
    bochner.save(model, tmp_path / "model")
    np.testing.assert_array_equal(bochner.load(tmp_path / "model").predict(FAR), model.predict(FAR))
    model.export_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (scores,) = session.run(None, {"X": FAR})
    np.testing.assert_allclose(scores[:, 0], model.predict(FAR), atol=1e-2 * t.std())
    lower, upper = model.predict_interval(FAR)
    assert np.mean((t >= lower) & (t <= upper)) > 0.8


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_the_unit_of_the_targets_does_not_matter(scale: float) -> None:
    inputs = X.astype(np.float64)  # predictions have the dtype of the inputs
    model = KernelRegressor(preset="fast", random_state=0).fit(inputs, scale * t)
    assert model.score(inputs, scale * t) > 0.9
    lower, upper = model.predict_interval(inputs)
    assert np.mean((scale * t >= lower) & (scale * t <= upper)) > 0.8


def test_targets_beyond_their_squares_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"y must .*1e150"):
        KernelRegressor(preset="fast").fit(X, 1e200 * t)
