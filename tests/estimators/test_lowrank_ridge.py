"""LowRankRidge: against scikit-learn's KernelRidge, over every method, and through files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks

import bochner
from bochner import LowRankRidge
from bochner.estimators.lowrank_factor import METHODS
from bochner.kernels import Gaussian, Laplacian, Polynomial
from bochner.lowrank import fit_ensemble, fit_meka
from tests.estimators.machines import waves


@parametrize_with_checks([LowRankRidge(method="pivoted-cholesky", ridge=0.1, exact=True)])
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)


def kernel_ridge(X, y, new, *, bandwidth: float, ridge: float):
    """scikit-learn's, with the mean of y beside it; and how much a bias that is fitted could change."""
    peer = KernelRidge(kernel="rbf", gamma=1 / (2 * bandwidth**2), alpha=ridge).fit(X, y - y.mean(axis=0))
    return peer.predict(new) + y.mean(axis=0)


def with_bias(X, y, new, *, bandwidth: float, ridge: float):
    """The same with a bias that is not penalised, by the system of Suykens."""
    k = Gaussian(bandwidth=bandwidth)
    n = len(X)
    system = np.ones((n + 1, n + 1))
    system[:n, :n] = k(torch.tensor(X)).numpy() + ridge * np.eye(n)
    system[n, n] = 0
    solved = np.linalg.solve(system, np.concatenate([y, np.zeros((1, *y.shape[1:]))]))
    return k(torch.tensor(new), torch.tensor(X)).numpy() @ solved[:n] + solved[n]


@pytest.mark.parametrize("settings", [{}, {"rank": 40, "exact": True}], ids=["all points", "exact"])
def test_full_rank_and_exact_are_kernel_ridge_regression_with_a_bias(settings) -> None:
    X, y = waves()
    new, _ = waves(seed=1)
    model = LowRankRidge(bandwidth=1.5, ridge=0.1, random_state=0, **settings).fit(X, y)
    expected = with_bias(X, y, new, bandwidth=1.5, ridge=0.1)
    np.testing.assert_allclose(model.predict(new), expected, atol=1e-4, rtol=0)
    centred = kernel_ridge(X, y, new, bandwidth=1.5, ridge=0.1)
    assert np.abs(model.predict(new) - centred).mean() < 0.05


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns(name: str) -> None:
    X, y = waves(500)
    new, truth = waves(500, seed=1)
    model = LowRankRidge(method=name, rank=150, random_state=0).fit(X, y)
    assert model.score(new, truth) > (0.9 if name == "fourier" else 0.98)
    assert model.loo_rmse_ == pytest.approx(np.sqrt(np.mean((model.predict(new) - truth) ** 2)), rel=0.6)


def test_leave_one_out_error_is_that_of_refits() -> None:
    """At full rank the factor is K whatever the landmarks: leaving one out can be done by hand."""
    X, y = waves(60)
    y = np.stack([y, X[:, 0] ** 2], axis=1)
    model = LowRankRidge(bandwidth=1.5, ridge=0.05, random_state=0)
    by_hand = cross_val_predict(model, X, y, cv=60)
    assert model.fit(X, y).loo_rmse_ == pytest.approx(np.sqrt(np.mean((by_hand - y) ** 2)), rel=1e-6)


def test_the_ridge_that_is_chosen_has_the_least_error() -> None:
    X, y = waves(100)
    y = y + 0.3 * np.random.default_rng(0).normal(size=100)
    model = LowRankRidge(bandwidth=1.5, random_state=0).fit(X, y)
    for factor in (0.1, 0.5, 2.0, 10.0):
        other = clone(model).set_params(ridge=factor * model.ridge_).fit(X, y)
        assert other.ridge_ == factor * model.ridge_
        assert other.loo_rmse_ > model.loo_rmse_


def test_many_outputs_are_solved_as_one_by_one() -> None:
    X, y = waves(100)
    both = np.stack([y, 1000 + 3 * y], axis=1)
    model = LowRankRidge(bandwidth=1.5, rank=40, ridge=0.1, random_state=0).fit(X, both)
    alone = clone(model).fit(X, both[:, 1])
    assert model.predict(X).shape == (100, 2)
    assert alone.predict(X).shape == (100,)
    np.testing.assert_allclose(model.predict(X)[:, 1], alone.predict(X), rtol=1e-9)


