"""Paths, frames with their target, datasets and data loaders go into `fit`, paths and datasets into `predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import bochner
from bochner import KernelClassifier, KernelRegressor, NetworkClassifier


@pytest.fixture(scope="module")
def people() -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    job = rng.choice(["clerk", "nurse", "pilot"], 120)
    size = np.where(rng.random(120) < 0.1, np.nan, rng.normal(size=120).round(3))
    return pandas.DataFrame({"job": job, "size": size, "income": np.where(job == "pilot", "high", "low")})


def fitted(X: Any, **arguments: Any) -> KernelClassifier:
    return KernelClassifier(preset="fast", random_state=0).fit(X, **arguments)


@pytest.fixture(scope="module")
def expected(people: pandas.DataFrame) -> np.ndarray[Any, Any]:
    X = people[["job", "size"]]
    return fitted(X, y=people["income"]).predict_proba(X)


@pytest.mark.parametrize("target", ["income", -1])
@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas", "polars", "arrow", "dataset"])
def test_every_container_gives_the_same_model(
    kind: str, target: str | int, people: pandas.DataFrame, expected: Any, tmp_path: Path
) -> None:
    X: Any = people
    if kind == "csv":
        people.to_csv(X := tmp_path / "t.csv", sep=";", decimal=",", index=False)
    elif kind == "parquet":
        people.to_parquet(X := str(tmp_path / "t.parquet"))
    elif kind == "polars":
        X = pytest.importorskip("polars").from_pandas(people)
    elif kind == "arrow":
        X = pyarrow.Table.from_pandas(people)
    elif kind == "dataset":
        X = pytest.importorskip("datasets").Dataset.from_pandas(people)
    model = fitted(X, target=target)
    np.testing.assert_allclose(model.predict_proba(people[["job", "size"]]), expected, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-6)  # the target is not an input
    assert model.score(X) == model.score(people[["job", "size"]], people["income"])
    bochner.save(model, tmp_path / "model.safetensors")
    assert bochner.load(tmp_path / "model.safetensors").target_name_ == model.target_name_ == "income"


def test_files_of_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": X[:, 0] + X[:, 1]}).to_csv(tmp_path / "t.csv", index=False)
    np.savez(tmp_path / "t.npz", X=X, y=X.sum(axis=1))
    of_csv = KernelRegressor(preset="fast", random_state=0).fit(tmp_path / "t.csv", target="y")
    of_npz = KernelRegressor(preset="fast", random_state=0).fit(tmp_path / "t.npz")
    assert of_csv.encoder_ is None
    np.testing.assert_allclose(of_npz.predict(X), of_csv.predict(X), atol=1e-6)
    np.testing.assert_allclose(of_csv.predict(tmp_path / "t.npz"), of_csv.predict(X))
    source = bochner.open_source(tmp_path / "t.csv", target="y")
    of_source = KernelRegressor(preset="fast", random_state=0).fit(source)
    np.testing.assert_allclose(of_source.predict(X), of_csv.predict(X), atol=1e-6)
    assert of_source.feature_names_in_.tolist() == ["a", "b"]
    expected = of_source.score(X, X.sum(axis=1))
    for rows in (source, tmp_path / "t.npz"):
        np.testing.assert_allclose(of_source.score(rows), expected, atol=1e-6)
    of_source.fit(X, X.sum(axis=1))
    assert not hasattr(of_source, "feature_names_in_")
    with pytest.raises(ValueError, match="y must be given"):
        of_source.score(X)


@pytest.mark.parametrize("estimator", [KernelClassifier(preset="fast"), NetworkClassifier(hidden=[8])])
def test_data_loaders(estimator: Any) -> None:
    X = torch.randn(80, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    y = (X.sum(dim=(1, 2, 3)) > 0).long()
    model = estimator.set_params(random_state=0).fit(DataLoader(TensorDataset(X, y), batch_size=32))
    again = estimator.set_params(random_state=0).fit(X.flatten(1), y)
    np.testing.assert_array_equal(model.predict(X.flatten(1)), again.predict(X.flatten(1)))
    for data in (TensorDataset(X, y), TensorDataset(X)):
        np.testing.assert_array_equal(model.predict(DataLoader(data, batch_size=32)), again.predict(X.flatten(1)))
    assert model.score(DataLoader(TensorDataset(X, y), batch_size=32)) == again.score(X.flatten(1), y)


@pytest.mark.parametrize(
    ("X", "arguments", "message"),
    [
        ("t.csv", {"y": [1, 2]}, "y must be None"),
        ("t.csv", {"target": "no"}, "no column 'no'"),
        ("t.csv", {}, "target must name the column"),
        ("nowhere.csv", {"target": "y"}, "nowhere.csv does not exist"),
        (np.eye(3), {"target": "y"}, "target must be None unless X is a path"),
        (pandas.DataFrame({"a": [1.0, 2.0]}), {"target": "y"}, "X has no column 'y'; its columns are"),
        (DataLoader(TensorDataset(torch.eye(3))), {}, "batches"),
        (DataLoader([]), {}, "at least one batch, got none"),
        (DataLoader(TensorDataset(torch.eye(3), torch.arange(3))), {"target": "y"}, "target must be None with a data"),
    ],
)
def test_what_cannot_be_read(X: Any, arguments: Any, message: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a,b\nx,1\ny,2\n")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        KernelClassifier().fit(X, **arguments)


def test_notebooks_show_what_was_chosen(people: pandas.DataFrame) -> None:
    model = KernelClassifier(preset="fast", random_state=0)
    assert "bandwidth: " not in model._repr_mimebundle_()["text/html"]
    model.fit(people, target="income")
    for page in (model._repr_mimebundle_()["text/html"], model._repr_html_()):
        assert "most important columns: job" in page
        assert "bandwidth: " in page
