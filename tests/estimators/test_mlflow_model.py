"""Estimators as MLflow models: signature, predictions, and the library's own messages for bad requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from bochner import KernelClassifier, KernelRegressor
from bochner.estimators.mlflow_model import save_model

pyfunc = pytest.importorskip("mlflow.pyfunc")


@pytest.fixture(scope="module")
def people() -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    job = rng.choice(["clerk", "nurse", "pilot"], 100)
    joined = pandas.Timestamp("2020-01-01") + pandas.to_timedelta(rng.integers(0, 900, 100), unit="D")
    age = rng.integers(18, 70, 100)
    income = np.where(job == "pilot", "high", "low")
    return pandas.DataFrame({"job": job, "age": age, "joined": joined, "income": income})


@pytest.fixture(scope="module")
def saved(people: pandas.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> tuple[KernelClassifier, Path]:
    model = KernelClassifier(preset="fast", random_state=0).fit(people, target="income")
    path = tmp_path_factory.mktemp("mlflow") / "model"
    save_model(model, path, input_example=people.drop(columns="income")[:3])
    return model, path


def test_predictions_are_those_of_the_estimator(saved: Any, people: pandas.DataFrame) -> None:
    model, path = saved
    X = people.drop(columns="income")
    served = pyfunc.load_model(str(path)).predict(X)
    assert served["prediction"].tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(served[["p(high)", "p(low)"]], model.predict_proba(X))


def test_the_directory_holds_no_pickle(saved: Any) -> None:
    names = {file.name for file in saved[1].rglob("*") if file.is_file()}
    assert "model.safetensors" in names
    assert not any(name.endswith((".pkl", ".pickle")) for name in names)
    assert "bochner==" in (saved[1] / "requirements.txt").read_text()


def test_requests_as_json_with_missing_values_and_text_of_dates(saved: Any) -> None:
    model, path = saved
    rows = pandas.DataFrame({"job": ["nurse", None], "age": [30.0, None], "joined": ["2020-05-01", "2021-01-02"]})
    served = pyfunc.load_model(str(path)).predict(rows)
    np.testing.assert_allclose(served["p(low)"], model.predict_proba(rows)[:, 1])
    with pytest.raises(Exception, match="age"):
        pyfunc.load_model(str(path)).predict(rows.drop(columns="age"))
    with pytest.raises(Exception, match="column 'joined' must hold values of kind date, got 'soon'"):
        pyfunc.load_model(str(path)).predict(rows.assign(joined="soon"))


@pytest.mark.parametrize("outputs", [1, 2])
def test_arrays_and_numbers(outputs: int, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = X[:, 0] if outputs == 1 else X
    model = KernelRegressor(preset="fast", random_state=0).fit(X, y)
    save_model(model, tmp_path / "m")
    served = pyfunc.load_model(str(tmp_path / "m")).predict(X)
    np.testing.assert_allclose(served.to_numpy(), model.predict(X).reshape(60, -1))
