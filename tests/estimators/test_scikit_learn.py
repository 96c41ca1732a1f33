"""scikit-learn's own checks, over every estimator and every option that changes what is computed."""

from __future__ import annotations

import inspect

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import bochner
from bochner import (
    ArcCosineFeatures,
    FourierFeatures,
    KernelClassifier,
    KernelRegressor,
    NystromFeatures,
    TensorSketchFeatures,
)
from bochner.features import LANDMARK_RULES, PROJECTION_NAMES
from bochner.kernels import STATIONARY_NAMES, Gaussian, Laplacian

PUBLIC = [thing for thing in vars(bochner).values() if inspect.isclass(thing) and issubclass(thing, BaseEstimator)]

VARIANTS = [
    *[FourierFeatures(kernel=name, n_components=32) for name in STATIONARY_NAMES if name != "gaussian"],
    *[FourierFeatures(projection=name, n_components=32) for name in PROJECTION_NAMES if name not in ("auto", "sparse")],
    FourierFeatures(form="cosine", n_components=31, bandwidth="mean"),
    FourierFeatures(kernel=Gaussian(bandwidth=2.0) + Laplacian(bandwidth=3.0), n_components=32),
    *[NystromFeatures(landmarks=rule, num_landmarks=5) for rule in LANDMARK_RULES],
    ArcCosineFeatures(n_components=32, order=0, depth=2),
    TensorSketchFeatures(n_components=32, degree=3, offset=0.0),
]

EXACT = {"num_features": 32, "bandwidth": 4.0, "ridge": 1e-3, "precision": "float64"}
MACHINES = [
    KernelClassifier(solver="ridge", **EXACT),
    KernelRegressor(solver="ridge", **EXACT),
    *[KernelClassifier(solver=solver, n_components=32) for solver in ("ridge", "landmarks", "newton")],
    *[KernelRegressor(solver=solver, n_components=32) for solver in ("ridge", "landmarks")],
    KernelClassifier(solver="saga", n_components=32, solver_params={"max_epochs": 5}),
    KernelRegressor(solver="saga", n_components=32, standardize=True, solver_params={"max_epochs": 5}),
]
SGD = {"solver": "sgd", "num_features": 32, "max_epochs": 10, "batch_size": 16, "random_state": 0}
STOCHASTIC = [
    KernelClassifier(**SGD),
    KernelClassifier(kernel="laplacian", **SGD, solver_params={"num_blocks": 2, "learning_rate": 1.0}),
    KernelClassifier(**SGD, solver_params={"rank": 1, "learning_rate": 2.0}),
    KernelRegressor(**SGD),
    KernelRegressor(
        standardize=True, **SGD, solver_params={"optimizer": "adam", "learning_rate": 0.05, "precision": "float64"}
    ),
]

REASONS = {
    "ridge": "which rows are held out to choose the ridge, and the median distance, depend on repetitions",
    "landmarks": "conjugate gradients stop at a tolerance of 1e-3, and landmarks are drawn from the rows",
    "newton": "Newton's steps stop at a tolerance of 1e-3, and landmarks are drawn from the rows",
    "saga": "batches in random order, up to a tolerance of 1e-4",
    "sgd": "batches in random order, as in SGDClassifier",
    "auto": "the ridge is chosen on rows held out at random",
}


def expected_failures(estimator: BaseEstimator) -> dict[str, str]:
    """Only the sum of losses over weighted and over repeated rows is the same: not the draws, nor the way to it."""
    if not isinstance(estimator, KernelClassifier | KernelRegressor) or estimator.get_params().items() >= EXACT.items():
        return {}
    kinds = ("dense", "sparse")
    return {f"check_sample_weight_equivalence_on_{kind}_data": REASONS[estimator.solver] for kind in kinds}


@parametrize_with_checks([cls() for cls in PUBLIC], expected_failed_checks=expected_failures)
def test_defaults(estimator, check) -> None:
    check(estimator)


@parametrize_with_checks(VARIANTS)
def test_variants(estimator, check) -> None:
    check(estimator)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(MACHINES, expected_failed_checks=expected_failures)
def test_machines(estimator, check) -> None:
    check(estimator)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(STOCHASTIC, expected_failed_checks=expected_failures)
def test_stochastic_machines(estimator, check) -> None:
    check(estimator)


def test_only_weights_as_repetitions_may_fail() -> None:
    assert not expected_failures(KernelClassifier(solver="ridge", **EXACT))
    assert set(expected_failures(KernelClassifier())) == {
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    }


def test_every_public_estimator_is_checked() -> None:
    assert {cls.__name__ for cls in PUBLIC} >= {
        "FourierFeatures",
        "NystromFeatures",
        "ArcCosineFeatures",
        "TensorSketchFeatures",
        "KernelClassifier",
        "KernelRegressor",
        "LowRankRidge",
        "LowRankPCA",
        "LowRankSpectralClustering",
    }
