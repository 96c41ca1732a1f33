"""One measurement: a set, a bandwidth, a rank, a method, a seed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import torch
from torch import Generator, Tensor

from bochner.kernels import Gaussian, Kernel
from bochner.lowrank import Factor, spectral_error, stable_rank
from bochner.studies.ledger import Result
from bochner.studies.lowrank.methods import STUDIED
from bochner.studies.lowrank.sets import Points, load

Kind = Literal["factor", "seconds", "optimum", "stable rank", "split", "folds"]


ERROR_POINTS = 1000
# Added to the seed for the points that judge: drawn with the method's own seed they would be its landmarks.
JUDGING = 1_000_000
TEST_SHARE = 0.2
WARM_POINTS = 10_000  # up to so many, a first fit warms up what the second is timed with
FOLDS = 10


@dataclass(frozen=True)
class Cell:
    """What is measured; `samples` is |Omega| in units of n log n, None is the method's own default.

    "factor"       error, parameters and condition number of a method
    "seconds"      how long a fit takes, the second of two where that is short; a study has the machine for itself then
    "optimum"      the (r + 1)-th eigenvalue of the kernel matrix of 1,000 points alone, the thesis's SVD column
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
    """The numbers of one cell. Everything random follows from its seed."""
    result = _KINDS[cell.kind](cell, load(cell.data, data_dir, seed=cell.seed))
    return {**result, "threads": torch.get_num_threads()}


def _factor(cell: Cell, points: Points) -> Result:
    factor = _fit(cell, points.X)
    error = spectral_error(factor, points.X, num_points=ERROR_POINTS, generator=_judging(cell))
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
    chosen = torch.randperm(len(points.X), generator=_judging(cell))[:ERROR_POINTS]
    values = torch.linalg.eigvalsh(_kernel(cell)(points.X[chosen]))
    return {"spectral": float(values[-1 - cell.rank]), "parameters": len(points.X) * cell.rank, "rank": cell.rank}


def _stable_rank(cell: Cell, points: Points) -> Result:
    kernel = Gaussian().with_bandwidth("mean", points.X, generator=_judging(cell))
    kernel = kernel.replace(bandwidth=cell.bandwidth * kernel.bandwidth)
    found = stable_rank(kernel, points.X, num_points=ERROR_POINTS, generator=_judging(cell))
    return {"stable_rank": found.value, "multiple": cell.bandwidth}


def _split(cell: Cell, points: Points) -> Result:
    order = torch.randperm(len(points.X), generator=_judging(cell))
    test, train = order.split([num_test := round(TEST_SHARE * len(order)), len(order) - num_test])
    fitted, predicted = predict(cell, points.X[train], points.y[train], points.X[test])
    return {
        "train_rmse": float((fitted - points.y[train]).square().mean().sqrt()),
        "test_rmse": float((predicted - points.y[test]).square().mean().sqrt()),
        "parameters": float(len(train) * (cell.rank or len(train))),
    }


def _folds(cell: Cell, points: Points) -> Result:
    """The root of the mean over folds of their mean squared errors."""
    order, errors, start = torch.randperm(len(points.X), generator=_judging(cell)), [], time.perf_counter()
    for fold in order.chunk(FOLDS):
        inside = torch.ones(len(order), dtype=torch.bool)
        inside[fold] = False
        _, predicted = predict(cell, points.X[inside], points.y[inside], points.X[fold])
        errors.append(float((predicted - points.y[fold]).square().mean()))
    return {"rmse": (sum(errors) / FOLDS) ** 0.5, "seconds": time.perf_counter() - start}


def predict(cell: Cell, X: Tensor, y: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """Ridge regression on centred targets: predictions for X and for new points, by a factor or by all of K."""
    mean = y.mean()
    if cell.method == "exact":
        weights = _solve(_kernel(cell)(X), cell.ridge, y - mean)
        return y - cell.ridge * weights, _kernel(cell)(new, X) @ weights + mean  # K w = y - ridge w
    factor = _fit(cell, X)
    weights = factor.project(factor.solve(cell.ridge, y - mean)[:, None]).squeeze(1)
    return factor.root @ weights + mean, factor.transform(new) @ weights + mean


def _solve(K: Tensor, ridge: float, y: Tensor) -> Tensor:
    """(K + ridge I)^{-1} y; K is used up."""
    K.diagonal().add_(ridge)
    return torch.cholesky_solve(y[:, None], torch.linalg.cholesky(K, out=K)).squeeze(1)


def _fit(cell: Cell, X: Tensor) -> Factor:
    fit = STUDIED[cell.method]
    return fit(_kernel(cell), X, cell.rank, Generator().manual_seed(cell.seed), cell.samples, cell.rounds)


def _kernel(cell: Cell) -> Kernel:
    return Gaussian(bandwidth=cell.bandwidth)


def _judging(cell: Cell) -> Generator:
    return Generator().manual_seed(JUDGING + cell.seed)


_KINDS: Mapping[Kind, Callable[[Cell, Points], Result]] = MappingProxyType(
    {
        "factor": _factor,
        "seconds": _seconds,
        "optimum": _optimum,
        "stable rank": _stable_rank,
        "split": _split,
        "folds": _folds,
    }
)
