"""Arguments and data that classifiers and regressors reject: the error names the argument, its value and the remedy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import InvalidParameterError

from bochner import KernelClassifier, KernelRegressor, NetworkClassifier, NetworkRegressor
from bochner.data import ArraySource
from bochner.kernels import Gaussian, Polynomial
from tests.estimators.cases import NETWORK, QUICK, options, rings, waves

X, y = rings(120)
ESTIMATORS = [KernelClassifier(**QUICK), KernelRegressor(**QUICK)]
SGD: dict[str, Any] = options(QUICK, solver="sgd")


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        ("kernel", ["gausian", 3, None]),
        ("bandwidth", [0, -1.0, "typical", np.nan]),
        ("gamma", [0, -1.0, "scale", np.nan]),
        ("n_components", [0, 2.5, "many", None, -4]),
        ("standardize", ["yes"]),
        ("adapt", [3, True]),
        ("selection", ["rounds", 2.5]),
        ("solver", ["lbfgs", None]),
        ("alpha", [-1.0, "auto", np.nan]),
        ("solver_params", ["fast", 3, [("rank", 2)]]),
        ("validation_fraction", [0.0, 1.0, -0.1, "some"]),
        ("verbose", ["yes"]),
        ("random_state", ["today"]),
    ],
)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=["classifier", "regressor"])
def test_parameters(estimator, parameter: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidParameterError, match=f"The '{parameter}' parameter of Kernel"):
            type(estimator)(**{**QUICK, parameter: value}).fit(X, y)


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("device", [3, "gpu7"]),
        ("precision", ["float16", 32]),
        ("memory_budget", [0, -5, 1.5, "plenty"]),
        ("projection", ["dense"]),
        ("max_epochs", [0, 2.5]),
        ("rank", [0, 1.5]),
        ("num_blocks", [0, None]),
        ("optimizer", ["lbfgs"]),
        ("learning_rate", [0.0, -1.0, "fast", np.nan, None]),
        ("batch_size", [0, 12.5]),
        ("preconditioner_rank", [-1, "many", 1.5]),
        ("preconditioner_rows", [0, "all"]),
        ("average", ["yes"]),
        ("criterion", [3, "hinge"]),
        ("improvement", [-0.1, np.nan]),
        ("max_halvings", [0]),
        ("checkpoint_dir", [3]),
        ("tracking", [3, "wandb", "tensorboard:"]),
    ],
)
@pytest.mark.parametrize("cls", [KernelClassifier, KernelRegressor, NetworkClassifier, NetworkRegressor])
def test_solver_options(cls, option: str, values: list[Any]) -> None:
    """Whatever the solver: also where it does not use the option."""
    for value in values:
        with pytest.raises(ValueError, match=rf"{option}\b.* {re.escape(repr(value))}"):
            cls(solver_params={option: value}).fit(X, y)


@pytest.mark.parametrize(
    ("option", "suggestion"),
    [("batchsize", "batch_size"), ("learning_rat", "learning_rate"), ("chekpoint_dir", "checkpoint_dir")],
)
def test_a_misspelt_option_gets_a_suggestion(option: str, suggestion: str) -> None:
    for estimator in (KernelClassifier(solver_params={option: 1}), NetworkRegressor(solver_params={option: 1})):
        with pytest.raises(ValueError, match=f"solver_params .*{option!r}.*{suggestion!r}"):
            estimator.fit(X, y)


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        ("hidden", [(), (0,), (4, -1), (2.5,), 16, ("wide",)]),
        ("activation", ["sigmoid", None]),
        ("pretrain", ["yes"]),
        ("standardize", ["yes"]),
        ("alpha", [-1.0, "auto"]),
    ],
)
@pytest.mark.parametrize("cls", [NetworkClassifier, NetworkRegressor])
def test_parameters_of_networks(cls, parameter: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(ValueError, match=parameter):
            cls(**{**NETWORK, parameter: value}).fit(X, y)


def test_class_weight_is_a_parameter_of_classes_only() -> None:
    with pytest.raises(InvalidParameterError, match="The 'class_weight' parameter of KernelClassifier"):
        KernelClassifier(class_weight=[1, 2, 3]).fit(X, y)
    with pytest.raises(TypeError, match="class_weight"):
        KernelRegressor(class_weight="balanced")


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (KernelRegressor(solver="newton"), "solver .*'newton'.*'landmarks'"),
        (KernelClassifier(**options(SGD, rank=4)), r"rank .* 3, got 4"),
        (KernelClassifier(**options(SGD, num_blocks=3)), "multiple of num_blocks, 3, got 64"),
        (KernelClassifier(solver="ridge", solver_params={"rank": 2}), "rank=2 .*solver='sgd', got 'ridge'"),
        (KernelClassifier(solver="newton", solver_params={"num_blocks": 2}), "num_blocks=2 .*'sgd', got 'newton'"),
        (
            KernelClassifier(solver="saga", solver_params={"checkpoint_dir": "x"}),
            "checkpoint_dir='x' .*'sgd', got 'saga'",
        ),
        (
            KernelClassifier(solver="exact", solver_params={"checkpoint_dir": "x"}),
            "checkpoint_dir must be None with solver='exact', got 'x'",
        ),
        (KernelClassifier(solver="ridge", selection=3), "selection=.*'sgd', got 'ridge'"),
        (KernelClassifier(adapt="uab", solver="newton"), "adapt='uab' .*'sgd', got 'newton'"),
        (KernelClassifier(adapt="uab", selection=2), "selection .*adapt='uab'"),
        (KernelClassifier(adapt="metric"), "adapt .*'agop'.*got 'metric'"),
        (KernelClassifier(adapt={"method": "agop", "round": 2}), "adapt .*'round'.*'rounds'"),
        (KernelClassifier(adapt={"method": "agop", "rounds": 0}), "rounds .*got 0"),
        (KernelClassifier(selection=0), "rounds .*got 0"),
        (KernelClassifier(selection={"method": "lasso"}), "selection method .*got 'lasso'"),
        (KernelRegressor(adapt="sab", solver="sgd"), "adapt='sab' .*'uab' or 'dab'"),
        (KernelClassifier(adapt="agop", kernel=Gaussian() + Gaussian()), "adapt='agop' needs a kernel with a metric"),
        (KernelClassifier(**options(SGD, criterion="mse")), "criterion='mse' .*loss='softmax'"),
        (KernelRegressor(**options(SGD, criterion="ce")), "criterion='ce' .*loss='squared'"),
        (
            KernelClassifier(**options(SGD, optimizer="adam", preconditioner_rank=5)),
            "preconditioner_rank must be 0 with optimizer='adam', got 5",
        ),
        (KernelClassifier(bandwidth=np.inf), "'bandwidth' parameter .* Got inf"),
        (KernelClassifier(bandwidth=1.0, gamma=0.5), "bandwidth=1.0 and gamma=0.5"),
        (KernelClassifier(kernel="cauchy", gamma=0.5), "gamma=0.5 .*Cauchy"),
        (KernelClassifier(kernel=Polynomial(), bandwidth=2.0), "bandwidth=2.0 was given, but Polynomial"),
        (
            KernelClassifier(kernel="polynomial", bandwidth="search"),
            "bandwidth='search'.*Polynomial.* has no",
        ),
        (
            KernelClassifier(kernel=Polynomial(), bandwidth="search"),
            "bandwidth='search'.*Polynomial.* has no",
        ),
        (KernelClassifier(kernel=Polynomial(), standardize=True), "standardize=True needs a stationary kernel"),
        (KernelClassifier(kernel=Gaussian(scale=2.0), standardize=True), "standardize=True needs a stationary kernel"),
        (KernelClassifier(class_weight={7: 2.0}), r"class_weight must name classes of \[0, 1, 2\], got 7"),
        (KernelClassifier(class_weight={0: -1.0}), r"class_weight\[0\] must be a non-negative finite number, got -1.0"),
        (KernelClassifier(class_weight={0: 0, 1: 0, 2: 0}), "class_weight must be positive for some class"),
        (KernelClassifier(class_weight={0: 0, 1: 0}), "at least two classes"),
        (NetworkClassifier(solver_params={"num_blocks": 2}), "num_blocks must be 1 for a network, got 2"),
        (NetworkClassifier(**options(NETWORK, rank=17)), r"rank .*got 17"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_parameters_that_do_not_go_together(
    estimator, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, y)
    assert not list(tmp_path.iterdir())  # an error leaves nothing behind


def test_rank_of_two_classes() -> None:
    with pytest.raises(ValueError, match=r"rank must be at most .*, 1, got 2"):
        KernelClassifier(**options(SGD, rank=2)).fit(X, y > 0)


# -- data --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["sgd", "ridge", "landmarks", "newton", "saga", "askotch", "eigenpro"])
def test_one_class_only(solver: str) -> None:
    estimator = KernelClassifier(**options(QUICK, solver=solver))
    with pytest.raises(ValueError, match=r"at least two classes, got one class only: \['a'\]"):
        estimator.fit(X, np.full(120, "a"))
    with pytest.raises(ValueError, match=r"the training rows must hold at least two classes, got \[5\] only"):
        estimator.fit(ArraySource(X, np.full(120, 5)))
    with pytest.raises(ValueError, match="at least two classes"):
        estimator.fit(X, y, sample_weight=(y == 1).astype(float))
    with pytest.raises(NotFittedError):
        estimator.predict(X)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("convert", [np.asarray, torch.as_tensor])
def test_values_that_are_not_finite(value: float, convert) -> None:
    broken = X.copy()
    broken[5, 1] = value
    for estimator in ESTIMATORS:
        with pytest.raises(ValueError, match=r"NaN|inf"):
            type(estimator)(**QUICK).fit(convert(broken), y)
        with pytest.raises(ValueError, match=r"NaN|inf"):
            type(estimator)(solver="ridge", **QUICK).fit(X, y).predict(convert(broken))
    targets = y.astype(float)
    targets[3] = value
    for estimator in ESTIMATORS:
        with pytest.raises(ValueError, match=r"NaN|inf"):
            type(estimator)(**QUICK).fit(convert(X), convert(targets))
    with pytest.raises(ValueError, match=r"NaN|inf|finite"):
        KernelRegressor(**QUICK).fit(ArraySource(broken, y.astype(float)))


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_inputs_beyond_float32() -> None:
    for scale in (1e300, 1e-300):
        with pytest.raises(ValueError, match=r"column 0 of X .*, got 3\.11e[+-](300)"):
            KernelClassifier(**QUICK).fit(X * scale, y)
    model = KernelClassifier(**options(QUICK, precision="float64")).fit(X * 1e100, y)
    assert model.score(X * 1e100, y) > 0.8


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=["classifier", "regressor"])
def test_shapes(estimator) -> None:
    fresh = type(estimator)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fresh(**QUICK).fit(X, y[:100])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fresh(**QUICK).fit(torch.as_tensor(X), torch.as_tensor(y[:100]))
    fitted = fresh(solver="ridge", **QUICK).fit(X, y)
    with pytest.raises(ValueError, match="X has 1 features"):
        fitted.predict(X[:, :1])
    with pytest.raises(ValueError, match="X must have 2 columns, got 1"):
        fitted.predict(torch.as_tensor(X[:, :1]))
    with pytest.raises(ValueError, match="must have 2 columns, got 1"):
        fitted.predict(ArraySource(X[:, :1]))
    with pytest.raises(ValueError, match="at least one row"):
        fitted.predict(torch.empty(0, 2))
    with pytest.raises(ValueError, match=r"y cannot be None|requires y"):
        fresh(**QUICK).fit(X)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=["classifier", "regressor"])
def test_weights(estimator) -> None:
    for weight, message in [
        (np.full(120, -1.0), "[Nn]egative"),
        (np.zeros(120), "zero"),
        (np.ones(7), "shape"),
        (np.full(120, np.nan), "NaN"),
        (np.ones((120, 2)), "1D"),
    ]:
        with pytest.raises(ValueError, match=message):
            type(estimator)(**QUICK).fit(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match="must be None with a source"):
        type(estimator)(**QUICK).fit(ArraySource(X, y), sample_weight=np.ones(120))
    with pytest.raises(ValueError, match="must be None with a source"):
        type(estimator)(**QUICK).fit(ArraySource(X, y), y)


def test_validation_data() -> None:
    estimator = KernelClassifier(**SGD)
    with pytest.raises(ValueError, match=r"validation_data .* y must hold the classes \[0, 1\] only, got 2"):
        estimator.fit(X[y < 2], y[y < 2], validation_data=(X, y))
    with pytest.raises(ValueError, match=r"validation data must hold classes.*\[2\]"):
        estimator.fit(ArraySource(X[y < 2], y[y < 2]), validation_data=ArraySource(X, y))
    with pytest.raises(ValueError, match="known classes only"):
        estimator.fit(X[y < 2], y[y < 2], validation_data=ArraySource(X, y))
    with pytest.raises(ValueError, match=r"validation_data .* X has 1 features"):
        estimator.fit(X, y, validation_data=(X[:, :1], y))
    with pytest.raises(ValueError, match="validation_data must be a pair"):
        estimator.fit(X, y, validation_data=X)
    with pytest.raises(ValueError, match="must have 2 inputs like the training rows, got 1"):
        estimator.fit(X, y, validation_data=ArraySource(X[:, :1], y))
    fewer = estimator.fit(X, y, validation_data=(X[y < 2], y[y < 2]))
    assert len(fewer.classes_) == 3


# -- learning rates and checkpoints ------------------------------------------------------------------------------------


def test_a_rate_that_is_too_large_is_cut() -> None:
    rows, targets = waves(200)
    estimator = KernelRegressor(
        **options(SGD, max_epochs=40, preconditioner_rank=0, learning_rate=1e4, max_halvings=20)
    )
    estimator.fit(rows, targets)
    assert "revert" in estimator.history_[0]["decision"]
    assert estimator.score(rows, targets) > 0.3


@pytest.mark.parametrize("cls", [KernelClassifier, KernelRegressor])
def test_an_absurd_rate_is_an_error(cls) -> None:
    with pytest.raises(FloatingPointError, match=r"learning rate .* 3 times.*smaller learning_rate"):
        cls(**options(SGD, learning_rate=1e38)).fit(X, y)


def test_the_directory_of_another_run(tmp_path: Path) -> None:
    settings = options(SGD, learning_rate=2.0, checkpoint_dir=tmp_path)
    fitted = KernelClassifier(**settings).fit(X, y)
    again = KernelClassifier(**settings).fit(X, y)
    np.testing.assert_array_equal(again.decision_function(X), fitted.decision_function(X))
    assert again.history_ == fitted.history_
    for change in (
        {"learning_rate": 4.0},
        {"n_components": 32},
        {"random_state": 1},
        {"bandwidth": 0.1},
        {"alpha": 1.0},
    ):
        with pytest.raises(ValueError, match=r"(another configuration|other data).*delete"):
            KernelClassifier(**options(settings, **change)).fit(X, y)
    with pytest.raises(ValueError, match=r"other data.*training y"):
        KernelClassifier(**settings).fit(X[:100], y[:100])


def test_a_directory_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ValueError, match=r"checkpoint_dir .*file"):
            KernelClassifier(**options(SGD, checkpoint_dir=place)).fit(X, y)


def test_a_broken_checkpoint(tmp_path: Path) -> None:
    settings = options(SGD, checkpoint_dir=tmp_path)
    KernelClassifier(**settings).fit(X, y)
    file = tmp_path / "checkpoint.safetensors"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        KernelClassifier(**settings).fit(X, y)
