"""Estimators that learn a metric before they are fitted."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification

import bochner
from bochner import KernelClassifier, KernelRegressor
from bochner.data import ArraySource
from bochner.kernels import Gaussian
from bochner.search.memory import METRIC_LANDMARKS, Sizes, plan_memory

MADE = make_classification(
    n_samples=3000,
    n_features=20,
    n_informative=5,
    n_redundant=0,
    n_classes=4,
    n_clusters_per_class=2,
    class_sep=1.0,
    flip_y=0.0,
    random_state=0,
)
X, Y = MADE[0].astype(np.float32), MADE[1]
TRAIN, TEST = slice(0, 2400), slice(2400, 3000)


@cache
def fitted(solver: str, **settings: object) -> KernelClassifier:
    return KernelClassifier(solver=solver, n_components=512, random_state=0, **settings).fit(X[TRAIN], Y[TRAIN])


@pytest.mark.parametrize("solver", ["sgd", "ridge", "landmarks"])
def test_noise_inputs_cost_less_under_a_learned_metric(solver: str) -> None:
    plain, adapted = (fitted(solver, adapt=adapt) for adapt in (None, "agop"))
    assert adapted.score(X[TEST], Y[TEST]) > plain.score(X[TEST], Y[TEST]) + 0.05
    assert plain.kernel_.metric is None
    assert adapted.kernel_.metric is not None


def test_the_kernel_stays_where_no_metric_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = iter([1.0, 2.0])
    monkeypatch.setattr("bochner.search.fit.heldout_loss", lambda *_: next(losses))
    model = KernelClassifier(solver="landmarks", n_components=64, random_state=0, adapt="agop")
    assert model.fit(X[:800], Y[:800]).kernel_.metric is None


def test_few_rows_need_no_conjugate_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every row is a landmark: for the metric, for its ridges, and for the last fit."""
    monkeypatch.setattr("bochner.search.fit.fit_landmark_ridge", None)
    model = KernelRegressor(n_components=100, random_state=0, adapt={"method": "agop", "rounds": 1})
    assert model.fit(X[:100], X[:100, 0]).kernel_.metric is not None
    with pytest.raises(TypeError, match="not callable"):
        model.fit(X[:101], X[:101, 0])


def test_regression() -> None:
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
    scores = [
        KernelRegressor(n_components=512, random_state=0, adapt=adapt).fit(X[TRAIN], y[TRAIN]).score(X[TEST], y[TEST])
        for adapt in (None, "agop")
    ]
    assert scores[1] > scores[0] + 0.05


def test_same_seed_same_metric_also_from_a_source() -> None:
    source = ArraySource(torch.from_numpy(X[:800]), torch.from_numpy(Y[:800]))
    models = [KernelClassifier(solver="landmarks", n_components=64, random_state=7, adapt="agop") for _ in range(2)]
    first, second = (model.fit(source).kernel_.metric for model in models)
    assert torch.equal(first, second)


def test_saved_and_loaded(tmp_path: Path) -> None:
    model = fitted("sgd", adapt="agop")
    bochner.save(model, tmp_path / "model.safetensors")
    loaded = bochner.load(tmp_path / "model.safetensors")
    assert loaded.adapt == "agop"
    np.testing.assert_array_equal(loaded.predict_proba(X[TEST]), model.predict_proba(X[TEST]))


def test_exported(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model = fitted("sgd", adapt="agop")
    model.export_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    found = session.run(["probabilities"], {"X": X[TEST]})[0]
    np.testing.assert_allclose(found, model.predict_proba(X[TEST]), atol=1e-5)


def test_a_metric_in_float64_leaves_the_model_in_float32() -> None:
    kernel = Gaussian(bandwidth=3.0, metric=torch.eye(20, dtype=torch.float64))
    model = KernelClassifier(kernel=kernel, solver="sgd", n_components=64, solver_params={"max_epochs": 1}).fit(
        X[TRAIN], Y[TRAIN]
    )
    assert model.model_.head.weights.dtype == torch.float32


def test_fewer_landmarks_within_a_budget() -> None:
    sizes = Sizes(10**6, 4096, 100, 10, 512, 4)
    roomy, tight = (plan_memory(budget, sizes, solver="sgd", adapt=True) for budget in (None, 300 * 2**20))
    assert roomy.metric_landmarks == METRIC_LANDMARKS
    assert tight.metric_landmarks < METRIC_LANDMARKS
    assert tight.metric_spare >= 0


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="adapt='agop' needs a kernel with a metric"):
        fitted("sgd", adapt="agop", kernel=Gaussian() + Gaussian())
    with pytest.raises(ValueError, match="adapt"):
        fitted("sgd", adapt="metric")
    assert hasattr(KernelClassifier(), "partial_fit")
    assert not hasattr(KernelClassifier(adapt="agop"), "partial_fit")