def test_any_function_can_be_the_method() -> None:
    X, y = waves(200)
    for method in (partial(fit_meka, num_clusters=4), partial(fit_ensemble, num_experts=2)):
        assert LowRankRidge(method=method, rank=80, random_state=0).fit(X, y).score(X, y) > 0.9


def test_float32_and_tensors_come_back_as_they_were() -> None:
    X, y = waves()
    model = LowRankRidge(bandwidth=1.5, rank=50, ridge=0.1, random_state=0)
    expected = clone(model).fit(X, y).predict(X)
    narrow = clone(model).fit(X.astype(np.float32), y.astype(np.float32)).predict(X.astype(np.float32))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, expected, atol=1e-3)
    tensor = clone(model).fit(torch.tensor(X), torch.tensor(y)).predict(torch.tensor(X))
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-12)


def test_targets_far_from_zero_keep_their_digits_in_float32() -> None:
    X, y = waves()
    shifted = LowRankRidge(bandwidth=1.5, rank=50, random_state=0).fit(X.astype(np.float32), y + 1e6)
    assert np.std(shifted.predict(X) - 1e6 - y) < 0.1


def test_one_seed_one_model() -> None:
    X, y = waves()
    first, again, other = (LowRankRidge(rank=30, random_state=seed).fit(X, y).predict(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-6


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"exact": True, "kernel": Laplacian(bandwidth=2.0)},
        {"method": "svd", "ridge": 0.5},
        {"method": partial(fit_meka, num_clusters=2)},
        {"kernel": Polynomial(degree=3), "method": "pivoted-cholesky"},
    ],
    ids=["default", "exact", "svd", "function", "polynomial"],
)
def test_files_bring_back_the_model(settings, tmp_path: Path) -> None:
    X, y = waves(80)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    fitted = LowRankRidge(rank=20, random_state=0, **settings).fit(frame, np.stack([y, -y], axis=1))
    bochner.save(fitted, tmp_path / "model.bochner")
    loaded = bochner.load(tmp_path / "model.bochner")
    np.testing.assert_allclose(loaded.predict(frame), fitted.predict(frame), rtol=1e-11)
    assert (loaded.ridge_, loaded.loo_rmse_) == (fitted.ridge_, fitted.loo_rmse_)
    assert repr(loaded.kernel_) == repr(fitted.kernel_)
    assert (loaded.rank, loaded.ridge, loaded.exact) == (20, fitted.ridge, fitted.exact)
    assert loaded.method == (fitted.method if isinstance(fitted.method, str) else "uniform-nystrom")
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["b", "a", "c"]])


def test_a_file_with_other_numbers_is_refused(tmp_path: Path) -> None:
    X, y = waves(30)
    stored = LowRankRidge(rank=5, random_state=0).fit(X, y).to_storable()
    with pytest.raises(ValueError, match="names of numbers must be one of"):
        stored.replace(numbers=[["ridge_", 1.0], ["predict", 1.0]])
    with pytest.raises(ValueError, match="kind must be one of"):
        stored.replace(kind="KernelRidge")
    with pytest.raises(TypeError, match="model must be a FeatureModel"):
        stored.replace(model=Gaussian())
    with pytest.raises(TypeError, match="must be a number, a truth value or a list of numbers"):
        stored.replace(numbers=[["ridge_", "high"], ["loo_rmse_", 1.0], ["_is_single", True]])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 61}, "rank must be at most the number of points, 60, got 61"),
        ({"rank": 0}, "'rank' parameter"),
        ({"ridge": 0}, "'ridge' parameter"),
        ({"ridge": "best"}, "'ridge' parameter"),
        ({"method": "lela"}, "'method' parameter"),
        ({"method": "fourier", "kernel": Polynomial()}, "spectral"),
    ],
)
def test_bad_parameters(settings, message: str) -> None:
    X, y = waves(60)
    with pytest.raises((ValueError, TypeError), match=message):
        LowRankRidge(**settings).fit(X, y)
