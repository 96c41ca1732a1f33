"""What a classifier or regressor refuses: the error names the argument, its value and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import InvalidParameterError

from bochner import KernelClassifier, KernelRegressor
from bochner.data import ArraySource
from bochner.kernels import Gaussian, Polynomial
from tests.estimators.cases import QUICK, rings, waves

X, y = rings(120)
MACHINES = [KernelClassifier(**QUICK), KernelRegressor(**QUICK)]
SGD: dict[str, Any] = {**QUICK, "solver": "sgd"}


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        ("kernel", ["gausian", 3, None]),
        ("bandwidth", [0, -1.0, "typical", np.nan]),
        ("num_features", [0, 2.5, "many", None, -4]),
        ("projection", ["dense"]),
        ("standardize", ["yes"]),
        ("solver", ["lbfgs", None]),
        ("ridge", [-1.0, "auto", np.nan]),
        ("rank", [0, 1.5]),
        ("num_blocks", [0, None]),
        ("optimizer", ["lbfgs"]),
        ("learning_rate", [0.0, -1.0, "fast", np.nan, None]),
        ("batch_size", [0, 12.5]),
        ("preconditioner_rank", [-1, "many", 1.5]),
        ("metric", [3]),
        ("max_epochs", [0]),
        ("max_halvings", [0]),
        ("heldout_fraction", [0.0, 1.0, -0.1, "some"]),
        ("precision", ["float16", 32]),
        ("memory_budget", [0, -5, 1.5]),
        ("folder", [3]),
        ("device", [3]),
        ("progress", ["yes"]),
        ("random_state", ["today"]),
    ],
)
@pytest.mark.parametrize("machine", MACHINES, ids=["classifier", "regressor"])
def test_parameters(machine, parameter: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidParameterError, match=f"The '{parameter}' parameter of Kernel"):
            type(machine)(**{**QUICK, parameter: value}).fit(X, y)


def test_class_weight_is_a_parameter_of_classes_only() -> None:
    with pytest.raises(InvalidParameterError, match="The 'class_weight' parameter of KernelClassifier"):
        KernelClassifier(class_weight=[1, 2, 3]).fit(X, y)
    with pytest.raises(TypeError, match="class_weight"):
        KernelRegressor(class_weight="balanced")


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (KernelRegressor(solver="newton"), "solver must not be 'newton' for regression.*use 'landmarks'"),
        (KernelClassifier(**{**SGD, "rank": 4}), r"rank must be at most .*, 3, got 4"),
        (KernelClassifier(**{**SGD, "num_blocks": 3}), "num_features must be a multiple of num_blocks, 3, got 64"),
        (KernelClassifier(solver="ridge", solver_params={"rank": 2}), "rank=2 needs solver='sgd', got 'ridge'"),
        (
            KernelClassifier(solver="newton", solver_params={"num_blocks": 2}),
            "num_blocks=2 needs solver='sgd', got 'newton'",
        ),
        (
            KernelClassifier(solver="saga", solver_params={"checkpoint_dir": "x"}),
            "folder='x' needs solver='sgd', got 'saga'",
        ),
        (KernelClassifier(**SGD, solver_params={"criterion": "hinge"}), "metric must be one of .*'ce'.*got 'hinge'"),
        (KernelClassifier(**SGD, solver_params={"criterion": "mse"}), "criterion='mse' does not fit loss='softmax'"),
        (KernelRegressor(**SGD, solver_params={"criterion": "ce"}), "criterion='ce' does not fit loss='squared'"),
        (
            KernelClassifier(**SGD, solver_params={"optimizer": "adam", "preconditioner_rank": 5}),
            "preconditioner_rank must be 0 with optimizer='adam', got 5",
        ),
        (
            KernelClassifier(solver_params={"memory_budget": "plenty"}),
            "memory_budget must be bytes or text such as '500MB'.*got 'plenty'",
        ),
        (
            KernelClassifier(solver_params={"device": "gpu7"}),
            "device must be 'auto' or a device torch can use here, got 'gpu7'",
        ),
        (KernelClassifier(bandwidth=np.inf), "'bandwidth' parameter .* Got inf"),
        (KernelClassifier(kernel=Polynomial(), bandwidth=2.0), "bandwidth=2.0 was given, but Polynomial"),
        (KernelClassifier(kernel=Polynomial(), standardize=True), "standardize=True needs a stationary kernel"),
        (KernelClassifier(kernel=Gaussian(scale=2.0), standardize=True), "standardize=True needs a stationary kernel"),
        (KernelClassifier(class_weight={7: 2.0}), r"class_weight must name classes of \[0, 1, 2\], got 7"),
        (KernelClassifier(class_weight={0: -1.0}), r"class_weight\[0\] must be a non-negative finite number, got -1.0"),
        (KernelClassifier(class_weight={0: 0, 1: 0, 2: 0}), "class_weight must be positive for some class"),
        (KernelClassifier(class_weight={0: 0, 1: 0}), "at least two classes"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_parameters_that_do_not_go_together(machine, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        machine.fit(X, y)


def test_rank_of_two_classes() -> None:
    with pytest.raises(ValueError, match=r"rank must be at most .*, 1, got 2"):
        KernelClassifier(**SGD, solver_params={"rank": 2}).fit(X, y > 0)


# -- data --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["sgd", "ridge", "landmarks", "newton", "saga"])
def test_one_class_only(solver: str) -> None:
    machine = KernelClassifier(**{**QUICK, "solver": solver})
    with pytest.raises(ValueError, match=r"at least two classes, got one class only: \['a'\]"):
        machine.fit(X, np.full(120, "a"))
    with pytest.raises(ValueError, match=r"the training rows must hold at least two classes, got \[5\] only"):
        machine.fit(ArraySource(X, np.full(120, 5)))
    with pytest.raises(ValueError, match="at least two classes"):
        machine.fit(X, y, sample_weight=(y == 1).astype(float))
    with pytest.raises(NotFittedError):
        machine.predict(X)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("convert", [np.asarray, torch.as_tensor])
def test_values_that_are_not_finite(value: float, convert) -> None:
    broken = X.copy()
    broken[5, 1] = value
    for machine in MACHINES:
        with pytest.raises(ValueError, match=r"NaN|inf"):
            type(machine)(**QUICK).fit(convert(broken), y)
        with pytest.raises(ValueError, match=r"NaN|inf"):
            type(machine)(**{**QUICK, "solver": "ridge"}).fit(X, y).predict(convert(broken))
    targets = y.astype(float)
    targets[3] = value
    for machine in MACHINES:
        with pytest.raises(ValueError, match=r"NaN|inf"):
            type(machine)(**QUICK).fit(convert(X), convert(targets))
    with pytest.raises(ValueError, match=r"NaN|inf|finite"):
        KernelRegressor(**QUICK).fit(ArraySource(broken, y.astype(float)))


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_inputs_beyond_float32() -> None:
    with pytest.raises(ValueError, match="finite"):
        KernelClassifier(**QUICK).fit(X * 1e300, y)
    assert KernelClassifier(**QUICK, solver_params={"precision": "float64"}).fit(X * 1e100, y).score(X * 1e100, y) > 0.8


@pytest.mark.parametrize("machine", MACHINES, ids=["classifier", "regressor"])
def test_shapes(machine) -> None:
    fresh = type(machine)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fresh(**QUICK).fit(X, y[:100])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fresh(**QUICK).fit(torch.as_tensor(X), torch.as_tensor(y[:100]))
    fitted = fresh(**{**QUICK, "solver": "ridge"}).fit(X, y)
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


@pytest.mark.parametrize("machine", MACHINES, ids=["classifier", "regressor"])
def test_weights(machine) -> None:
    for weight, message in [
        (np.full(120, -1.0), "[Nn]egative"),
        (np.zeros(120), "zero"),
        (np.ones(7), "shape"),
        (np.full(120, np.nan), "NaN"),
        (np.ones((120, 2)), "1D"),
    ]:
        with pytest.raises(ValueError, match=message):
            type(machine)(**QUICK).fit(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match="must be None with a source"):
        type(machine)(**QUICK).fit(ArraySource(X, y), sample_weight=np.ones(120))
    with pytest.raises(ValueError, match="must be None with a source"):
        type(machine)(**QUICK).fit(ArraySource(X, y), y)


def test_heldout_rows() -> None:
    machine = KernelClassifier(**SGD)
    with pytest.raises(ValueError, match=r"heldout does not fit .* y must hold the classes \[0, 1\] only, got 2"):
        machine.fit(X[y < 2], y[y < 2], heldout=(X, y))
    with pytest.raises(ValueError, match=r"validation data must hold classes.*\[2\]"):
        machine.fit(ArraySource(X[y < 2], y[y < 2]), heldout=ArraySource(X, y))
    with pytest.raises(ValueError, match="known classes only"):
        machine.fit(X[y < 2], y[y < 2], heldout=ArraySource(X, y))
    with pytest.raises(ValueError, match=r"heldout does not fit .* X has 1 features"):
        machine.fit(X, y, heldout=(X[:, :1], y))
    with pytest.raises(ValueError, match="heldout must be a pair"):
        machine.fit(X, y, heldout=X)
    with pytest.raises(ValueError, match="heldout must have 2 inputs like the training rows, got 1"):
        machine.fit(X, y, heldout=ArraySource(X[:, :1], y))
    fewer = machine.fit(X, y, heldout=(X[y < 2], y[y < 2]))
    assert len(fewer.classes_) == 3


# -- rates and folders -------------------------------------------------------------------------------------------------


def test_a_rate_that_is_too_large_is_cut() -> None:
    rows, targets = waves(200)
    machine = KernelRegressor(
        **{**SGD, "max_epochs": 40}, solver_params={"preconditioner_rank": 0, "learning_rate": 1e4, "max_halvings": 20}
    )
    machine.fit(rows, targets)
    assert machine.history_[0]["decision"] == "revert and halve"
    assert machine.score(rows, targets) > 0.3


@pytest.mark.parametrize("machine", [KernelClassifier, KernelRegressor])
def test_an_absurd_rate_is_an_error(machine) -> None:
    with pytest.raises(FloatingPointError, match=r"the learning rate was cut 3 times.*smaller learning_rate"):
        machine(**SGD, learning_rate=1e38).fit(X, y)


def test_the_folder_of_another_run(tmp_path: Path) -> None:
    settings = {**SGD, "learning_rate": 2.0, "folder": tmp_path}
    fitted = KernelClassifier(**settings).fit(X, y)
    again = KernelClassifier(**settings).fit(X, y)
    np.testing.assert_array_equal(again.decision_function(X), fitted.decision_function(X))
    assert again.history_ == fitted.history_
    for change in (
        {"learning_rate": 4.0},
        {"num_features": 32},
        {"random_state": 1},
        {"bandwidth": 0.1},
        {"ridge": 1.0},
    ):
        with pytest.raises(ValueError, match=r"belongs to another configuration.*use another folder or delete it"):
            KernelClassifier(**{**settings, **change}).fit(X, y)
    with pytest.raises(ValueError, match=r"belongs to another configuration.*rows"):
        KernelClassifier(**settings).fit(X[:100], y[:100])


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ValueError, match=r"folder must be one that can be written to, got .*file"):
            KernelClassifier(**SGD, solver_params={"checkpoint_dir": place}).fit(X, y)


def test_a_broken_checkpoint(tmp_path: Path) -> None:
    settings = {**SGD, "folder": tmp_path}
    KernelClassifier(**settings).fit(X, y)
    file = tmp_path / "checkpoint.safetensors"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        KernelClassifier(**settings).fit(X, y)
