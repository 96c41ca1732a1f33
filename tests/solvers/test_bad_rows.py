"""Bad rows of a source: every solver raises an error that names the problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest
import torch

from bochner.data.blocks import Block
from bochner.kernels import Gaussian
from bochner.solvers import (
    fit_askotch,
    fit_eigenpro,
    fit_exact_ridge,
    fit_landmark_logistic,
    fit_landmark_ridge,
    fit_ridge,
    fit_saga,
)
from bochner.solvers.rows import OwnShards
from tests.solvers.problems import classes, fourier_map, generator, points
from tests.solvers.rows import Rows

Fit = Callable[..., object]
SOLVERS: dict[str, Fit] = {
    "ridge": lambda source, num_classes: fit_ridge(fourier_map(), source, alpha=1e-3, num_classes=num_classes),
    "saga": lambda source, num_classes: fit_saga(
        fourier_map(), source, loss="softmax", alpha=1e-3, num_classes=num_classes, generator=generator()
    ),
    "exact ridge": lambda source, num_classes: fit_exact_ridge(Gaussian(), source, num_classes=num_classes),
    "askotch": lambda source, num_classes: fit_askotch(Gaussian(), source, num_classes=num_classes),
    "eigenpro": lambda source, num_classes: fit_eigenpro(Gaussian(), points(5), source, num_classes=num_classes),
    "landmark ridge": lambda source, num_classes: fit_landmark_ridge(
        Gaussian(), points(5), source, num_classes=num_classes
    ),
    "landmark logistic": lambda source, num_classes: fit_landmark_logistic(
        Gaussian(), points(5), source, num_classes=num_classes
    ),
}
every_solver = pytest.mark.parametrize("fit", SOLVERS.values(), ids=SOLVERS.keys())


@every_solver
def test_one_class_only(fit: Fit) -> None:
    with pytest.raises(ValueError, match="y must hold at least two classes, got only class 2"):
        fit(Rows(points(9), torch.full((9,), 2)), 3)


@every_solver
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_inputs_that_are_not_finite(fit: Fit, value: float) -> None:
    X = points()
    y = classes(X, 3)
    X[7, 1] = value
    with pytest.raises(ValueError, match="X must be finite"):
        fit(Rows(X, y, shard_rows=5), 3)


@every_solver
def test_labels_outside(fit: Fit) -> None:
    X = points()
    with pytest.raises(ValueError, match=r"y must lie in 0\.\.2 for num_classes=3, got 3"):
        fit(Rows(X, classes(X, 4)), 3)
    with pytest.raises(TypeError, match=r"y must be \[rows\] of class indices"):
        fit(Rows(X, X[:, 0]), 3)
    with pytest.raises(ValueError, match="num_classes must be at least 2, got 1"):
        fit(Rows(X, classes(X, 4)), 1)


@every_solver
def test_bad_weights(fit: Fit) -> None:
    X = points(6)
    y, w = classes(X, 3), torch.ones(6)
    with pytest.raises(ValueError, match="weight must be non-negative, got -1"):
        fit(Rows(X, y, -w), 3)
    with pytest.raises(ValueError, match="weight must be finite"):
        fit(Rows(X, y, w * float("nan")), 3)
    with pytest.raises(ValueError, match="source must hold rows of positive weight, got 6 rows of weight 0"):
        fit(Rows(X, y, 0 * w), 3)
    with pytest.raises(ValueError, match="source must hold rows of positive weight, got 0 rows"):
        fit(Rows(X[:0], y[:0]), 3)


@pytest.mark.parametrize("name", ["ridge", "exact ridge", "landmark ridge"])
def test_bad_numbers(name: str) -> None:
    X = points()
    with pytest.raises(TypeError, match=r"y must hold floats, got dtype torch.int64; use y.float"):
        SOLVERS[name](Rows(X, classes(X, 3)), None)
    with pytest.raises(ValueError, match="y must be finite"):
        SOLVERS[name](Rows(X, X[:, 0] * float("nan")), None)
    with pytest.raises(ValueError, match=r"y must have shape \[rows\] or \[rows, outputs\]"):
        SOLVERS[name](Rows(X, X[:, :, None]), None)


@every_solver
def test_a_shard_unlike_what_its_source_says(fit: Fit) -> None:
    class Lying(Rows):
        @property
        def shard_sizes(self) -> Sequence[int]:
            return [9]

    X = points(8)
    with pytest.raises(ValueError, match=r"shard 0 must have shape \(9, 3\) as its source says, got \(8, 3\)"):
        fit(Lying(X, classes(X, 3)), 3)


def test_rows_of_different_lengths() -> None:
    with pytest.raises(ValueError, match="y must have one entry per row of X, 5, got 4"):
        SOLVERS["ridge"](Rows(torch.zeros(5, 2), torch.zeros(4)), None)


def test_shards_that_differ() -> None:
    class Growing(Rows):
        def read(self, shard: int) -> Block:
            block = super().read(shard)
            return block._replace(y=block.y[:, : shard + 1])

    source = Growing(points(8), torch.zeros(8, 2), shard_rows=4)
    with pytest.raises(ValueError, match="y must have the same number of columns in all shards, got 1 and 2"):
        SOLVERS["landmark ridge"](source, None)


def test_weights_of_another_shape() -> None:
    with pytest.raises(ValueError, match=r"weight must have shape \(5,\), got \(5, 1\)"):
        SOLVERS["ridge"](Rows(torch.zeros(5, 3), torch.zeros(5), torch.ones(5, 1)), None)


def test_shards_of_one_process() -> None:
    X = points(10)
    source = Rows(X, X[:, 0], shard_rows=2)
    own = OwnShards(source, SimpleNamespace(num_shares=3, share_number=1))
    assert own.shard_sizes == [2, 2]
    assert torch.equal(own.read(1).X, X[8:])  # the shards 1 and 4 of 0 to 4
    with pytest.raises(ValueError, match="at least one shard for each of 6 processes, got 5"):
        OwnShards(source, SimpleNamespace(num_shares=6, share_number=1))
