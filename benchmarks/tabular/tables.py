"""The tables, their targets and their splits.

`tabular/*.parquet` are described by `tabular/index.csv`; `*.npz` are numeric sets, some with a test part of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

Array = NDArray[Any]
Kind = Literal["binary", "multiclass", "regression", "multilabel"]
Metric = Literal["accuracy", "roc_auc", "r2"]

NOT_FEATURES = {"nasscds": ["weight"]}  # the sampling weight of the survey


class NumericSet(NamedTuple):
    """A numeric set: whether it is a regression, and which arrays contain the inputs."""

    is_regression: bool
    inputs: str = "X"


# Original units where the file also has scaled inputs: scaling is left to the models.
NUMERIC = {
    "a9a": NumericSet(False),
    "cadata": NumericSet(True),
    "covtype_sample": NumericSet(False, "X_raw"),
    "cpu_act": NumericSet(True),
    "cpu_rahimi": NumericSet(True),
    "cpusmall": NumericSet(True),
    "german_numer": NumericSet(False),
    "house_16h": NumericSet(True),
    "ijcnn1": NumericSet(False),
    "mnist": NumericSet(False),
    "phoneme_esl": NumericSet(False),
    "satimage_scale": NumericSet(False, "X_{part}_raw"),
    "vowel_esl": NumericSet(False),
    "wine_quality": NumericSet(True),
}


@dataclass(frozen=True)
class Table:
    """Rows with their targets: numbers, classes 0 .. C - 1, or one column of 0 and 1 per label [n, L]."""

    name: str
    X: pd.DataFrame
    y: Array
    kind: Kind
    metric: Metric
    num_train: int | None = None  # rows of the training part where the source has a split; they come first

    @property
    def num_classes(self) -> int:
        return 0 if self.kind == "regression" else 2 if self.kind == "multilabel" else int(self.y.max()) + 1

    def split(self, seed: int) -> tuple[Array, Array]:
        """Row numbers to train and to test on: the source's split, or a random 80/20, stratified by class."""
        rows = np.arange(len(self.X))
        if self.num_train is not None:
            return rows[: self.num_train], rows[self.num_train :]
        strata = self.y if self.kind in ("binary", "multiclass") else None
        train, test = train_test_split(rows, test_size=0.2, random_state=seed, stratify=strata)
        return train, test


def read(name: str, data: Path) -> Table:
    """The table of that name in the directory `data`."""
    if name in NUMERIC:
        return _read_numeric(name, data / f"{name}.npz")
    return _read_frame(name, data / "tabular")


def sizes(data: Path) -> dict[str, int]:
    """The number of rows of every table, the smallest first."""
    rows = _index(data / "tabular")["rows"].to_dict() if (data / "tabular" / "index.csv").exists() else {}
    for name in NUMERIC:
        if (data / f"{name}.npz").exists():
            rows[name] = _num_rows(data / f"{name}.npz")
    return dict(sorted(rows.items(), key=lambda item: item[1]))


def _index(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "index.csv", index_col="name")


def _num_rows(path: Path) -> int:
    with np.load(path) as arrays:
        return sum(len(arrays[key]) for key in ("y", "y_train", "y_test") if key in arrays)


def _read_frame(name: str, folder: Path) -> Table:
    entry = _index(folder).loc[name]
    frame = pd.read_parquet(folder / entry["file"])
    targets = entry["target"].split(";")
    X = frame.drop(columns=targets + NOT_FEATURES.get(name, []))
    if entry["task"] == "multilabel":
        return Table(name, X, frame[targets].to_numpy(np.int64), "multilabel", "accuracy")
    if entry["task"] in ("regression", "count"):
        return Table(name, X, frame[targets[0]].to_numpy(np.float64), "regression", "r2")
    metric: Metric = "roc_auc" if entry["metric"].startswith("ROC") else "accuracy"
    return Table(name, X, _codes(frame[targets[0]]), entry["task"], metric)


def _read_numeric(name: str, path: Path) -> Table:
    spec = NUMERIC[name]
    with np.load(path) as arrays:
        parts = ["train", "test"] if "y_train" in arrays else [""]
        inputs = [arrays[_inputs_key(spec.inputs, part)] for part in parts]
        y = np.concatenate([arrays[f"y_{part}" if part else "y"] for part in parts])
        names = [str(column) for column in arrays["columns"]] if "columns" in arrays else None
    X = np.concatenate(inputs).astype(np.float32)
    columns = names if names and len(names) == X.shape[1] else [f"x{i}" for i in range(X.shape[1])]
    num_train = len(inputs[0]) if len(parts) == 2 else None
    frame = pd.DataFrame(X, columns=columns)
    if spec.is_regression:
        return Table(name, frame, y.astype(np.float64), "regression", "r2", num_train)
    codes = _codes(y)
    return Table(name, frame, codes, "binary" if codes.max() == 1 else "multiclass", "accuracy", num_train)


def _inputs_key(template: str, part: str) -> str:
    if not part:
        return template
    return template.format(part=part) if "{" in template else f"{template}_{part}"


def _codes(labels: Any) -> Array:
    """Classes as 0 .. C - 1, in sorted order."""
    return np.unique(np.asarray(labels), return_inverse=True)[1].astype(np.int64)
