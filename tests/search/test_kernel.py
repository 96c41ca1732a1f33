"""The kernel that a fit chooses: gamma, standardisation, searched bandwidths, learned metrics."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel

import bochner
from bochner import KernelClassifier, KernelRegressor
from bochner.data import ArraySource
from bochner.kernels import Gaussian, Laplacian
from bochner.search.kernel import search_steps

CLASSIFICATION = make_classification(
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
X, Y = CLASSIFICATION[0].astype(np.float32), CLASSIFICATION[1]
TRAIN, TEST = slice(0, 1200), slice(1200, 1800)


@cache
def fitted(solver: str, **settings: object) -> KernelClassifier:
    model = KernelClassifier(preset=None, solver=solver, n_components=256, random_state=0, **settings)
    return model.fit(X[TRAIN], Y[TRAIN])


# -- bandwidth, gamma and scale ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [("gaussian", rbf_kernel), ("rbf", rbf_kernel), ("laplacian", laplacian_kernel), ("polynomial", polynomial_kernel)],
)
def test_gamma_is_that_of_scikit_learn(kernel: str, expected: Callable[..., np.ndarray]) -> None:
    rows = X[:50].astype(np.float64)
    settings = {"degree": 3, "coef0": 1} if kernel == "polynomial" else {}
    model = KernelRegressor(preset=None, kernel=kernel, gamma=0.07, solver="ridge", n_components=16)
    model.fit(rows, rows[:, 0])
    values = model.kernel_(torch.as_tensor(rows)).numpy()
    np.testing.assert_allclose(values, expected(rows, gamma=0.07, **settings), rtol=1e-6)


@pytest.mark.parametrize("bandwidth", [None, "mean", "neighbor", 2.5])
@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "matern32", "power-exponential", Laplacian(bandwidth=2.0)])
def test_standardize_is_a_division_by_standard_deviations(kernel: Any, bandwidth: Any) -> None:
    rows = X[:200].astype(np.float64) * np.geomspace(1e-3, 1e3, 20)
    shared = {"kernel": kernel, "bandwidth": bandwidth, "solver": "landmarks", "n_components": 100, "alpha": 1e-3}
    shared |= {"preset": None, "random_state": 0, "solver_params": {"precision": "float64"}}
    inside = KernelClassifier(standardize=True, **shared).fit(rows, Y[:200])
    outside = KernelClassifier(**shared).fit(rows / rows.std(axis=0), Y[:200])
    expected = outside.decision_function(rows / rows.std(axis=0))
    np.testing.assert_allclose(inside.decision_function(rows), expected, atol=1e-4)
    assert inside.kernel_.bandwidth == pytest.approx(outside.kernel_.bandwidth, rel=1e-6)


@pytest.mark.parametrize("preset", [None, "default"])
def test_the_neighbor_rule_reads_all_rows_of_the_source(preset: str | None) -> None:
    """2,400 rows in shards of 500: neighbours of 1,000 rows are searched among all, as in a whole tensor."""
    shared = {"bandwidth": "neighbor", "kernel": "gaussian", "solver": "ridge", "n_components": 64, "random_state": 0}
    rows = torch.as_tensor(X[:2400])
    model = KernelClassifier(preset=preset, standardize=False, **shared)
    model.fit(ArraySource(rows, torch.as_tensor(Y[:2400]), shard_rows=500))
    distances = torch.cdist(rows.double(), rows.double()).sort(dim=1).values[:, 50]
    assert model.kernel_.bandwidth == pytest.approx(float(distances.mean()), rel=0.02)
    sampled = torch.cdist(rows[:1000].double(), rows[:1000].double()).sort(dim=1).values[:, 50]
    assert model.kernel_.bandwidth < 0.95 * float(sampled.mean())


def test_standardize_with_gamma() -> None:
    rows = X[:100].astype(np.float64) * np.geomspace(0.1, 10, 20)
    scaled = torch.as_tensor(rows / rows.std(axis=0))
    for kernel in ("rbf", Gaussian()):
        model = KernelRegressor(
            preset=None, kernel=kernel, gamma=0.07, standardize=True, solver="ridge", n_components=16
        )
        values = model.fit(rows, rows[:, 0]).kernel_(torch.as_tensor(rows))
        np.testing.assert_allclose(values, rbf_kernel(scaled, gamma=0.07), rtol=1e-4)


def sinusoids(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers that vary faster than the median rule expects."""
    rows = np.random.default_rng(seed).uniform(-2, 2, size=(1500, 2))
    return rows, np.sin(3 * rows).sum(axis=1)


