"""Fitted machines in files: written, read, and files that are not what they should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import bochner
from bochner import KernelClassifier, KernelRegressor
from bochner.kernels import Gaussian, Laplacian, Polynomial
from tests.estimators.cases import CLASSIFIERS, QUICK, REGRESSORS, rings, waves

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def through_a_file(fitted, folder: Path):
    bochner.save(fitted, folder / "model.bochner")
    return bochner.load(folder / "model.bochner")


@pytest.mark.parametrize(
    ("estimator", "data"),
    [*((estimator, rings) for estimator in CLASSIFIERS.values()), *((estimator, waves) for estimator in REGRESSORS.values())],
    ids=[*CLASSIFIERS, *REGRESSORS],
)
def test_every_solver_comes_back_bit_equal(estimator, data, tmp_path: Path) -> None:
    X, y = data()
    fitted = clone(estimator).fit(X, y)
    loaded = through_a_file(fitted, tmp_path)
    assert type(loaded) is type(fitted)
    assert loaded.get_params() == {**fitted.get_params(), "device": "auto"}
    assert (loaded.solver_, loaded.n_features_in_) == (fitted.solver_, X.shape[1])
    assert repr(loaded.kernel_) == repr(fitted.kernel_)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    if isinstance(estimator, KernelClassifier):
        np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize(
    "labels",
    [np.array(["a", "bé", "c"]), np.array(["x", "y", "z"], object), np.array([7, -1, 3]), np.array([2.0, 1.0, -5.0])],
    ids=["text", "objects", "integers", "floats"],
)
def test_classes_come_back(labels: np.ndarray, tmp_path: Path) -> None:
    X, y = rings()
    fitted = KernelClassifier(solver="ridge", **QUICK).fit(X, labels[y])
    loaded = through_a_file(fitted, tmp_path)
    np.testing.assert_array_equal(loaded.classes_, fitted.classes_)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    assert loaded.score(X, labels[y]) > 0.8


def test_bools_names_kernels_and_weights_come_back(tmp_path: Path) -> None:
    X, y = rings()
    frame = pd.DataFrame(X, columns=["east", "north"])
    weight = {True: 2.0, False: np.float32(0.5)}
    estimator = KernelClassifier(kernel=Laplacian(bandwidth=2.0), class_weight=weight, solver="ridge", **QUICK)
    fitted = estimator.fit(frame, y > 0)
    loaded = through_a_file(fitted, tmp_path)
    assert loaded.classes_.dtype == bool
    assert loaded.class_weight == {True: 2.0, False: 0.5}
    assert repr(loaded.kernel) == "Laplacian(bandwidth=2.0)"
    assert loaded.feature_names_in_.tolist() == ["east", "north"]
    np.testing.assert_array_equal(loaded.predict(frame), fitted.predict(frame))
    again = clone(loaded).fit(frame, y > 0)
    np.testing.assert_array_equal(again.predict_proba(frame), fitted.predict_proba(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["north", "east"]])


@pytest.mark.parametrize("kernel", [Gaussian(scale=torch.tensor([1.0, 2.0])), Polynomial(), Gaussian() + Laplacian()])
@pytest.mark.parametrize("solver", ["sgd", "landmarks"])
def test_kernels_given_as_objects(kernel, solver: str, tmp_path: Path) -> None:
    X, y = rings()
    fitted = KernelRegressor(kernel=kernel, solver=solver, **QUICK).fit(X, np.stack([y, -y], axis=1))
    loaded = through_a_file(fitted, tmp_path)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    assert loaded.predict(X).shape == (200, 2)


def test_what_only_this_process_knows_is_left_out(tmp_path: Path) -> None:
    X, y = rings()
    estimator = KernelClassifier(**{**QUICK, "random_state": np.random.RandomState(0), "folder": tmp_path / "run"})
    loaded = through_a_file(estimator.fit(X, y), tmp_path)
    assert (loaded.random_state, loaded.folder, loaded.device) == (None, None, "auto")


def test_an_unfitted_machine_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        bochner.save(KernelClassifier(), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


# -- files that are not what they should be ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X, y = rings()
    path = tmp_path_factory.mktemp("stored") / "model"
    bochner.save(KernelClassifier(solver="ridge", **QUICK).fit(X, y), path)
    return path


def rewritten(path: Path, to: Path, change) -> Path:
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = json.loads(file.metadata()["bochner"])
    change(header["tree"]["arguments"], tensors)
    save_file(tensors, to, {"bochner": json.dumps(header)})
    return to


def put(name: str, value: Any):
    return lambda arguments, tensors: arguments.update({name: value})


def set_parameter(name: str, value: Any):
    def change(arguments: dict[str, Any], tensors: Any) -> None:
        arguments["settings"] = [[key, value if key == name else old] for key, old in arguments["settings"]]

    return change


@pytest.mark.parametrize(
    "change",
    [
        put("kind", "GridSearchCV"),
        put("solver", "magic"),
        put("num_inputs", 3),
        put("num_inputs", -1),
        put("classes", ["a", "b"]),
        put("settings", [["num_features"]]),
        put("settings", 7),
        put("settings", [["__class__", "os.system"]]),
        put("model", "model"),
        put("kernel", None),
        put("column_names", 3),
        set_parameter("num_features", 0),
        set_parameter("kernel", "os.system"),
        set_parameter("heldout_fraction", "all"),
        lambda arguments, tensors: tensors.pop("model.head.bias"),
        lambda arguments, tensors: tensors.update({"model.head.bias": torch.zeros(9)}),
        lambda arguments, tensors: arguments.pop("model"),
    ],
)
def test_a_hostile_file_is_a_value_error(change, stored: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bochner object"):
        bochner.load(rewritten(stored, tmp_path / "hostile", change))


def test_the_rewriting_itself_is_harmless(stored: Path, tmp_path: Path) -> None:
    loaded = bochner.load(rewritten(stored, tmp_path / "same", lambda *_: None))
    np.testing.assert_array_equal(loaded.predict(rings()[0]), bochner.load(stored).predict(rings()[0]))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(1, 10**9))
def test_a_truncated_file_is_a_value_error(cut: int, stored: Path, tmp_path: Path) -> None:
    content = stored.read_bytes()
    (tmp_path / "cut").write_bytes(content[: cut % len(content)])
    with pytest.raises(ValueError, match="cut"):
        bochner.load(tmp_path / "cut")
