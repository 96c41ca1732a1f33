"""Classifiers and regressors: what they learn, which data they accept, reproducibility, scikit-learn's tools."""

from __future__ import annotations

import pickle
import random
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bochner import KernelClassifier, KernelRegressor
from bochner.data import ArraySource, SparseSource
from bochner.kernels import Gaussian, Laplacian, Polynomial
from tests.estimators.cases import CLASSIFIERS, QUICK, REGRESSORS, least_r2, options, rings, waves

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

every_classifier = pytest.mark.parametrize("estimator", CLASSIFIERS.values(), ids=CLASSIFIERS)
every_regressor = pytest.mark.parametrize("estimator", REGRESSORS.values(), ids=REGRESSORS)
every_estimator = pytest.mark.parametrize(
    ("estimator", "data"),
    [
        *((estimator, rings) for estimator in CLASSIFIERS.values()),
        *((estimator, waves) for estimator in REGRESSORS.values()),
    ],
    ids=[*CLASSIFIERS, *REGRESSORS],
)


@cache
def fitted_once(estimator: Any, data: Callable[[], Any] = rings) -> Any:
    """A clone of `estimator` fitted to `data()`, for tests that only read it."""
    return clone(estimator).fit(*data())


# -- what it learns ----------------------------------------------------------------------------------------------------


@every_classifier
def test_learns_a_nonlinear_boundary(estimator) -> None:
    X, y = rings(400)
    test, truth = rings(300, seed=1, noise=0.0)
    fitted = clone(estimator).fit(X, y)
    assert fitted.score(test, truth) > 0.85
    p = fitted.predict_proba(test)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert (p > 0).all()
    np.testing.assert_array_equal(fitted.classes_[p.argmax(axis=1)], fitted.predict(test))
    np.testing.assert_array_equal(fitted.decision_function(test).argmax(axis=1), p.argmax(axis=1))
    np.testing.assert_allclose(fitted.predict_log_proba(test), np.log(p))


@every_regressor
def test_r2_of_a_known_function(estimator) -> None:
    X, y = waves(600)
    test, truth = waves(300, seed=1)
    assert clone(estimator).fit(X, y).score(test, truth) > least_r2(estimator, 0.9)


@pytest.mark.parametrize("solver", ["sgd", "ridge", "landmarks", "newton", "saga", "askotch", "eigenpro"])
def test_two_classes_have_one_score(solver: str) -> None:
    X, y = rings(300)
    inside = np.where(y == 0, "in", "out")
    fitted = KernelClassifier(solver=solver, **QUICK).fit(X, inside)
    score = fitted.decision_function(X)
    assert score.shape == (300,)
    np.testing.assert_array_equal(fitted.predict(X), np.where(score > 0, "out", "in"))
    np.testing.assert_array_equal(fitted.predict_proba(X)[:, 1] > 0.5, score > 0)
    assert fitted.score(X, inside) > 0.9


def test_defaults_are_the_documented_solvers() -> None:
    X, y = rings(2100)
    quick = options(preset=None, max_epochs=1, n_components=16, random_state=0)
    assert KernelClassifier(preset=None, random_state=0).fit(X[:200], y[:200]).solver_ == "newton"
    assert KernelClassifier(**quick).fit(X, y).solver_ == "sgd"
    assert KernelRegressor(preset=None, random_state=0).fit(X[:200], y[:200]).solver_ == "landmarks"
    assert KernelRegressor(**quick).fit(X, y).solver_ == "ridge"
    assert KernelClassifier(**options(quick, rank=1)).fit(X[:200], y[:200]).solver_ == "sgd"
    assert KernelClassifier(**options(quick, num_blocks=2)).fit(X[:200], y[:200]).solver_ == "sgd"


def test_kernels_and_bandwidths() -> None:
    X, y = rings()
    fitted = KernelClassifier(kernel="laplacian", bandwidth="mean", random_state=0).fit(X, y)
    assert fitted.kernel_.bandwidth == pytest.approx(np.abs(X[:, None] - X[None]).sum(-1).sum() / (200 * 199), rel=1e-4)
    assert KernelClassifier(kernel=Laplacian(bandwidth=3.0)).fit(X, y).kernel_.bandwidth == 3.0
    assert KernelClassifier(kernel=Gaussian(), bandwidth=0.7).fit(X, y).kernel_.bandwidth == 0.7
    for kernel in (Polynomial(degree=2), Gaussian() + Laplacian()):
        assert KernelClassifier(kernel=kernel, solver="sgd", **QUICK).fit(X, y).score(X, y) > 0.7


def test_the_summary_of_a_model_without_a_search() -> None:
    X, y = rings(60)
    model = KernelClassifier(preset=None, solver="ridge", n_components=8, bandwidth=2.0, random_state=0).fit(X, y)
    assert model.summary() == f"KernelClassifier: {model.kernel_!r}, solver 'ridge'"


