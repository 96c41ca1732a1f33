"""Predictions of a stored estimator for parts of large data, for Ray Data, Spark and Dask."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bochner import checks
from bochner.estimators.base import BaseModel, bias_of
from bochner.estimators.inputs import feature_names
from bochner.remote import is_url, local_path
from bochner.search.plan import resolve_device
from bochner.storage import load

SPARK_TYPES = {"U": "string", "i": "bigint", "u": "bigint", "b": "boolean", "f": "double"}


class BatchPredictor:
    """A stored classifier or regressor as a function of a pandas DataFrame, for engines that call it on every part.

    Called with a frame it returns a frame with the same index: the columns `keep`, then `prediction` and, for
    classifiers, `p(CLASS)` of every class. Several labels or targets have one column each, `label NAME` or `prediction
    INDEX`. Columns are matched by name; those that the model does not have are ignored. The predictions for a row do
    not depend on the other rows of its part.

    Only the path is pickled. Every process loads the model when it first needs it, once, and again only after the file
    has changed.

    Parameters
    ----------
    path
        The file of `bochner.save` or the output directory of `bochner train`, where all workers can read it; it may
        be a URL.
    keep
        Columns of the input that are returned before the predictions, such as identifiers of rows.
    device
        Where predictions are computed; "auto" is the GPU if the worker has one.

    Examples
    --------
    >>> import tempfile, pandas, bochner
    >>> frame = pandas.DataFrame({"who": ["a", "b", "c", "d"], "x": [1.0, 2.0, 8.0, 9.0]})
    >>> model = bochner.KernelClassifier(preset=None).fit(frame[["x"]], ["low", "low", "high", "high"])
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     bochner.save(model, directory + "/model.safetensors")
    ...     BatchPredictor(directory + "/model.safetensors", keep=["who"])(frame[1:3])[["who", "prediction"]]
      who prediction
    1   b        low
    2   c       high
    """

    def __init__(self, path: str | os.PathLike[str], *, keep: Sequence[str] = (), device: str = "auto") -> None:
        if isinstance(keep, str):
            raise TypeError(f"keep must be a list of column names, got the text {keep!r}.")
        self.path = os.fspath(path) if is_url(path) else os.fspath(Path(path).absolute())
        self.keep, self.device = list(keep), device
        repeated = sorted(set(self.keep) & set(output_types(self.model)))
        if repeated:
            raise ValueError(f"keep must not name columns of the predictions, got {repeated}.")

    @property
    def model(self) -> Any:
        """The estimator, loaded once in every process."""
        path = local_path(self.path)
        file = path / "model.safetensors" if path.is_dir() else path
        return _loaded(file, file.stat().st_mtime_ns, self.device)

    def __call__(self, frame: Any) -> Any:
        """The columns `keep` of a pandas DataFrame [n, d] and the predictions for its rows; n may be 0."""
        missing = [name for name in self.keep if name not in frame.columns]
        if missing:
            raise ValueError(f"keep must name columns of the input, {list(frame.columns)}, got {missing}.")
        pandas = checks.imported("pandas", extra="mlflow")
        return pandas.concat([frame[self.keep], predict_frame(self.model, frame)], axis=1)

    def map_frames(self, frames: Iterable[Any]) -> Iterator[Any]:
        """The predictions for an iterator of frames, for `mapInPandas` of a Spark DataFrame."""
        return map(self, frames)

    def spark_schema(self, schema: Any) -> str:
        """The schema of the result of `mapInPandas`, given that of the Spark DataFrame."""
        types = {name: schema[name].dataType.simpleString() for name in self.keep}
        types |= {name: SPARK_TYPES[dtype.kind] for name, dtype in output_types(self.model).items()}
        return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in types.items())


@lru_cache(maxsize=4)
def _loaded(path: Path, changed: int, device: str) -> Any:
    """The estimator in a file; `changed`, the time of its last change, makes a new file a new entry."""
    model = load(path, device=resolve_device(device))
    if not isinstance(model, BaseModel):
        raise ValueError(f"{path} must hold a classifier or regressor, got {type(model).__name__}.")
    return model


def predict_frame(model: Any, frame: Any) -> Any:
    """Predictions of a fitted estimator for the rows of a pandas DataFrame or array, as a DataFrame with its index.

    Columns that the model does not have are ignored.
    """
    pandas = checks.imported("pandas", extra="mlflow")
    index = getattr(frame, "index", None)
    if not len(frame):
        # of a row, so that text has the type that pandas gives it
        row = {name: np.zeros(1, dtype) for name, dtype in output_types(model).items()}
        return pandas.DataFrame(row)[:0].set_axis(frame.index if index is not None else [])
    if index is not None and (names := feature_names(model)) is not None:
        frame = frame[[name for name in names if name in frame.columns]]
    if not hasattr(model, "classes_"):
        parts = [np.asarray(model.predict(frame)).reshape(len(frame), -1)]
    else:
        labels, p = model.predict_with_proba(frame)
        parts = [labels.reshape(len(frame), -1), p]
    columns = [column for part in parts for column in part.T]
    return pandas.DataFrame(dict(zip(output_types(model), columns, strict=True)), index=index)


def output_types(model: Any) -> dict[str, np.dtype[Any]]:
    """The columns of `predict_frame` with their types."""
    number = np.dtype(np.float64)
    if not hasattr(model, "classes_"):
        if model.single_target_:
            return {"prediction": number}
        return {f"prediction {index}": number for index in range(_num_outputs(model))}
    probabilities = {f"p({label})": number for label in model.classes_.tolist()}
    if model.multilabel_:
        return {f"label {label}": np.dtype(np.int64) for label in model.classes_} | probabilities
    dtype = model.classes_.dtype
    return {"prediction": np.dtype(str) if dtype.kind == "O" else dtype} | probabilities


def _num_outputs(model: Any) -> int:
    with torch.no_grad():
        return int(model.model_(bias_of(model.model_).new_zeros(1, model._num_inputs)).shape[1])