@pytest.mark.parametrize("seed", range(3))
def test_a_searched_bandwidth_is_better_than_a_bad_rule(seed: int) -> None:
    rows, numbers = sinusoids(seed)
    classes = (numbers > 0).astype(int)
    train, test = slice(0, 1000), slice(1000, 1500)
    shared = {
        "preset": None,
        "n_components": 256,
        "random_state": seed,
        "solver_params": {"batch_size": 64, "max_epochs": 8},
    }
    rule, search = (
        KernelRegressor(bandwidth=bandwidth, solver="ridge", **shared).fit(rows[train], numbers[train])
        for bandwidth in ("median", "search")
    )
    assert search.score(rows[test], numbers[test]) > max(0.98, rule.score(rows[test], numbers[test]))
    assert search.kernel_.bandwidth == search.choices_["bandwidth"] < 0.6 * rule.kernel_.bandwidth
    tried = search.choices_["tried"]
    assert min(tried, key=tried.__getitem__) == f"{search.kernel_.bandwidth / search.choices_['median']:.3g}"
    rule, search = (
        KernelClassifier(bandwidth=bandwidth, solver="sgd", **shared).fit(rows[train], classes[train])
        for bandwidth in ("median", "search")
    )
    assert search.score(rows[test], classes[test]) > rule.score(rows[test], classes[test]) + 0.05


@pytest.mark.parametrize("best", range(-6, 7))
def test_search_finds_the_minimum_of_a_loss_with_one(best: int) -> None:
    evaluated: list[int] = []
    step, losses = search_steps(lambda step: evaluated.append(step) or abs(step - best), max_steps=6)
    assert step == best
    assert len(losses) == len(evaluated) <= 7
    assert set(losses) <= set(range(-6, 7))


@pytest.mark.parametrize("best", [-5, -3, 3, 5])
def test_search_is_not_stopped_by_a_plateau(best: int) -> None:
    """Nothing is learned at most bandwidths: the loss falls only near the right one."""
    assert search_steps(lambda step: min(0, abs(step - best) - 2), max_steps=6)[0] == best


def test_search_ends_at_the_last_step() -> None:
    for direction in (-1, 1):
        step, losses = search_steps(lambda step, direction=direction: -direction * step, max_steps=4)
        assert step == 4 * direction
        assert max(map(abs, losses)) == 4


# -- metrics -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["sgd", "ridge", "landmarks"])
def test_noise_inputs_cost_less_under_a_learned_metric(solver: str) -> None:
    plain, adapted = (fitted(solver, adapt=adapt) for adapt in (None, "agop"))
    assert adapted.score(X[TEST], Y[TEST]) > plain.score(X[TEST], Y[TEST]) + 0.05
    assert plain.kernel_.metric is None
    assert adapted.kernel_.metric is not None


def test_the_kernel_stays_where_no_metric_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = iter([1.0, 2.0])
    monkeypatch.setattr("bochner.search.kernel.validation_loss", lambda *_: next(losses))
    adapt = {"method": "agop", "rounds": 1}
    model = KernelClassifier(preset=None, solver="landmarks", alpha=1e-3, n_components=64, random_state=0, adapt=adapt)
    assert model.fit(X[:800], Y[:800]).kernel_.metric is None


def test_few_rows_need_no_conjugate_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every row is a landmark: for the metric, for its penalties, and for the last fit."""
    monkeypatch.setattr("bochner.search.kernel.fit_landmark_ridge", None)
    model = KernelRegressor(preset=None, n_components=100, random_state=0, adapt={"method": "agop", "rounds": 1})
    assert model.fit(X[:100], X[:100, 0]).kernel_.metric is not None
    with pytest.raises(TypeError, match="not callable"):
        model.fit(X[:101], X[:101, 0])


def test_a_metric_for_regression() -> None:
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
    scores = [
        KernelRegressor(preset=None, n_components=256, random_state=0, adapt=adapt)
        .fit(X[TRAIN], y[TRAIN])
        .score(X[TEST], y[TEST])
        for adapt in (None, "agop")
    ]
    assert scores[1] > scores[0] + 0.05


def test_same_seed_same_metric_also_from_a_source() -> None:
    source = ArraySource(torch.from_numpy(X[:800]), torch.from_numpy(Y[:800]))
    models = [
        KernelClassifier(preset=None, solver="landmarks", n_components=64, random_state=7, adapt="agop")
        for _ in range(2)
    ]
    first, second = (model.fit(source).kernel_.metric for model in models)
    assert torch.equal(first, second)


def test_a_metric_is_saved_and_loaded(tmp_path: Path) -> None:
    model = fitted("sgd", adapt="agop")
    bochner.save(model, tmp_path / "model.safetensors")
    loaded = bochner.load(tmp_path / "model.safetensors")
    assert loaded.adapt == "agop"
    np.testing.assert_array_equal(loaded.predict_proba(X[TEST]), model.predict_proba(X[TEST]))


def test_a_metric_is_exported(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model = fitted("sgd", adapt="agop")
    model.export_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    exported = session.run(["probabilities"], {"X": X[TEST]})[0]
    np.testing.assert_allclose(exported, model.predict_proba(X[TEST]), atol=1e-5)


def test_a_metric_in_float64_leaves_the_model_in_float32() -> None:
    kernel = Gaussian(bandwidth=3.0, metric=torch.eye(20, dtype=torch.float64))
    model = KernelClassifier(kernel=kernel, solver="sgd", n_components=64, solver_params={"max_epochs": 1}).fit(
        X[TRAIN], Y[TRAIN]
    )
    assert model.model_.head.weights.dtype == torch.float32