def test_standardize_makes_units_irrelevant() -> None:
    X, y = rings()
    units = X * [1.0, 1e4]
    estimator = KernelClassifier(solver="ridge", standardize=True, **QUICK)
    assert clone(estimator).fit(units, y).score(units, y) == pytest.approx(
        clone(estimator).fit(X, y).score(X, y), abs=0.02
    )
    assert clone(estimator).set_params(standardize=False).fit(units, y).score(units, y) < 0.7


# -- types -------------------------------------------------------------------------------------------------------------

CONTAINERS: dict[str, Callable[[np.ndarray], Any]] = {
    "float32": lambda X: X.astype(np.float32),
    "list": lambda X: X.tolist(),
    "frame": lambda X: pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]),
    "fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X: X[::-1][::-1],
    "csr_matrix": sparse.csr_matrix,
    "csc_array": sparse.csc_array,
    "tensor": torch.as_tensor,
    "tensor32": lambda X: torch.as_tensor(X).float(),
    "strided tensor": lambda X: torch.as_tensor(np.repeat(X, 2, axis=1))[:, ::2],
}


def exact_rings() -> tuple[np.ndarray, np.ndarray]:
    X, y = rings(120)
    return X.astype(np.float32).astype(np.float64), y  # so that no container loses anything


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
@pytest.mark.parametrize("name", ["sgd", "newton", "searched"])
def test_containers_agree(container, name: str) -> None:
    X, y = exact_rings()
    expected = fitted_once(CLASSIFIERS[name], exact_rings).predict_proba(X)
    inputs = container(X)
    fitted = clone(CLASSIFIERS[name]).fit(inputs, torch.as_tensor(y) if isinstance(inputs, torch.Tensor) else y)
    np.testing.assert_allclose(np.asarray(fitted.predict_proba(inputs)), expected, atol=1e-6)
    assert fitted.n_features_in_ == 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_outputs_have_the_container_of_the_inputs(dtype: type) -> None:
    X, y = rings(120)
    X = X.astype(dtype)
    classifier = KernelClassifier(solver="ridge", **QUICK).fit(X, y)
    regressor = KernelRegressor(solver="ridge", **QUICK).fit(X, y)
    for values in (classifier.decision_function(X), classifier.predict_proba(X), regressor.predict(X)):
        assert isinstance(values, np.ndarray)
        assert values.dtype == dtype
    T = torch.as_tensor(X)
    for values in (classifier.decision_function(T), classifier.predict_log_proba(T), regressor.predict(T)):
        assert isinstance(values, torch.Tensor)
        assert values.dtype == T.dtype
        assert not values.requires_grad
    assert classifier.predict(T).dtype == torch.int64
    assert classifier.score(T, torch.as_tensor(y)) == classifier.score(X, y)
    integers = KernelClassifier(solver="ridge", **QUICK).fit((X * 10).astype(np.int32), y)
    assert integers.predict_proba((X * 10).astype(np.int32)).dtype == np.float64


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["a", "bb", "c"]),
        np.array(["a", "bb", "c"], dtype=object),
        np.array([-3, 5, 900]),
        np.array([0.5, 1.0, 2.5]) * 2,
        np.array([False, True, True]),
    ],
    ids=["text", "objects", "integers", "floats", "bools"],
)
def test_labels_of_any_kind(labels: np.ndarray) -> None:
    X, y = rings(150)
    fitted = KernelClassifier(solver="ridge", **QUICK).fit(X, labels[y])
    np.testing.assert_array_equal(fitted.classes_, np.unique(labels))
    assert fitted.classes_.dtype == labels.dtype
    predicted = fitted.predict(X)
    assert predicted.dtype == labels.dtype
    assert (predicted == labels[y]).mean() > 0.8
    by_tensor = fitted.predict(torch.as_tensor(X))
    assert isinstance(by_tensor, np.ndarray if labels.dtype.kind in "UO" else torch.Tensor)
    np.testing.assert_array_equal(np.asarray(by_tensor), predicted)


def test_frames_keep_their_names() -> None:
    X, y = rings(100)
    frame = pd.DataFrame(X, columns=["east", "north"])
    fitted = KernelClassifier(solver="ridge", **QUICK).fit(frame, pd.Series(y))
    assert fitted.feature_names_in_.tolist() == ["east", "north"]
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame[["north", "east"]])


@pytest.mark.parametrize(
    "estimator",
    [
        *(CLASSIFIERS[name] for name in ("sgd", "newton", "network", "searched")),
        *(REGRESSORS[name] for name in ("ridge", "searched")),
    ],
)
def test_sources_of_rows(estimator) -> None:
    X, y = rings(400)
    targets = np.array(["a", "b", "c"])[y] if is_classifier(estimator) else y.astype(float)
    source = ArraySource(X, targets, shard_rows=64)
    fitted = clone(estimator).fit(source)
    np.testing.assert_array_equal(fitted.predict(source), fitted.predict(X))
    assert fitted.score(X, targets) > 0.7
    wide = SparseSource(sparse.csr_matrix(X), y if is_classifier(estimator) else y.astype(float), shard_rows=64)
    assert fitted.predict(wide).shape == (400,)
    few = ArraySource(X[:100], targets[:100], shard_rows=64)
    held = clone(estimator).fit(few, validation_data=ArraySource(X[100:150], targets[100:150]))
    pair = clone(estimator).fit(few, validation_data=(X[100:150], targets[100:150]))
    np.testing.assert_array_equal(held.predict(X), pair.predict(X))


