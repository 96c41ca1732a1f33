"""The data sets of the comparison, each as (X, y, X_test, y_test) in float32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler

from bochner.kernels import Gaussian

Array = NDArray[Any]
Parts = tuple[Array, Array, Array, Array]


@dataclass(frozen=True)
class Task:
    """One data set: `load(directory)` returns its parts; `bandwidth` None is the median rule."""

    name: str
    text: str
    load: Callable[[Path], Parts]
    num_features: int = 4096
    is_regression: bool = False
    bandwidth: float | None = None

    def kernel_width(self, X: Array) -> float:
        """The bandwidth of all kernel models."""
        if self.bandwidth is not None:
            return self.bandwidth
        generator = torch.Generator().manual_seed(0)
        return Gaussian().with_bandwidth("median", torch.from_numpy(X), generator=generator).bandwidth


def _mnist(folder: Path) -> Parts:
    data = np.load(folder / "mnist.npz")
    scaled = (data[part].astype(np.float32) / 255 for part in ("X_train", "X_test"))
    X, X_test = scaled
    return X, data["y_train"].astype(np.int64), X_test, data["y_test"].astype(np.int64)


def _given_split(name: str) -> Callable[[Path], Parts]:
    def load(folder: Path) -> Parts:
        data = np.load(folder / f"{name}.npz")
        X, y, X_test, y_test = (data[part] for part in ("X_train", "y_train", "X_test", "y_test"))
        return X.astype(np.float32), y.astype(np.int64), X_test.astype(np.float32), y_test.astype(np.int64)

    return load


def _shuffled_split(name: str, inputs: str, *, targets: type = np.int64) -> Callable[[Path], Parts]:
    """80 % to train, 20 % to test by a fixed permutation, standardised by the training part."""

    def load(folder: Path) -> Parts:
        data = np.load(folder / f"{name}.npz")
        X, y = data[inputs].astype(np.float32), data["y"].astype(targets)
        order = np.random.RandomState(0).permutation(len(X))
        return _standardised(X[order], y[order], int(0.8 * len(X)))

    return load


def _made(folder: Path) -> Parts:
    X, y = make_classification(
        n_samples=25000,
        n_features=50,
        n_informative=20,
        n_redundant=10,
        n_classes=10,
        n_clusters_per_class=4,
        class_sep=1.0,
        flip_y=0.02,
        random_state=0,
    )
    return _standardised(X.astype(np.float32), y, 20000)


def _standardised(X: Array, y: Array, count: int) -> Parts:
    scaler = StandardScaler().fit(X[:count])
    X = scaler.transform(X).astype(np.float32)
    return X[:count], y[:count], X[count:], y[count:]


TASKS = [
    Task("mnist", "MNIST, 60,000 x 784, 10 classes, pixels / 255", _mnist, num_features=16384),
    Task("a9a", "a9a, 32,561 x 123, 2 classes", _given_split("a9a")),
    Task("ijcnn1", "ijcnn1, 49,990 x 22, 2 classes", _given_split("ijcnn1")),
    Task("covtype", "covtype, a sample of 92,962 x 54, 7 classes, 80/20", _shuffled_split("covtype_sample", "X_raw")),
    Task("made", "make_classification, 20,000 x 50, 10 classes, bandwidth 5", _made, bandwidth=5.0),
    Task(
        "cadata",
        "cadata (California housing), 20,640 x 8, 80/20",
        _shuffled_split("cadata", "X", targets=np.float64),
        is_regression=True,
    ),
    Task(
        "house",
        "house_16h, 22,784 x 16, 80/20",
        _shuffled_split("house_16h", "X", targets=np.float64),
        is_regression=True,
    ),
    Task(
        "cpu",
        "cpu_act, 8,192 x 21, 80/20",
        _shuffled_split("cpu_act", "X", targets=np.float64),
        is_regression=True,
    ),
]
