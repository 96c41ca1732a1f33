"""Estimators as MLflow models, which `mlflow models serve` and `mlflow.pyfunc.load_model` run."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bochner import __version__, checks
from bochner.estimators.batch import output_types, predict_frame
from bochner.estimators.inputs import feature_names
from bochner.storage import load, save

MODEL_FILE = "model.safetensors"


def save_model(model: Any, path: str | os.PathLike[str], *, input_example: Any = None) -> None:
    """Write a fitted estimator as an MLflow model to the new directory `path`; needs the package mlflow.

    The directory holds the safetensors file of `bochner.save`, the signature of inputs and outputs, and the
    requirements; no code is pickled. Served, the model takes rows with the columns of training and returns
    `prediction`, and for classifiers `p(CLASS)` of every class. Then `mlflow models serve -m PATH --env-manager local`
    answers requests.

    Parameters
    ----------
    model
        A fitted classifier or regressor.
    path
        A directory that does not exist yet.
    input_example
        A few rows, as a pandas DataFrame or array, stored as an example of a request.
    """
    check_is_fitted(model)
    mlflow = checks.imported("mlflow.pyfunc", extra="mlflow")
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, MODEL_FILE)
        save(model, file)
        mlflow.save_model(
            os.fspath(path),
            loader_module=__name__,
            data_path=os.fspath(file),
            signature=signature_of(model),
            input_example=input_example,
            pip_requirements=[f"bochner=={__version__}", "pandas"],
            metadata={"columns": column_kinds(model)},
        )


def signature_of(model: Any) -> Any:
    """The inputs and outputs of a fitted estimator as an MLflow signature.

    Columns of inputs may have any type: the estimator converts them, and its messages name the value that it cannot
    convert, while MLflow refuses integers for doubles. Their kinds are in the metadata of the model.
    """
    models = checks.imported("mlflow.models", extra="mlflow")
    types = checks.imported("mlflow.types.schema", extra="mlflow")
    names = list(column_kinds(model))
    if names:
        inputs = types.Schema([types.ColSpec(types.AnyType(), name) for name in names])
    else:
        inputs = types.Schema([types.TensorSpec(np.dtype(np.float64), (-1, model.n_features_in_))])
    kinds = {"i": "long", "f": "double", "b": "boolean"}
    outputs = [types.ColSpec(kinds.get(dtype.kind, "string"), name) for name, dtype in output_types(model).items()]
    return models.ModelSignature(inputs=inputs, outputs=types.Schema(outputs))


def column_kinds(model: Any) -> dict[str, str]:
    """The kind of every column that a fitted estimator uses; empty if its inputs have no names."""
    if model.encoder_ is not None:
        return {column.name: column.kind for column in model.encoder_.columns if column.outputs}
    return dict.fromkeys(feature_names(model) or [], "number")


class ServedModel:
    """The object that MLflow calls: `predict` of a frame or array of rows."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, X: Any, params: Any = None) -> Any:
        """Predictions of rows as a pandas DataFrame; columns that the model does not have are ignored.

        Rows that the model cannot read are an `MlflowException`, whose message a server sends to the client.
        """
        try:
            return predict_frame(self.model, X)
        except (TypeError, ValueError) as error:
            exceptions = checks.imported("mlflow.exceptions", extra="mlflow")
            raise exceptions.MlflowException.invalid_parameter_value(str(error)) from error


def _load_pyfunc(path: str) -> ServedModel:
    """Called by MLflow with the path of the data: the file, or the directory that holds it."""
    file = Path(path)
    return ServedModel(load(file / MODEL_FILE if file.is_dir() else file))
