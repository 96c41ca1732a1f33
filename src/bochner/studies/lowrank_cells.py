"""Measurements of low-rank methods on the data sets of the thesis."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from bochner.kernels import Gaussian, Kernel
from bochner.lowrank import Factor, spectral_error, stable_rank
from bochner.studies import costs
from bochner.studies.lowrank_methods import STUDIED
from bochner.studies.results_file import Result

Kind = Literal["factor", "seconds", "optimum", "stable rank", "split", "folds"]
ERROR_POINTS = 1000
# Added to the seed for the points on which errors are measured; with the same seed they would be the landmarks.
ERROR_SEED = 1_000_000
TEST_SHARE = 0.2
WARM_POINTS = 10_000  # up to this many points, an untimed first fit loads libraries and fills caches
FOLDS = 10


@dataclass(frozen=True)
class PointSet:
    """The file of a data set, and the thesis's settings for it (Tables 5.9 and B.1).

    `samples` is |Omega| in units of n log n; `drawn` points are drawn by each seed; `unit` scales the inputs, and the
    targets, to mean 0 and variance 1.
    """

    name: str
    file: str
    inputs: str
    num_points: int
    bandwidth: float
    rank: int = 100
    samples: float | None = None
    rounds: int = 3
    targets: str | None = None
    unit: bool = False
    drawn: int | None = None
    ridge: float | None = None
    ridge_bandwidth: float | None = None

    @property
    def tuned_bandwidth(self) -> float:
        """The bandwidth of Table 5.13."""
        return self.bandwidth if self.ridge_bandwidth is None else self.ridge_bandwidth


_ALL = (
    PointSet("ijcnn1 small", "ijcnn1.npz", "X_train", 1000, 1.06, rank=50, samples=49, drawn=1000),
    PointSet("german", "german_numer.npz", "X_scale", 1000, 3.25, rank=50, samples=49),
    PointSet("satimage", "satimage_scale.npz", "X_train", 4435, 2.32, samples=102),
    PointSet("wine", "wine_quality.npz", "X", 6497, 32, samples=160, targets="y", ridge=0.0039),
    PointSet("cpusmall", "cpusmall.npz", "X", 8192, 2e6, samples=163, targets="y", ridge=1.5e-5),
    PointSet(
        "cadata scaled", "cadata.npz", "X", 20640, 4, rank=200, samples=430, rounds=4, targets="y", unit=True,
        ridge=0.0078, ridge_bandwidth=2,
    ),
    PointSet("ijcnn1 scaled", "ijcnn1.npz", "X_train", 49990, 4.70, rank=200, samples=387, rounds=5, unit=True),
    PointSet("wine scaled", "wine_quality.npz", "X", 6497, 1, targets="y", unit=True, ridge=0.5),
    PointSet("cpusmall scaled", "cpusmall.npz", "X", 8192, 8, targets="y", unit=True, ridge=2**-10),
)  # fmt: skip
SETS: Mapping[str, PointSet] = MappingProxyType({point_set.name: point_set for point_set in _ALL})


class Points(NamedTuple):
    """X [n, d] and y [n] in float64."""

    X: Tensor
    y: Tensor


def load(name: str, data_dir: Path, *, seed: int) -> Points:
    """The points of a data set; y is 0 if it has no targets."""
    point_set = SETS[name]
    path = data_dir / point_set.file
    if not path.exists():
        raise FileNotFoundError(f"data_dir: {path} does not exist; it must contain {point_set.inputs!r} of {name}.")
    with np.load(path) as arrays:
        X = torch.as_tensor(arrays[point_set.inputs]).double()
        y = torch.zeros(len(X)).double() if point_set.targets is None else torch.as_tensor(arrays[point_set.targets])
    y = y.double()
    if point_set.unit:
        X, y = unit(X), y if point_set.targets is None else unit(y)
    if point_set.drawn is None:
        return Points(X, y)
    index = torch.randperm(len(X), generator=Generator().manual_seed(seed))[: point_set.drawn]
    return Points(X[index], y[index])


def unit(columns: Tensor) -> Tensor:
    """Each column scaled to mean 0 and variance 1.

    >>> unit(torch.tensor([1.0, 3.0]))
    tensor([-1.,  1.])
    """
    return (columns - columns.mean(dim=0)) / columns.std(dim=0, unbiased=False)


@dataclass(frozen=True)
class Cell:
    """One measurement; `samples` is |Omega| in units of n log n, None for the default of the method.

    "factor"       error, parameters and condition number of a method
    "seconds"      duration of a fit, the second of two where that is short; nothing else should run on the machine
    "optimum"      eigenvalue r + 1 of the kernel matrix of 1,000 points alone, the column SVD of the thesis
    "stable rank"  of 1,000 points; the bandwidth is in units of the mean rule's
    "split"        root mean squared errors of ridge regression on 80 % of the points and on the other 20 %
    "folds"        the same by cross-validation with 10 folds
    """

    kind: Kind
    data: str
    bandwidth: float
    seed: int
    method: str = ""
    rank: int = 0
    samples: float | None = None
    rounds: int = 3
    ridge: float = 0.0


def measure(cell: Cell, data_dir: Path) -> Result:
    """The result of one cell. All random numbers follow from its seed."""
    result = _KINDS[cell.kind](cell, load(cell.data, data_dir, seed=cell.seed))
    return {**result, "threads": torch.get_num_threads()}


def operations(cell: Cell) -> float:
    """Operations of `measure`; a kernel value counts 60, for about 20 inputs and an exponential."""
    point_set, r = SETS[cell.data], cell.rank
    n = point_set.drawn or point_set.num_points
    K, errors = 60.0 * n**2, costs.eigenvalues(ERROR_POINTS)
    match cell.kind:
        case "optimum" | "stable rank":
            return costs.CELL + errors
        case "split" | "folds" if cell.method == "exact":
            return costs.CELL + (FOLDS if cell.kind == "folds" else 1) * (K + n**3 / 3)
    landmarks = 8 * max(r, 1)
    fit = n * landmarks * (60 + 2 * landmarks) + costs.eigenvalues(landmarks) + costs.kmeans(n, 20, landmarks)
    if "als" in cell.method:
        samples = min(n**2, (cell.samples or r) * n * math.log(n))
        fit += samples * (60 + 40 * r * cell.rounds)
    elif cell.method == "svd":
        fit = K * 5 + 20 * n**2 * r
    elif cell.method == "pivoted-cholesky":
        fit = n * r * (60 + 4 * r)
    times = {"seconds": 2, "folds": FOLDS}.get(cell.kind, 1)
    return costs.CELL + times * fit + (errors if cell.kind == "factor" else 0)


def _factor(cell: Cell, points: Points) -> Result:
    factor = _fit(cell, points.X)
    error = spectral_error(factor, points.X, num_points=ERROR_POINTS, generator=_error_generator(cell))
    return {
        "spectral": error.value,
        "spectral_error": error.error,
        "parameters": factor.num_parameters,
        "rank": factor.rank,
        "condition_number": factor.condition_number(),
    }


def _seconds(cell: Cell, points: Points) -> Result:
    if len(points.X) <= WARM_POINTS:
        _fit(cell, points.X)
    start = time.perf_counter()
    _fit(cell, points.X)
    return {"seconds": time.perf_counter() - start}


def _optimum(cell: Cell, points: Points) -> Result:
    index = torch.randperm(len(points.X), generator=_error_generator(cell))[:ERROR_POINTS]
    values = torch.linalg.eigvalsh(_kernel(cell)(points.X[index]))
    return {"spectral": float(values[-1 - cell.rank]), "parameters": len(points.X) * cell.rank, "rank": cell.rank}


def _stable_rank(cell: Cell, points: Points) -> Result:
    kernel = Gaussian().with_bandwidth("mean", points.X, generator=_error_generator(cell))
    kernel = kernel.replace(bandwidth=cell.bandwidth * kernel.bandwidth)
    estimate = stable_rank(kernel, points.X, num_points=ERROR_POINTS, generator=_error_generator(cell))
    return {"stable_rank": estimate.value, "multiple": cell.bandwidth}


def _split(cell: Cell, points: Points) -> Result:
    order = torch.randperm(len(points.X), generator=_error_generator(cell))
    test, train = order.split([num_test := round(TEST_SHARE * len(order)), len(order) - num_test])
    fitted, predicted = predict(cell, points.X[train], points.y[train], points.X[test])
    return {
        "train_rmse": float((fitted - points.y[train]).square().mean().sqrt()),
        "test_rmse": float((predicted - points.y[test]).square().mean().sqrt()),
        "parameters": float(len(train) * (cell.rank or len(train))),
    }


def _folds(cell: Cell, points: Points) -> Result:
    """The root of the mean over folds of their mean squared errors."""
    order, errors, start = torch.randperm(len(points.X), generator=_error_generator(cell)), [], time.perf_counter()
    for fold in order.chunk(FOLDS):
        inside = torch.ones(len(order), dtype=torch.bool)
        inside[fold] = False
        _, predicted = predict(cell, points.X[inside], points.y[inside], points.X[fold])
        errors.append(float((predicted - points.y[fold]).square().mean()))
    return {"rmse": (sum(errors) / FOLDS) ** 0.5, "seconds": time.perf_counter() - start}


_KINDS: Mapping[Kind, Callable[[Cell, Points], Result]] = MappingProxyType({
    "factor": _factor, "seconds": _seconds, "optimum": _optimum, "stable rank": _stable_rank, "split": _split,
    "folds": _folds,
})  # fmt: skip


def predict(cell: Cell, X: Tensor, y: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """Ridge regression on centred targets: predictions for X and for new points, with a factor or with all of K."""
    mean = y.mean()
    if cell.method == "exact":
        weights = _solve(_kernel(cell)(X), cell.ridge, y - mean)
        return y - cell.ridge * weights, _kernel(cell)(new, X) @ weights + mean  # K w = y - ridge w
    factor = _fit(cell, X)
    weights = factor.project(factor.solve(cell.ridge, y - mean)[:, None]).squeeze(1)
    return factor.root @ weights + mean, factor.transform(new) @ weights + mean


def _solve(K: Tensor, ridge: float, y: Tensor) -> Tensor:
    """(K + ridge I)^{-1} y; K is overwritten."""
    K.diagonal().add_(ridge)
    return torch.cholesky_solve(y[:, None], torch.linalg.cholesky(K, out=K)).squeeze(1)


def _fit(cell: Cell, X: Tensor) -> Factor:
    fit = STUDIED[cell.method]
    return fit(_kernel(cell), X, cell.rank, Generator().manual_seed(cell.seed), cell.samples, cell.rounds)


def _kernel(cell: Cell) -> Kernel:
    return Gaussian(bandwidth=cell.bandwidth)


def _error_generator(cell: Cell) -> Generator:
    return Generator().manual_seed(ERROR_SEED + cell.seed)
