"""Fitted classifiers and regressors in files: every solver, labels, kernels, and files with hostile content."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.base import clone, is_classifier

import bochner
from bochner import KernelClassifier, KernelRegressor, NetworkClassifier
from bochner.kernels import Gaussian, Laplacian, Polynomial
from bochner.search import SolverParams
from tests.estimators.cases import CLASSIFIERS, NETWORK, QUICK, REGRESSORS, options, rings, waves

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def through_a_file(fitted: Any, directory: Path) -> Any:
    bochner.save(fitted, directory / "model.bochner")
    return bochner.load(directory / "model.bochner")


@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        *((estimator, rings) for estimator in CLASSIFIERS.values()),
        *((estimator, waves) for estimator in REGRESSORS.values()),
    ],
    ids=[*CLASSIFIERS, *REGRESSORS],
)
def test_every_solver_is_restored_bit_equal(estimator, data, tmp_path: Path) -> None:
    X, y = data()
    fitted = clone(estimator).fit(X, y)
    loaded = through_a_file(fitted, tmp_path)
    assert type(loaded) is type(fitted)
    assert loaded.get_params() == fitted.get_params()
    assert loaded.make_plan() == fitted.make_plan()
    assert (loaded.solver_, loaded.n_features_in_) == (fitted.solver_, X.shape[1])
    assert (loaded.history_, loaded.choices_) == (fitted.history_, fitted.choices_)
    assert repr(getattr(loaded, "kernel_", None)) == repr(getattr(fitted, "kernel_", None))
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    if is_classifier(estimator):
        np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize(
    "labels",
    [np.array(["a", "bé", "c"]), np.array(["x", "y", "z"], object), np.array([7, -1, 3]), np.array([2.0, 1.0, -5.0])],
    ids=["text", "objects", "integers", "floats"],
)
def test_classes_are_restored(labels: np.ndarray, tmp_path: Path) -> None:
    X, y = rings()
    fitted = KernelClassifier(solver="ridge", **QUICK).fit(X, labels[y])
    loaded = through_a_file(fitted, tmp_path)
    np.testing.assert_array_equal(loaded.classes_, fitted.classes_)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    assert loaded.score(X, labels[y]) > 0.8


def test_bools_names_kernels_and_weights_are_restored(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("as_object", [False, True], ids=["dict", "SolverParams"])
def test_options_of_this_process_are_not_saved(as_object: bool, tmp_path: Path) -> None:
    X, y = rings()
    settings = options(QUICK, random_state=np.random.RandomState(0), checkpoint_dir=tmp_path / "run", device="cpu")
    if as_object:
        settings["solver_params"] = SolverParams(**settings["solver_params"])
    loaded = through_a_file(KernelClassifier(**settings).fit(X, y), tmp_path)
    assert loaded.random_state is None
    params = loaded.make_plan().params
    assert (params.checkpoint_dir, params.device, params.tracking) == (None, "auto", None)
    assert (params.batch_size, params.max_epochs) == (32, 8)


def test_the_defaults_of_networks_are_restored(tmp_path: Path) -> None:
    X, y = rings()
    loaded = through_a_file(NetworkClassifier(**NETWORK).fit(X, y), tmp_path)
    assert loaded.make_plan() == NetworkClassifier(**NETWORK).make_plan()
    assert loaded.make_plan().params.optimizer == "adamw"


# -- hostile files -----------------------------------------------------------------------------------------------------

Change = Callable[[dict[str, Any], dict[str, Any], dict[str, torch.Tensor]], object]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X, y = rings()
    path = tmp_path_factory.mktemp("stored") / "model"
    bochner.save(KernelClassifier(solver="ridge", **QUICK).fit(X, y), path)
    return path


def rewritten(path: Path, to: Path, change: Change) -> Path:
    """The same file with other parameters and attributes, and without a checksum, as an attacker would write it."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = json.loads(file.metadata()["bochner"])
    del header["sha256"]
    arguments = header["tree"]["arguments"]
    params, state = dict(arguments["params"]["dict"]), dict(arguments["state"]["dict"])
    arguments["estimator"] = change(params, state, tensors) or arguments["estimator"]
    arguments["params"], arguments["state"] = {"dict": list(params.items())}, {"dict": list(state.items())}
    save_file(tensors, to, {"bochner": json.dumps(header)})
    return to


def put_param(name: str, value: Any) -> Change:
    return lambda params, state, tensors: params.update({name: value})


def put_state(name: str, value: Any) -> Change:
    return lambda params, state, tensors: state.update({name: value})


def drop_state(name: str) -> Change:
    def change(params: dict[str, Any], state: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        del state[name]

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda *_: "GridSearchCV",
        lambda *_: "NetworkClassifier",
        lambda *_: "KernelRegressor",
        put_param("solver", "magic"),
        put_param("n_components", 0),
        put_param("kernel", "os.system"),
        put_param("validation_fraction", "all"),
        put_param("solver_params", "fast"),
        put_param("solver_params", {"dict": [["batch_size", 0]]}),
        put_param("solver_params", {"dict": [["__class__", "os.system"]]}),
        put_param("adapt", "magic"),
        put_state("n_features_in_", 3),
        put_state("n_features_in_", -1),
        put_state("classes_", {"array": ["a", "b"], "shape": [2], "text": True}),
        put_state("input_offset_", {"array": [1.0], "shape": [1], "text": False}),
        put_state("model_", "model"),
        put_state("model_", {"class": "Gaussian", "arguments": {"bandwidth": 1.0}}),
        put_state("kernel_", None),
        put_state("solver_", 3),
        put_state("history_", "none"),
        drop_state("model_"),
        drop_state("classes_"),
        lambda params, state, tensors: [tensors.pop(name) for name in list(tensors) if name.endswith("bias")] and None,
        lambda params, state, tensors: tensors.update(
            {name: torch.zeros(9) for name in tensors if name.endswith("bias")}
        ),
    ],
)
def test_a_hostile_file_is_a_value_error(change: Change, stored: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bochner object"):
        bochner.load(rewritten(stored, tmp_path / "hostile", change))


def test_rewriting_alone_is_accepted(stored: Path, tmp_path: Path) -> None:
    loaded = bochner.load(rewritten(stored, tmp_path / "same", lambda *_: None))
    np.testing.assert_array_equal(loaded.predict(rings()[0]), bochner.load(stored).predict(rings()[0]))
