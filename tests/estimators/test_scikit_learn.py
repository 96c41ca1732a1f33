"""scikit-learn's own checks, over every estimator and every option that changes what is computed."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import bochner
from bochner import (
    ArcCosineFeatures,
    FourierFeatures,
    KernelClassifier,
    KernelRegressor,
    NetworkClassifier,
    NetworkRegressor,
    NystromFeatures,
    TensorSketchFeatures,
)
from bochner.estimators import network
from bochner.estimators.base import BaseModel
from bochner.features import LANDMARK_RULES, PROJECTION_NAMES
from bochner.kernels import STATIONARY_NAMES, Gaussian, Laplacian
from tests.estimators.cases import NETWORK, options

PUBLIC = [
    thing
    for thing in (getattr(bochner, name) for name in bochner.__all__)
    if inspect.isclass(thing) and issubclass(thing, BaseEstimator)
]

VARIANTS = [
    *[FourierFeatures(kernel=name, n_components=32) for name in STATIONARY_NAMES if name != "gaussian"],
    *[FourierFeatures(projection=name, n_components=32) for name in PROJECTION_NAMES if name not in ("auto", "sparse")],
    FourierFeatures(form="cosine", n_components=31, bandwidth="mean"),
    FourierFeatures(kernel=Gaussian(bandwidth=2.0) + Laplacian(bandwidth=3.0), n_components=32),
    *[NystromFeatures(landmarks=rule, num_landmarks=5) for rule in LANDMARK_RULES],
    ArcCosineFeatures(n_components=32, order=0, depth=2),
    TensorSketchFeatures(n_components=32, degree=3, offset=0.0),
]

EXACT = options(preset=None, n_components=32, bandwidth=4.0, alpha=1e-3, precision="float64")
SOLVERS = [
    KernelClassifier(solver="ridge", **EXACT),
    KernelRegressor(solver="ridge", **EXACT),
    *[
        KernelClassifier(preset=None, solver=solver, n_components=32)
        for solver in ("ridge", "landmarks", "newton", "askotch")
    ],
    *[KernelRegressor(preset=None, solver=solver, n_components=32) for solver in ("ridge", "landmarks", "askotch")],
    KernelClassifier(preset=None, solver="saga", n_components=32, solver_params={"max_epochs": 5}),
    KernelRegressor(preset=None, solver="saga", n_components=32, standardize=True, solver_params={"max_epochs": 5}),
]
SGD = options(preset=None, solver="sgd", n_components=32, max_epochs=10, batch_size=16, random_state=0)
STOCHASTIC = [
    KernelClassifier(**SGD),
    KernelRegressor(**options(SGD, solver="eigenpro")),
    KernelClassifier(kernel="laplacian", **options(SGD, num_blocks=2, learning_rate=1.0)),
    KernelClassifier(**options(SGD, rank=1, learning_rate=2.0)),
    KernelRegressor(**SGD),
    KernelClassifier(**options(SGD, solver="eigenpro")),
    KernelRegressor(standardize=True, **options(SGD, optimizer="adam", learning_rate=0.05, precision="float64")),
    KernelClassifier(kernel="arc-cosine1", **SGD),
    KernelClassifier(selection=1, **SGD),
    KernelClassifier(selection={"method": "fobos", "rounds": 1}, **SGD),
    *[KernelClassifier(adapt=method, **SGD) for method in ("agop", "uab", "dab")],
    KernelClassifier(bandwidth="search", **options(SGD, max_epochs=3)),
    NetworkClassifier(**options(NETWORK, activation="tanh", rank=1, max_epochs=10, learning_rate=0.03)),
    NetworkRegressor(**options(NETWORK, standardize=False, alpha=1e-4, max_epochs=10, learning_rate=0.03)),
]
# What these look at, the class and the form in which data come, does not depend on any option: they are made for the
# defaults of every class only.
CHECKS_OF_CLASSES = {
    "check_array_api_input",
    "check_classifier_data_not_an_array",
    "check_complex_data",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_dtype_object",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag",
    "check_estimator_tags_renamed",
    "check_estimators_dtypes",
    "check_estimators_empty_data_messages",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_estimators_unfitted",
    "check_f_contiguous_array_estimator",
    "check_fit1d",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_score_takes_y",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_regressor_data_not_an_array",
    "check_requires_y_none",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_set_params",
    "check_supervised_y_2d",
    "check_supervised_y_no_nan",
    "check_transformer_data_not_an_array",
    "check_transformers_unfitted",
    "check_valid_tag_types",
}

REASONS = {
    "ridge": "which rows are held out to choose the penalty, and the median distance, depend on repetitions",
    "landmarks": "conjugate gradients stop at a tolerance of 1e-3, and landmarks are drawn from the rows",
    "newton": "Newton's steps stop at a tolerance of 1e-3, and landmarks are drawn from the rows",
    "askotch": "which rows are held out to choose the penalty, and the median distance, depend on repetitions",
    "eigenpro": "batches in random order, and landmarks are drawn from the rows",
    "saga": "batches in random order, up to a tolerance of 1e-4",
    "sgd": "batches in random order, as in SGDClassifier",
    "auto": "the penalty is chosen on rows held out at random",
}

SMALLEST = [
    "check_dont_overwrite_parameters",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
]


def expected_failures(estimator: BaseEstimator) -> dict[str, str]:
    """Only the sum of losses is the same for weighted and for repeated rows, not the random draws or the iterates."""
    if not isinstance(estimator, BaseModel) or estimator.get_params() | EXACT == estimator.get_params():
        return {}
    reason = REASONS[getattr(estimator, "solver", "sgd")]
    failures = {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}
    if (estimator.solver_params or {}).get("num_blocks", 1) > 1:
        failures |= dict.fromkeys(SMALLEST, "these checks set n_components=1, which is fewer than the blocks")
    return failures


@pytest.fixture
def short_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "NETWORK_PARAMS", replace(network.NETWORK_PARAMS, max_epochs=8))


@pytest.mark.usefixtures("short_training")
@parametrize_with_checks(
    [cls(hidden=(32, 32)) if "hidden" in vars(cls()) else cls() for cls in PUBLIC],
    expected_failed_checks=expected_failures,
)
def test_defaults(estimator, check) -> None:
    check(estimator)


def checks_of_options(estimators: list[BaseEstimator]) -> pytest.MarkDecorator:
    """All but CHECKS_OF_CLASSES, expected failures, and repetitions with read-only copies of the same data."""
    checks = parametrize_with_checks(estimators, expected_failed_checks=expected_failures)
    names, cases = checks.args
    kept = [
        case
        for case in cases
        if not hasattr(case, "marks")  # an expected failure
        and case[1].func.__name__ not in CHECKS_OF_CLASSES
        and not case[1].keywords.get("readonly_memmap")
    ]
    return pytest.mark.parametrize(names, kept, **checks.kwargs)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@checks_of_options([*VARIANTS, *SOLVERS, *STOCHASTIC])
def test_options(estimator, check) -> None:
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
        "NetworkClassifier",
        "NetworkRegressor",
        "LowRankRidge",
        "LowRankPCA",
        "LowRankSpectralClustering",
    }
