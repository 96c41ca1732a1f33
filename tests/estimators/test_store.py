"""Every public estimator through `bochner.save`, pickle and skops; files with damaged or hostile content."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
from collections.abc import Callable
from functools import partial
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
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

import bochner
from bochner import FourierFeatures, LowRankPCA, LowRankRidge, LowRankSpectralClustering, NystromFeatures
from bochner.estimators.store import ESTIMATORS, SavableMixin
from bochner.kernels import Gaussian, Laplacian, Polynomial
from bochner.lowrank import fit_meka
from bochner.storage import pack, unpack
from tests.estimators.cases import waves

PUBLIC = [thing for thing in vars(bochner).values() if inspect.isclass(thing) and issubclass(thing, BaseEstimator)]
SMALL = {"rank": 20, "num_landmarks": 20, "n_clusters": 2, "num_features": 32, "n_components": 4, "max_epochs": 3}
VARIANTS = [
    FourierFeatures(kernel=Gaussian(bandwidth=2.0) + Laplacian(bandwidth=3.0), n_components=8, random_state=0),
    FourierFeatures(kernel="sparse-gaussian", n_components=8, random_state=3),
    FourierFeatures(projection="hadamard3", form="cosine", n_components=7, random_state=0),
    NystromFeatures(num_landmarks=10, num_experts=2, weighting="fitted", random_state=0),
    LowRankRidge(exact=True, kernel=Laplacian(bandwidth=2.0), rank=20, random_state=0),
    LowRankRidge(method="svd", gamma=0.5, rank=20, alpha=0.5, random_state=0),
    LowRankRidge(method="meka", rank=20, random_state=0),
    LowRankRidge(kernel=Polynomial(degree=3), method="pivoted-cholesky", rank=20, random_state=0),
]


def small(cls: type[BaseEstimator]) -> BaseEstimator:
    """An estimator of that class that is quick to fit."""
    names = set(inspect.signature(cls).parameters) - ({"rank"} if cls.__name__.startswith("Kernel") else set())
    return cls(random_state=0, **{name: value for name, value in SMALL.items() if name in names})


every_estimator = pytest.mark.parametrize(
    "estimator", [*map(small, PUBLIC), *VARIANTS], ids=lambda estimator: repr(estimator)[:60].replace("\n", "")
)


def fit(estimator: BaseEstimator, X: Any) -> BaseEstimator:
    y = waves(len(X))[1]
    return clone(estimator).fit(X, (y > 0) if hasattr(estimator, "predict_proba") else y)


def outputs(estimator: BaseEstimator, X: Any) -> dict[str, Any]:
    """What every prediction method returns."""
    names = [
        name for name in ("predict", "predict_proba", "decision_function", "transform") if hasattr(estimator, name)
    ]
    results = {name: getattr(estimator, name)(X) for name in names}
    return results or {"labels_": estimator.labels_, "embedding_": estimator.embedding_}


def assert_same(restored: BaseEstimator, fitted: BaseEstimator, X: Any) -> None:
    assert type(restored) is type(fitted)
    expected = outputs(fitted, X)
    for name, values in outputs(restored, X).items():
        np.testing.assert_array_equal(values, expected[name])
        assert values.dtype == expected[name].dtype
    fitted_names = {name for name in vars(fitted) if name.endswith("_") and name != "history_"}
    assert {name for name in vars(restored) if name.endswith("_")} >= fitted_names


@every_estimator
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bochner_files(estimator: BaseEstimator, dtype: type, tmp_path: Path) -> None:
    X = waves(60)[0].astype(dtype)
    fitted = fit(estimator, X)
    bochner.save(fitted, tmp_path / "estimator")
    restored = bochner.load(tmp_path / "estimator")
    assert_same(restored, fitted, X)
    assert repr(restored) == repr(fitted)
    refitted = fit(restored, X)
    assert_same(refitted, fitted, X)


@every_estimator
def test_pickle_and_copies(estimator: BaseEstimator) -> None:
    X, _ = waves(60)
    fitted = fit(estimator, X)
    for restored in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted), copy.copy(fitted)):
        assert_same(restored, fitted, X)
        assert repr(restored) == repr(fitted)


@every_estimator
def test_skops(estimator: BaseEstimator) -> None:
    io = pytest.importorskip("skops.io")
    X, _ = waves(60)
    fitted = fit(estimator, X)
    content = io.dumps(fitted)
    untrusted = io.get_untrusted_types(data=content)
    assert all(name.startswith("bochner.") for name in untrusted)
    assert_same(io.loads(content, trusted=untrusted), fitted, X)


@pytest.mark.gpu
@every_estimator
def test_files_onto_the_gpu(estimator: BaseEstimator, tmp_path: Path) -> None:
    X, _ = waves(60)
    fitted = fit(estimator, X)
    bochner.save(fitted, tmp_path / "estimator")
    expected, loaded = outputs(fitted, X), bochner.load(tmp_path / "estimator", device="cuda")
    for restored in (loaded, copy.deepcopy(loaded)):
        for name, values in outputs(restored, X).items():
            np.testing.assert_allclose(values, expected[name], rtol=1e-4, atol=1e-5)


def test_column_names_are_restored(tmp_path: Path) -> None:
    frame = pd.DataFrame(waves(60)[0], columns=["a", "b", "ç"])
    bochner.save(FourierFeatures(n_components=4).fit(frame), tmp_path / "map")
    restored = bochner.load(tmp_path / "map")
    assert restored.feature_names_in_.tolist() == ["a", "b", "ç"]
    assert restored.feature_names_in_.dtype == object
    with pytest.raises(ValueError, match="feature names"):
        restored.transform(frame[["b", "a", "ç"]])


def test_parameters_of_this_process_take_their_defaults(tmp_path: Path) -> None:
    X, y = waves(60)
    ridge = LowRankRidge(method=partial(fit_meka, num_clusters=2), rank=10, random_state=np.random.RandomState(0))
    with pytest.warns(UserWarning, match="method=.*LowRankRidge is not saved") as caught:
        bochner.save(ridge.fit(X, y), tmp_path / "ridge")
    assert caught[0].filename == __file__
    restored = bochner.load(tmp_path / "ridge")
    assert (restored.method, restored.random_state) == (LowRankRidge().method, None)
    np.testing.assert_array_equal(restored.predict(X), ridge.predict(X))
    bochner.save(FourierFeatures(device="cpu", random_state=np.int64(3)).fit(X), tmp_path / "map")
    restored = bochner.load(tmp_path / "map")
    assert (restored.device, restored.random_state) == ("auto", 3)
    assert copy.deepcopy(ridge).method.func is fit_meka


@pytest.mark.parametrize("cls", PUBLIC)
def test_an_unfitted_estimator_is_not_saved(cls: type[BaseEstimator], tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        bochner.save(cls(), tmp_path / "estimator")
    assert list(tmp_path.iterdir()) == []


def test_a_class_with_the_name_of_another_is_not_saved(tmp_path: Path) -> None:
    other = type("FourierFeatures", (FourierFeatures,), {"__module__": "elsewhere"})
    assert ESTIMATORS["FourierFeatures"] is FourierFeatures
    with pytest.raises(TypeError, match=r"elsewhere\.FourierFeatures"):
        bochner.save(other(n_components=4).fit(waves(60)[0]), tmp_path / "map")


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1, 2: "two", True: None},
        [(1, 2.5), [], {}],
        np.array(["x", "longer"]),
        np.array([["x", 1], [2.5, True]], dtype=object),
        np.arange(6, dtype=">i4").reshape(2, 3).T,
        np.array(3.0),
        np.zeros((0, 2), dtype=bool),
        np.float32(0.1),
        float("inf"),
        {"nested": {"array": np.eye(2), "tensor": torch.ones(2)}, "array": np.zeros(1)},
    ],
    ids=repr,
)
def test_values_survive_packing(value: Any) -> None:
    tensors: dict[str, torch.Tensor] = {}
    tree = json.loads(json.dumps(pack(value, "key", tensors)))
    assert_equal(unpack(tree, tensors), value.item() if isinstance(value, np.generic) else value)


def assert_equal(restored: Any, value: Any) -> None:
    assert type(restored) is type(value)
    if isinstance(value, dict):
        assert list(restored) == list(value)
        assert [type(key) for key in restored] == [type(key) for key in value]
        restored, value = list(restored.values()), list(value.values())
    if isinstance(value, list | tuple):
        for one, other in zip(restored, value, strict=True):
            assert_equal(one, other)
    elif isinstance(value, np.ndarray | torch.Tensor):
        np.testing.assert_array_equal(restored, value)
        assert np.asarray(restored).dtype == np.asarray(value).dtype.newbyteorder("=")
    else:
        assert restored == value


@pytest.mark.parametrize(
    "value",
    [object(), {"f": len}, np.array([1j]), np.array([object()]), {1, 2}],
    ids=["object", "function", "complex", "object array", "set"],
)
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="key"):
        pack(value, "key", {})


# -- files with other content ------------------------------------------------------------------------------------------

Change = Callable[[dict[str, Any], dict[str, Any], dict[str, torch.Tensor]], object]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stored") / "map"
    X = pd.DataFrame(waves(60)[0], columns=["a", "b", "c"])
    bochner.save(FourierFeatures(n_components=4, random_state=0).fit(X), path)
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


def drop(*names: str) -> Change:
    def change(params: dict[str, Any], state: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        for name in names:
            (state if name in state else tensors).pop(name)

    return change


KERNEL = {"class": "Gaussian", "arguments": {"bandwidth": 1.0}}


@pytest.mark.parametrize(
    "change",
    [
        lambda *_: "GridSearchCV",
        lambda *_: "SavableMixin",
        lambda *_: "LowRankPCA",
        lambda *_: "NystromFeatures",
        put_param("n_components", 0),
        put_param("n_components", "many"),
        put_param("kernel", "os.system"),
        put_param("kernel", {"class": "os.system", "arguments": {"command": "true"}}),
        put_param("kernel", {"class": "Gaussian", "arguments": {"bandwidth": -1.0}}),
        put_param("__class__", "FourierFeatures"),
        put_param("fit", 1),
        put_state("n_features_in_", 4),
        put_state("n_features_in_", 0),
        put_state("n_features_in_", True),
        put_state("n_features_in_", "3"),
        put_state("feature_names_in_", ["a", "b", "c"]),
        put_state("feature_names_in_", {"array": ["a", "b"], "shape": [2], "text": False}),
        put_state("feature_names_in_", {"array": ["a", "b", 3], "shape": [3], "text": False}),
        put_state("feature_names_in_", {"array": ["a", "b", "c"], "shape": [3, 2], "text": False}),
        put_state("feature_names_in_", {"array": [["a"], ["b"], ["c"]], "shape": [3], "text": False}),
        put_state("map_", None),
        put_state("map_", KERNEL),
        put_state("fit", 1),
        put_state("extra_", 1.0),
        drop("map_"),
        drop("n_features_in_"),
        drop("state.map_.projection.frequencies"),
        lambda params, state, tensors: tensors.update({"state.map_.projection.frequencies": torch.zeros(9)}),
    ],
)
def test_a_hostile_file_is_a_value_error(change: Change, stored: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bochner object"):
        bochner.load(rewritten(stored, tmp_path / "hostile", change))


def test_rewriting_alone_is_accepted(stored: Path, tmp_path: Path) -> None:
    X = pd.DataFrame(waves(60)[0], columns=["a", "b", "c"])
    restored = bochner.load(rewritten(stored, tmp_path / "same", lambda *_: None))
    np.testing.assert_array_equal(restored.transform(X), bochner.load(stored).transform(X))


def test_a_changed_byte_is_a_value_error(stored: Path, tmp_path: Path) -> None:
    content = bytearray(stored.read_bytes())
    content[-1] ^= 1
    (tmp_path / "damaged").write_bytes(content)
    with pytest.raises(ValueError, match="checksum"):
        bochner.load(tmp_path / "damaged")


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(1, 10**9))
def test_a_truncated_file_is_a_value_error(cut: int, stored: Path, tmp_path: Path) -> None:
    content = stored.read_bytes()
    (tmp_path / "cut").write_bytes(content[: cut % len(content)])
    with pytest.raises(ValueError, match="cut"):
        bochner.load(tmp_path / "cut")


@pytest.mark.parametrize(
    ("estimator", "name", "value", "message"),
    [
        (LowRankRidge(rank=5), "_is_single", True, "model_ must have 1 output, got 2"),
        (LowRankPCA(n_components=2, rank=5), "eigenvalues_", np.ones(3), r"must have shape \(2,\)"),
        (LowRankSpectralClustering(n_clusters=2, rank=5), "embedding_", np.ones((60, 3)), r"2 columns, got \(60, 3\)"),
    ],
)
def test_state_that_does_not_fit_is_refused(
    estimator: BaseEstimator, name: str, value: Any, message: str, tmp_path: Path
) -> None:
    X, y = waves(60)
    fitted = estimator.set_params(random_state=0).fit(X, np.column_stack([y, y]))
    bochner.save(fitted, tmp_path / "good")
    assert type(bochner.load(tmp_path / "good")) is type(estimator)
    setattr(fitted, name, value)
    bochner.save(fitted, tmp_path / "bad")
    with pytest.raises(ValueError, match=message):
        bochner.load(tmp_path / "bad")


def test_every_public_estimator_has_declared_its_state() -> None:
    for cls in PUBLIC:
        assert issubclass(cls, SavableMixin)
        assert cls._fitted_state, cls
        assert ESTIMATORS[cls.__name__] is cls