@pytest.mark.parametrize(
    "estimator", [CLASSIFIERS["sgd"], REGRESSORS["ridge"], CLASSIFIERS["searched"], REGRESSORS["searched"]]
)
def test_validation_data_as_arrays_or_source(estimator) -> None:
    X, y = rings(300)
    kept = clone(estimator).fit(X[:200], y[:200], validation_data=(X[200:], y[200:]))
    source = ArraySource(X[200:], y[200:] if is_classifier(estimator) else y[200:].astype(float))
    again = clone(estimator).fit(X[:200], y[:200], validation_data=source)
    np.testing.assert_array_equal(kept.predict(X), again.predict(X))


# -- reproducibility -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [CLASSIFIERS[name] for name in CLASSIFIERS if name not in ("auto", "searched")])
def test_another_seed_another_model(estimator) -> None:
    X, y = rings()
    assert estimator.random_state == 0
    other = clone(estimator).set_params(random_state=1).fit(X, y)
    assert not np.array_equal(other.decision_function(X), fitted_once(estimator).decision_function(X))


@every_estimator
def test_a_row_s_scores_do_not_depend_on_its_neighbours(estimator, data) -> None:
    X, _ = data()
    fitted = fitted_once(estimator, data)
    method = fitted.decision_function if is_classifier(fitted) else fitted.predict
    whole = method(X)
    np.testing.assert_array_equal(np.concatenate([method(X[i : i + 1]) for i in range(20)]), whole[:20])
    np.testing.assert_array_equal(method(X[::-1])[::-1], whole)


@every_estimator
def test_same_seed_same_bits_and_nothing_global_is_touched(estimator, data) -> None:
    X, y = data()
    expected = fitted_once(estimator, data).predict(X)

    def state() -> list[Any]:
        flags = [torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32]
        return [
            torch.get_default_dtype(),
            torch.get_num_threads(),
            torch.is_grad_enabled(),
            torch.are_deterministic_algorithms_enabled(),
            torch.get_float32_matmul_precision(),
            flags,
            torch.get_rng_state().tolist(),
            np.random.get_state()[1].tolist(),
            random.getstate(),
            list(warnings.filters),
        ]

    before = state()
    predicted = clone(estimator).fit(X, y).predict(X)
    assert state() == before
    np.testing.assert_array_equal(predicted, expected)


@every_estimator
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix, torch.as_tensor])
def test_inputs_are_never_modified(estimator, data, container) -> None:
    X, y = data(80)
    weight = np.random.default_rng(1).uniform(0.5, 2, size=80)
    inputs = container(X.copy())
    arrays = [inputs.data] if sparse.issparse(inputs) else [inputs]
    copies = [np.asarray(part).copy() for part in (*arrays, y, weight)]
    for part in (*arrays, y, weight):
        if isinstance(part, np.ndarray):
            part.flags.writeable = False
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*not writable.*")
        clone(estimator).fit(inputs, y, sample_weight=weight).predict(inputs)
    for part, copy in zip((*arrays, y, weight), copies, strict=True):
        np.testing.assert_array_equal(np.asarray(part), copy)


# -- scikit-learn's tools ----------------------------------------------------------------------------------------------


@every_estimator
def test_pickle_and_clone(estimator, data) -> None:
    X, _ = data()
    fitted = fitted_once(estimator, data)
    revived = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(revived.predict(X), fitted.predict(X))
    assert clone(fitted).get_params() == estimator.get_params()
    assert not hasattr(clone(fitted), "model_")


def test_in_a_pipeline_and_a_grid_search_over_processes() -> None:
    X, y = load_digits(return_X_y=True)
    model = make_pipeline(StandardScaler(), KernelClassifier(preset=None, n_components=256, random_state=0))
    grid = {"kernelclassifier__solver": ["ridge"], "kernelclassifier__kernel": ["gaussian", Laplacian()]}
    grid["kernelclassifier__bandwidth"] = ["median"]
    search = GridSearchCV(model, grid, cv=2, n_jobs=2).fit(X[:400], y[:400])
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
    assert search.score(X[1000:], y[1000:]) > 0.8


def test_parameters_are_checked_in_fit_not_before() -> None:
    estimator = KernelClassifier(n_components=-1)
    assert estimator.get_params()["n_components"] == -1
    assert "n_components=-1" in repr(estimator)
